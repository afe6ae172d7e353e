-- Look for jobs by ids and msg_ids of callers: those that live, and those that ended a moment ago.
--
-- NEEDS    jobs
-- KEYS     msg_id task inflight_task finished
-- ARGV     for each: "i" id or "m" msg_id
-- RETURNS  for each that there is: position (from 0), "live" or "ended", id, partition key ("" of an
--          ended one), task (of an ended one the second its entry on an outbox tells, or "")

local found = {}
for index = 2, #ARGV do
  local name = ARGV[index]
  local is_msg_id = string.sub(name, 1, 1) == 'm'
  local id = string.sub(name, 2)
  if is_msg_id then id = call('HGET', key.msg_id, id) end
  local task = id and (call('HGET', key.task, id) or call('HGET', key.inflight_task, id))
  if task then
    local meta = read_meta(id)
    found[#found + 1] = { index - 2, 'live', id, meta and meta.name or '', task }
  elseif id then
    local ended = call('ZSCORE', key.finished, name)
    if ended or is_msg_id then found[#found + 1] = { index - 2, 'ended', id, '', ended or '' } end
  end
end
return found
