-- Module: measured cost, COST="runtime"; the formulas are those of domain/fairness.py.
--
-- NEEDS    jobs
-- KEYS     average
--
-- average  hash: partition key -> task name (JSON) \31 running average of its run time in seconds \30
--          and so on: forget.lua forgets all that a partition has

local SMOOTHING, FIRST_ESTIMATE = 0.2, 1

-- Return the running average of such jobs (nil: there is none), what the hash says of the others of
-- the partition, and how it names the task.
local function look(job)
  local name = (string.match(job.task or '', '^{"task_name": ?("[^"]*")') or '""') .. '\31'
  local all = call('HGET', key.average, job.name) or ''
  local from = string.find('\30' .. all, '\30' .. name, 1, true)
  if not from then return nil, all, name end
  local ends = string.find(all, '\30', from, true) or #all
  return tonumber(string.sub(all, from + #name, ends - 1)),
    string.sub(all, 1, from - 1) .. string.sub(all, ends + 1), name
end

-- Seconds a lease is charged: half of what such jobs take. Charging all of it and refunding the
-- difference breaks the fairness bound.
local function first_charge(job)
  return (look(job) or FIRST_ESTIMATE) / 2
end

-- Charge `seconds` more, or (negative) fewer; a refund never goes below the current time.
local function charge(part, seconds)
  local before = virtual_time_of(part)
  local at = before + seconds / share_of(part)
  if seconds < 0 then at = math.max(at, math.min(before, current_virtual_time())) end
  move(part, at)
end

local function learn(job, runtime)
  local average, others, name = look(job)
  average = average and average + SMOOTHING * (runtime - average) or runtime
  call('HSET', key.average, job.name, others .. name .. text(average) .. '\30')
end

return { first_charge = first_charge, charge = charge, learn = learn }
