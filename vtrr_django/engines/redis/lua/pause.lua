-- Pause or resume the queue.
--
-- NEEDS  clock
-- KEYS   state
-- ARGV   2 "1" to pause, "0" to resume

call('HDEL', key.state, '') -- frees nothing: see lease.lua

if ARGV[2] == '1' then
  call('HSET', key.state, 'paused', text(now))
else
  call('HDEL', key.state, 'paused')
end
