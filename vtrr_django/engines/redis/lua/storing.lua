-- Shared: storing new jobs.
--
-- NEEDS    jobs places
-- USES     records backlog
-- KEYS     task meta scheduled inflight_task finished msg_id line
--
-- jobs     fields ended by \31, jobs by \30: id, partition key, weight, priority, due (microseconds,
--          "+" microseconds from now, or ""; what is not in the future is ready at once), JSON task,
--          then for jobs with names of the caller's, a parent or used attempts: given (0|1),
--          parent_id, msg_id; for others three times ""; before \30 the attempts used, if any
-- shares   partition key \31 share \30, as SHARES declares them

local FIELD = '([^\31\30]*)\31'
local JOB = string.rep(FIELD, 9) .. '(%d*)\30'
local LEAST = 16 -- fewest jobs that are worth a block of the backlog

-- Read a list of ids, each ended by \30, as a set.
local function set_of(ids)
  local set = {}
  for id in string.gmatch(ids, '([^\30]+)\30') do set[id] = true end
  return set
end

local function is_live(id)
  return call('HEXISTS', key.task, id) + call('HEXISTS', key.inflight_task, id) > 0
end

-- Return the job, if there is one, that has the id or msg_id of a new one: as known.lua does.
local function in_the_way(index, id, given, msg_id, forgotten)
  local other, live, ended = nil, true, nil
  if given == '1' then
    if is_live(id) then
      other = id
    elseif not forgotten[id] then
      ended = call('ZSCORE', key.finished, 'i' .. id)
      if ended then other, live = id, false end
    end
  end
  if not other and msg_id ~= '' then
    other = call('HGET', key.msg_id, msg_id)
    if other then
      live = is_live(other)
      if not live and forgotten[other] then other = nil end
    end
    ended = not live and call('ZSCORE', key.finished, 'm' .. msg_id)
  end
  if not other then return nil end
  if not live then return { index, 'ended', other, '', ended or '' } end
  local meta = read_meta(other)
  return { index, 'live', other, meta and meta.name or '',
    call('HGET', key.task, other) or call('HGET', key.inflight_task, other) or '' }
end

-- Return what stands in the way of `jobs`; the ids in `forgotten` do not.
local function look(jobs, forgotten)
  local found, index = {}, 0
  for id, _, _, _, _, _, given, _, msg_id in string.gmatch(jobs, JOB) do
    if given ~= '' then
      found[#found + 1] = in_the_way(index, id, given, msg_id, forgotten)
    end
    index = index + 1
  end
  return found
end

-- One command for many jobs: most of the time goes into calls.
local batch

local function flush(least)
  if batch and #batch.task < least then return end
  if batch then
    call('HSET', key.task, unpack(batch.task))
    call('HSET', key.meta, unpack(batch.meta))
    if #batch.scheduled > 0 then call('ZADD', key.scheduled, unpack(batch.scheduled)) end
  end
  batch = nil
end

local function add(list, field, value)
  list[#list + 1] = field
  list[#list + 1] = value
end

local function store_details(id, given, parent, msg_id, deliveries)
  flush(0) -- the task first: with it Redis says whether there is memory
  records().write_details(id, { deliveries = tonumber(deliveries) or 0, given = given,
    parent = parent, msg_id = msg_id })
  if msg_id ~= '' then call('HSET', key.msg_id, msg_id, id) end
  call('ZREM', key.finished, 'i' .. id, 'm' .. msg_id)
end

-- Put the jobs that a partition got by this call into its line, or a long row of them behind it.
local function line_up(part, jobs)
  if #jobs >= 2 * LEAST and jobs.plain then
    backlog().add(part, jobs)
  else
    for from = 1, #jobs, 2000 do
      local members = {}
      for index = from, math.min(#jobs, from + 1999), 2 do
        add(members, '0', member_of(part.name, jobs[index], jobs[index + 1]))
      end
      call('ZADD', key.line, unpack(members))
    end
  end
  part.ready = part.ready + #jobs / 2
  refresh(part)
end

-- Store `jobs` but those at the positions in `skip`.
local function store(jobs, shares, skip)
  local lines, index = {}, -1
  for id, name, weight, priority, due, task, given, parent, msg_id, deliveries in
    string.gmatch(jobs, JOB) do
    index = index + 1
    -- The caller's own ids have been looked up; others are there if a client repeats its commands.
    if not skip[index] and (given == '1' or call('HEXISTS', key.meta, id) == 0) then
      batch = batch or { task = {}, meta = {}, scheduled = {} }
      local part, place = partition_of(name), place_of(tonumber(priority))
      add(batch.task, id, task)
      local more = given ~= '' and ',' .. text(EPOCH + 10 * sequence) .. ',+' or ''
      add(batch.meta, id, weight .. ',' .. place .. more .. ':' .. name)
      local after = string.match(due, '^%+(%d+)$')
      local wait = after and tonumber(after) or (tonumber(due) or now) - now
      if wait <= 0 then
        lines[part] = lines[part] or { plain = true }
        add(lines[part], place, id)
        if priority ~= '0' or not pack_uuid(id) then lines[part].plain = false end
      else
        add(batch.scheduled, text((now + wait) / 1e6), id)
        part.scheduled = part.scheduled + 1
      end
      if given ~= '' then store_details(id, given, parent, msg_id, deliveries) end
      flush(2000)
    end
  end
  if batch then flush(0) end
  for name, share in string.gmatch(shares, '([^\31\30]*)\31([^\31\30]*)\30') do
    local part = partition_of(name)
    if part.declared ~= share then
      part.declared = share
      set(part)
    end
  end
  for part, its in pairs(lines) do line_up(part, its) end
end
