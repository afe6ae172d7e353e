-- Decide that a large enqueue counts: from now on whoever finds a batch of it admits it.
--
-- NEEDS    clock
-- KEYS     staged finished
-- ARGV     2 name of the enqueue, 3 number of batches
-- RETURNS  1, or 0 where it was withdrawn meanwhile

call('HDEL', key.staged, '') -- frees nothing: see lease.lua
if call('HEXISTS', key.staged, ARGV[2]) == 0 then
  -- Others may have stored all of it before a client repeats the command.
  return call('ZSCORE', key.finished, 'e' .. ARGV[2]) and 1 or 0
end
call('HSET', key.staged, ARGV[2], 'committed ' .. ARGV[3])
return 1
