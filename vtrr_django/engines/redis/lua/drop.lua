-- Drop one batch of a large enqueue that was withdrawn.
--
-- NEEDS    state
-- USES     rows
-- KEYS     staged task meta
-- ARGV     2 name of the enqueue, 3 number of the batch
-- RETURNS  1 where there was such a batch, else 0

local field = ARGV[2] .. ' ' .. ARGV[3]
if call('HEXISTS', key.staged, ARGV[2]) == 1 then return 0 end
local batch = call('HGET', key.staged, field)
if not batch then return 0 end
call('HDEL', key.staged, field)
if string.sub(batch, 1, 1) == 'R' then
  local ids = rows().ids(string.sub(batch, 2))
  call('HDEL', key.task, unpack(ids))
  call('HDEL', key.meta, unpack(ids))
end
return 1
