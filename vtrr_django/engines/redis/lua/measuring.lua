-- Module: measured cost, COST="runtime"; the formulas are those of domain/fairness.py.
--
-- NEEDS    jobs
-- KEYS     average
--
-- average  hash: partition key, NUL, task name (JSON) -> running average of its run time in seconds

local SMOOTHING, FIRST_ESTIMATE = 0.2, 1

local function field_of(job)
  return job.name .. NUL .. (string.match(job.task or '', '^{"task_name": ?("[^"]*")') or '""')
end

-- Seconds a lease is charged: half of what such jobs take. Charging all of it and refunding the
-- difference breaks the fairness bound.
local function first_charge(job)
  return (tonumber(call('HGET', key.average, field_of(job)) or '') or FIRST_ESTIMATE) / 2
end

-- Charge `seconds` more, or (negative) fewer; a refund never goes below the current time.
local function charge(part, seconds)
  local before = virtual_time_of(part)
  local at = before + seconds / share_of(part)
  if seconds < 0 then at = math.max(at, math.min(before, current_virtual_time())) end
  move(part, at)
end

local function learn(job, runtime)
  local average = tonumber(call('HGET', key.average, field_of(job)) or '')
  average = average and average + SMOOTHING * (runtime - average) or runtime
  call('HSET', key.average, field_of(job), text(average))
end

return { first_charge = first_charge, charge = charge, learn = learn }
