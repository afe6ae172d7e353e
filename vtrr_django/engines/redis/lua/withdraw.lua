-- Decide that a large enqueue does not count, unless it does already; drop.lua drops its batches.
--
-- NEEDS    clock
-- KEYS     staged
-- ARGV     2 name of the enqueue
-- RETURNS  1 where it is committed, else 0

if string.sub(call('HGET', key.staged, ARGV[2]) or '', 1, 9) == 'committed' then return 1 end
call('HDEL', key.staged, ARGV[2])
return 0
