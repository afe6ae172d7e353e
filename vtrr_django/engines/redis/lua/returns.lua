-- Module: jobs that come back by themselves, when they are due or when their lease ran out.
--
-- NEEDS  ends
-- USES   records
-- KEYS   scheduled inflight timeouts meta

-- Make up to `limit` due jobs ready, in the order they fell due; return how many there were.
local function promote(limit)
  local due = call('ZRANGEBYSCORE', key.scheduled, '-inf', text(now / 1e6), 'LIMIT', 0, limit)
  if #due == 0 then return 0 end
  local parts = {}
  call('ZREM', key.scheduled, unpack(due))
  for _, id in ipairs(due) do
    local job = read_meta(id)
    if job then
      local part = records().join(job)
      part.scheduled = math.max(0, part.scheduled - 1)
      parts[part] = true
    end
  end
  for part in pairs(parts) do refresh(part) end
  return #due
end

-- Byte by byte: how Lua compares strings depends on the locale of the Redis server.
local function less(a, b)
  for index = 1, math.min(#a, #b) do
    local one, other = string.byte(a, index), string.byte(b, index)
    if one ~= other then return one < other end
  end
  return #a < #b
end

local function older(a, b)
  if a.expires ~= b.expires then return a.expires < b.expires end
  if a.created ~= b.created then return a.created < b.created end
  return less(a.id, b.id)
end

-- Take back up to `limit` leases that ran out, in that order; return five values for each:
-- id, partition key, task (JSON), timeouts, and 1 where that was once too often.
local function reclaim(limit)
  local late = call('ZRANGEBYSCORE', key.inflight, '-inf', text(now / 1e6), 'WITHSCORES', 'LIMIT',
    0, limit)
  if #late == 0 then return {} end
  local ids, told, gone = {}, {}, {}
  for index = 1, #late, 2 do ids[#ids + 1] = late[index] end
  local jobs = end_leases(ids)
  for index, job in ipairs(jobs) do
    job.expires, job.created = tonumber(late[2 * index]), created_at(job)
  end
  table.sort(jobs, older)
  for _, job in ipairs(jobs) do
    local timeouts = call('HINCRBY', key.timeouts, job.id, 1)
    local dead = rule_max_timeouts ~= nil and timeouts >= rule_max_timeouts
    job.more = true
    if dead then
      conclude(job, 0, { 'timeout', '', '', '' })
      gone[#gone + 1] = job.id
    else
      put_back(job, false)
    end
    for _, value in ipairs({ job.id, job.name, job.task, text(timeouts), dead and '1' or '0' }) do
      told[#told + 1] = value
    end
  end
  if #gone > 0 then call('HDEL', key.meta, unpack(gone)) end
  for _, job in ipairs(jobs) do refresh(partition_of(job.name)) end
  end_busy_period()
  return told
end

return { promote = promote, reclaim = reclaim }
