-- Take jobs that vtrr-queue put into `queue` by itself into the lines of their partitions.
--
-- NEEDS    jobs
-- USES     adopting
-- KEYS     queue task scheduled line state staged
-- ARGV     2 how many at the front of `queue` to pass over, 3 most to look at
-- RETURNS  how many were looked at, how many of them stand for a partition

local lined_up = call('ZCARD', key.line) + tonumber(call('HGET', key.state, 'backlog') or '0')
local foreign = call('HLEN', key.task) - call('ZCARD', key.scheduled) - lined_up
-- Large enqueues may have stored tasks ahead of their lines.
if foreign <= 0 or call('EXISTS', key.staged) == 1 then return { 0, 0 } end

local skip, stay = tonumber(ARGV[2]), 0
local ids = call('ZRANGE', key.queue, skip, skip + tonumber(ARGV[3]) - 1)
for _, id in ipairs(ids) do
  local job = read_meta(id)
  if job and partition_of(job.name).head == id then
    stay = stay + 1
  else
    adopting().adopt(id)
  end
end
save()
return { #ids, stay }
