-- Module: jobs that vtrr-queue put into `queue`, where it keeps all that wait.
--
-- NEEDS  jobs
-- USES   records
-- KEYS   queue task meta

-- vtrr-queue takes any id. One that is none here gets another, the same each time.
local function fitting(id)
  if #id >= 1 and #id <= 64 and not string.find(id, '[^!-~]') then return id end
  return 'vtrr-queue-' .. redis.sha1hex(id)
end

-- Take a job into the line of its partition, "" where vtrr-queue wrote down none; return that
-- partition, or nil where there is no such job.
local function adopt(id)
  call('ZREM', key.queue, id)
  local job = read_meta(id) or read(id, '1:')
  job.name = string.gsub(job.name, '%c', '_')
  local task, own = call('HGET', key.task, id), fitting(id)
  if not task then return nil end
  if own ~= id then
    call('HDEL', key.task, id)
    call('HDEL', key.meta, id)
    call('HSET', key.task, own, task)
    job.id = own
  end
  local part = records().join(job)
  refresh(part)
  return part
end

return { adopt = adopt }
