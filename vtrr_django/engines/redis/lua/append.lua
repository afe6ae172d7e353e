-- Store a long row of plain jobs at the end of its partition's line.
--
-- A row is stored once, and only while its places are reserved: a client that repeats its commands
-- would count it twice, also jobs of it that have ended meanwhile.
--
-- NEEDS   state
-- USES    rows
-- KEYS    task meta staged
-- ARGV    2 name of the enqueue, as in reserve.lua; 3 the row, see rows.lua; then ids and tasks of
--         its jobs in turn, and as many ids and metas
-- ERRORS  OOM before the first write, when Redis is out of memory

local FIRST, PAIRS = 4, 2000 -- where the pairs begin, most values of one command

local function write(where, from, to)
  for at = from, to, PAIRS do
    call('HSET', where, unpack(ARGV, at, math.min(to, at + PAIRS - 1)))
  end
end

if call('HEXISTS', key.staged, ARGV[2]) == 0 then return end
local middle = FIRST + (#ARGV - FIRST + 1) / 2
write(key.task, FIRST, middle - 1)
write(key.meta, middle, #ARGV)
call('HDEL', key.staged, ARGV[2])
rows().add(ARGV[3])
save()
