-- Look for live jobs by ids and msg_ids of callers.
--
-- NEEDS    jobs
-- KEYS     msg_id task inflight_task
-- ARGV     for each: "i" id or "m" msg_id
-- RETURNS  for each that there is: position (from 0), "live" or "ended", id, partition key, task

local found = {}
for index = 2, #ARGV do
  local id = string.sub(ARGV[index], 2)
  if string.sub(ARGV[index], 1, 1) == 'm' then id = call('HGET', key.msg_id, id) end
  local task = id and (call('HGET', key.task, id) or call('HGET', key.inflight_task, id))
  if task then
    local meta = read_meta(id)
    found[#found + 1] = { index - 2, 'live', id, meta and meta.name or '', task }
  elseif id and string.sub(ARGV[index], 1, 1) == 'm' then
    found[#found + 1] = { index - 2, 'ended', id, '', '' }
  end
end
return found
