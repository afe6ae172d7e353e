-- Shared: leasing in fair order.
--
-- NEEDS  ends
-- USES   adopting measuring
-- KEYS   current_virtual_time queue line task inflight inflight_task lease lease_info details timeouts state

local ADOPTIONS = 500

-- Take the job at the front of the queue, which stands for `part`, out of its line.
local function take(job, part, tag)
  call('ZREM', key.queue, job.id)
  local first = first_in_line(part, 2)
  if first[1] then call('ZREM', key.line, first[1]) end -- else somebody took it away
  part.head, part.leased, part.ready = '', part.leased + 1, part.ready - 1
  virtual_time = math.max(virtual_time, tag)
  job.cost = job.weight
  if measured then
    job.task = call('HGET', key.task, job.id)
    job.cost = measuring().first_charge(job)
  end
  part.at, part.moved = tag + job.cost / share_of(part), true
  refresh(part, first[2])
end

-- Write down the leases of `jobs`.
local function hold(jobs, expires, worker, token)
  local ids, taken, ends, proofs, infos = {}, {}, {}, {}, {}
  for index, job in ipairs(jobs) do
    local pair = 2 * index - 1
    ids[index] = job.id
    ends[pair], ends[pair + 1] = expires, job.id
    proofs[pair], proofs[pair + 1] = job.id, token .. index
    infos[pair], infos[pair + 1] =
      job.id, string.format('%d %.17g %s', now, measured and job.cost or 0, worker)
  end
  local tasks = call('HMGET', key.task, unpack(ids))
  for index, id in ipairs(ids) do
    tasks[index] = tasks[index] or '' -- somebody took it away; the others' leases count
    taken[2 * index - 1], taken[2 * index] = id, tasks[index]
  end
  call('HDEL', key.task, unpack(ids))
  call('HSET', key.inflight_task, unpack(taken))
  call('ZADD', key.inflight, unpack(ends))
  call('HSET', key.lease, unpack(proofs))
  call('HSET', key.lease_info, unpack(infos))
  return tasks
end

-- Lease up to `n` jobs; return for each: id, task, meta, timeouts, details ("" where there are
-- none), token.
local function lease(n, worker, seconds, token)
  if call('HEXISTS', key.state, 'paused') == 1 then return {} end
  local jobs, adoptions, adopted = {}, 0, nil
  local before = current_virtual_time()
  while #jobs < n and adoptions < ADOPTIONS do
    local front = call('ZRANGE', key.queue, 0, 0, 'WITHSCORES')
    if #front == 0 then break end
    local job = read_meta(front[1])
    local part = job and partition_of(job.name)
    if part and part.head == job.id then
      take(job, part, tonumber(front[2]))
      jobs[#jobs + 1] = job
    else
      part = adopting().adopt(front[1])
      if part and part.head ~= '' then adopted = adopted or part end
      adoptions = adoptions + 1
    end
  end
  -- An empty answer would say that nothing may run.
  if #jobs == 0 and adopted and adoptions == ADOPTIONS then
    jobs[1] = read_meta(adopted.head)
    take(jobs[1], adopted, virtual_time_of(adopted))
  end
  if #jobs == 0 then return {} end
  if virtual_time ~= before then call('SET', key.current_virtual_time, text(virtual_time)) end
  local tasks = hold(jobs, text((now + seconds * 1e6) / 1e6), worker, token)
  local told = {}
  for index, job in ipairs(jobs) do
    local timeouts, details = '', ''
    if job.more then
      timeouts = call('HGET', key.timeouts, job.id) or ''
      details = call('HGET', key.details, job.id) or ''
    end
    local at = 6 * index
    told[at - 5], told[at - 4], told[at - 3] = job.id, tasks[index], job.meta
    told[at - 2], told[at - 1], told[at] = timeouts, details, token .. index
  end
  return told
end
