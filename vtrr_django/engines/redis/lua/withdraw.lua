-- Decide that a large enqueue does not count, unless it does already; drop.lua drops its batches.
--
-- NEEDS    clock
-- KEYS     staged finished
-- ARGV     2 name of the enqueue
-- RETURNS  1 where it is committed, stored by others or not, else 0

if string.sub(call('HGET', key.staged, ARGV[2]) or '', 1, 9) == 'committed' then return 1 end
if call('ZSCORE', key.finished, 'e' .. ARGV[2]) then return 1 end
call('HDEL', key.staged, ARGV[2])
return 0
