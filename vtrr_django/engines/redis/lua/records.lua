-- Module: writing one job's records; joining a line and being forgotten.
--
-- NEEDS  jobs places
-- USES   backlog
-- KEYS   task meta details msg_id finished timeouts line
--
-- task     hash: id -> JSON {"task_name": ..., "args": ..., "kwargs": ...}; never decoded here
-- details  hash: id -> "delivery_count given parent_id msg_id", of jobs where one of them says
--          something; given is 1 where the caller chose the id
-- timeouts hash: id -> leases that ran out
-- msg_id   hash: msg_id -> id; finished  sorted set: "i" id and "m" msg_id of ended jobs with
--          names of the caller's, by the second of their entries on an outbox; "e" name of a large enqueue that
--          others than its enqueuer have stored

local function write_meta(job, at)
  local created = ''
  if job.more or at ~= ready_since(job) then created = ',' .. text(at) end
  if job.more then created = created .. ',+' end
  call('HSET', key.meta, job.id,
    string.format('%d,%s%s:%s', job.weight, job.place, created, job.name))
end

-- Put a job at the end of its partition's line. The caller refreshes the partition.
local function join(job)
  local part = partition_of(job.name)
  local at = created_at(job)
  job.place = place_of(priority_of(job))
  write_meta(job, at)
  call('ZADD', key.line, '0', member_of(job.name, job.place, job.id))
  part.ready = part.ready + 1
  return part
end

-- Put a job back where it was.
local function return_to_place(job)
  write_meta(job, created_at(job))
  call('ZADD', key.line, '0', member_of(job.name, job.place, job.id))
  local part = partition_of(job.name)
  part.ready = part.ready + 1
end

-- Take a job out of its partition's line; return whether it was there.
local function leave(job)
  local part = partition_of(job.name)
  local gone = job.place and call('ZREM', key.line, member_of(job.name, job.place, job.id)) == 1
  if not gone and job.place and part.blocked > 0 then
    gone = backlog().leave(part, job.place, job.id)
  end
  if gone then part.ready = part.ready - 1 end
  return gone
end

local function read_details(id)
  local record = call('HGET', key.details, id) or ''
  local deliveries, given, parent, msg_id = string.match(record, '^(%d+) (%d) (%S*) (.*)$')
  if not msg_id then return { deliveries = 0, given = '0', parent = '', msg_id = '' } end
  return { deliveries = tonumber(deliveries), given = given, parent = parent, msg_id = msg_id }
end

local function write_details(id, details)
  call('HSET', key.details, id, string.format('%d %s %s %s', details.deliveries, details.given,
    details.parent, details.msg_id))
end

-- Forget the names a job had from its caller; `ended`: nothing, or the second its entry on an outbox
-- tells, and they are known until its history is.
local function let_go_of_names(id, details, ended)
  if details.msg_id ~= '' then
    if ended then
      call('ZADD', key.finished, text(ended), 'm' .. details.msg_id)
    elseif call('HGET', key.msg_id, details.msg_id) == id then
      call('HDEL', key.msg_id, details.msg_id)
    end
  end
  if details.given == '1' and ended then
    call('ZADD', key.finished, text(ended), 'i' .. id)
  end
end

-- Forget a job that waits in no line any more.
local function erase(id)
  let_go_of_names(id, read_details(id), nil)
  call('HDEL', key.task, id)
  call('HDEL', key.meta, id)
  call('HDEL', key.details, id)
  call('HDEL', key.timeouts, id)
end

return { write_meta = write_meta, join = join, return_to_place = return_to_place, leave = leave,
         read_details = read_details, write_details = write_details,
         let_go_of_names = let_go_of_names, erase = erase }
