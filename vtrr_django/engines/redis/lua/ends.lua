-- Shared: the end of a lease.
--
-- NEEDS  jobs
-- USES   records measuring
-- KEYS   lease lease_info inflight inflight_task meta details timeouts task scheduled
--        outbox_completed outbox_failed
--
-- inflight       sorted set: id by the second its lease runs out (of the Redis clock)
-- inflight_task  hash: id -> the JSON that `task` held
-- lease          hash: id -> token, the proof; lease_info  hash: id -> "claimed charged worker_id"
--                (microseconds, seconds)
-- outbox_*       streams of ended jobs on their way to the database: "job" holds, with \31 between
--                them: id, task, meta, lease_info, runtime (seconds), now, details, timeouts

-- Take leases away; return the jobs with what the leases were. The first thing this writes
-- frees memory: see lease.lua.
local function end_leases(ids)
  call('HDEL', key.lease, unpack(ids))
  local metas, infos = call('HMGET', key.meta, unpack(ids)), call('HMGET', key.lease_info, unpack(ids))
  local tasks = call('HMGET', key.inflight_task, unpack(ids))
  call('HDEL', key.lease_info, unpack(ids))
  call('HDEL', key.inflight_task, unpack(ids))
  call('ZREM', key.inflight, unpack(ids))
  local jobs = {}
  for index, id in ipairs(ids) do
    local job = read(id, metas[index] or '1:')
    job.info, job.task = infos[index] or '', tasks[index] or ''
    if not tonumber(string.match(job.info, '^%d+ (%S+) ')) then job.info = text(now) .. ' 0 ' end
    local part = partition_of(job.name)
    part.leased = math.max(0, part.leased - 1)
    jobs[index] = job
  end
  return jobs
end

-- Return when a lease began (microseconds), and the seconds charged for it so far.
local function lease_of(job)
  local claimed, charged = string.match(job.info, '^(%d+) (%S+) ')
  return tonumber(claimed), tonumber(charged)
end

-- Put an ended job on its way to the history; the script that ends it does, so that nothing
-- can fall between; return the second its entry tells. `death` is nil, or what killed it: {kind,
-- reason, error_class, traceback}.
local function send_to_history(job, details, timeouts, runtime, death)
  local told = table.concat({ job.id, job.task, job.meta, job.info, text(runtime), text(now),
    details or '', timeouts or '' }, '\31')
  local entry
  if death then
    entry = call('XADD', key.outbox_failed, '*', 'job', told, 'kind', death[1], 'reason', death[2],
      'error_class', death[3], 'traceback', death[4])
  elseif rule_kept then
    -- Many more than are kept of completed jobs need not be on their way either.
    entry = call('XADD', key.outbox_completed, 'MAXLEN', '~', rule_kept, '*', 'job', told)
  else
    entry = call('XADD', key.outbox_completed, '*', 'job', told)
  end
  return tonumber(string.match(entry, '^%d+')) / 1000
end

-- End a job for good; the caller deletes its `meta`.
local function conclude(job, runtime, death)
  local kept = death ~= nil or rule_kept ~= 0
  local details, timeouts
  if job.more then
    details, timeouts = call('HGET', key.details, job.id), call('HGET', key.timeouts, job.id)
  end
  local ended = kept and send_to_history(job, details, timeouts, runtime, death)
  if job.more then
    records().let_go_of_names(job.id, records().read_details(job.id), ended)
    call('HDEL', key.details, job.id)
    call('HDEL', key.timeouts, job.id)
  end
end

-- Let a job that was leased be due again at `due` (microseconds).
local function put_off(job, due)
  local created = created_at(job)
  job.place = job.place or '64000000000000' -- leased by vtrr-queue 0.2
  records().write_meta(job, created)
  call('HSET', key.task, job.id, job.task)
  call('ZADD', key.scheduled, text(due / 1e6), job.id)
  local part = partition_of(job.name)
  part.scheduled = part.scheduled + 1
end

local function count_attempt(job)
  local details = records().read_details(job.id)
  details.deliveries = details.deliveries + 1
  records().write_details(job.id, details)
  job.more = true
end

-- Let a job that was leased be ready again, at its old place or at the end of the line.
local function put_back(job, keep_place)
  call('HSET', key.task, job.id, job.task)
  if keep_place and job.place then
    records().return_to_place(job)
  else
    records().join(job)
  end
end

-- End one lease as an outcome says; return whether the job is gone for good.
--   kind ack|fail|retry|snooze|release, id, token, delay (microseconds), runtime (seconds, or
--   "" to measure), reason, error_class, traceback
local function finish(job, kind, delay, runtime, reason, error_class, traceback)
  local part, at_once = partition_of(job.name), kind == 'release'
  local ran = tonumber(runtime)
  if not ran then ran = kind == 'release' and 0 or math.max(0, (now - lease_of(job)) / 1e6) end
  if measured then
    local _, charged = lease_of(job)
    measuring().charge(part, ran - charged)
    if kind ~= 'release' then measuring().learn(job, ran) end
  end
  if kind == 'ack' then
    conclude(job, ran, nil)
  elseif kind == 'fail' then
    conclude(job, ran, { 'error', reason, error_class, traceback })
  elseif kind == 'release' then
    put_back(job, true)
  else
    if kind == 'retry' then count_attempt(job) end
    at_once = tonumber(delay) == 0
    if at_once then put_back(job, false) else put_off(job, now + tonumber(delay)) end
  end
  -- A candidate stays one; what else has a job waiting may have been at its limit.
  if at_once or (part.head == '' and part.ready > 0) then refresh(part) end
  return kind == 'ack' or kind == 'fail'
end

local OUTCOME = 8

-- Finish the outcomes in ARGV from `from` on; return one "1" or "0" each, in one string.
local function finish_all(from, count)
  if count == 0 then return '' end
  local asked, done, ids, at, gone = {}, {}, {}, {}, {}
  for index = 1, count do asked[index] = ARGV[from + (index - 1) * OUTCOME + 1] end
  local tokens = call('HMGET', key.lease, unpack(asked))
  for index, id in ipairs(asked) do
    local ours = tokens[index] == ARGV[from + (index - 1) * OUTCOME + 2] and not at[id]
    done[index] = ours and '1' or '0'
    if ours then
      ids[#ids + 1] = id
      at[id] = from + (index - 1) * OUTCOME
    end
  end
  if #ids == 0 then return table.concat(done) end
  for _, job in ipairs(end_leases(ids)) do
    local first = at[job.id]
    if finish(job, ARGV[first], unpack(ARGV, first + 3, first + OUTCOME - 1)) then
      gone[#gone + 1] = job.id
    end
  end
  if #gone > 0 then call('HDEL', key.meta, unpack(gone)) end
  end_busy_period()
  return table.concat(done)
end
