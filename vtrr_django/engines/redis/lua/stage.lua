-- Lay one batch of a large enqueue aside; nothing of it counts before commit.lua.
--
-- NEEDS    clock
-- KEYS     staged
-- ARGV     2 name of the enqueue, 3 number of the batch (from 0), 4 the batch
-- RETURNS  1, or 0 where the enqueue was withdrawn meanwhile
-- ERRORS   OOM before the first write, when Redis is out of memory
--
-- staged  hash: "<enqueue> <number>" -> "J" shares \29 jobs (see storing.lua), or "R" and a row
--         (see rows.lua; the hashes of its jobs are written by then); "<enqueue>" -> "staged
--         <moment>", and "committed <batches>" from commit.lua on

if ARGV[3] == '0' then
  call('HSET', key.staged, ARGV[2], 'staged ' .. text(now))
elseif call('HEXISTS', key.staged, ARGV[2]) == 0 then
  return 0
end
call('HSET', key.staged, ARGV[2] .. ' ' .. ARGV[3], ARGV[4])
return 1
