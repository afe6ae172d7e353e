-- Store one plain job that is ready at once: what most enqueues are, and enqueue.lua does in twice
-- the time.
--
-- NEEDS   state places
-- USES    backlog
-- KEYS    task meta line
-- ARGV    2 id, 3 partition key, 4 weight, 5 priority, 6 JSON task, 7 declared share or ""
-- ERRORS  OOM before the first write, when Redis is out of memory

local LONG = 160 -- jobs in a line that make its far end worth packing

if call('HEXISTS', key.meta, ARGV[2]) == 1 then return end -- a client that repeats its commands

local id, part = ARGV[2], partition_of(ARGV[3])
local place = place_of(tonumber(ARGV[5]))
call('HSET', key.task, id, ARGV[6])
call('HSET', key.meta, id, ARGV[4] .. ',' .. place .. ':' .. part.name)
call('ZADD', key.line, '0', member_of(part.name, place, id))
part.ready = part.ready + 1
if ARGV[7] ~= '' and ARGV[7] ~= part.declared then
  part.declared = ARGV[7]
  set(part)
end
refresh(part)
local length = part.ready - part.blocked
if length >= LONG and length % 32 == 0 then backlog().compact(part) end
save()
