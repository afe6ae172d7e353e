-- Remove ready and scheduled jobs by their ids.
--
-- NEEDS    jobs
-- USES     records
-- KEYS     queue task scheduled
-- ARGV     2... ids
-- RETURNS  the ids removed

local removed, parts = {}, {}

local function remove(id)
  local job = read_meta(id)
  if not job then
    -- vtrr-queue 0.1 put it into `queue` by itself.
    if call('ZREM', key.queue, id) == 0 then return false end
    call('HDEL', key.task, id)
    return true
  end
  local part = partition_of(job.name)
  if call('ZREM', key.scheduled, id) == 1 then
    part.scheduled = math.max(0, part.scheduled - 1)
  elseif not records().leave(job) then
    return false
  end
  records().erase(id)
  parts[part] = true
  return true
end

for index = 2, #ARGV do
  if remove(ARGV[index]) then removed[#removed + 1] = ARGV[index] end
end
for part in pairs(parts) do refresh(part) end
if #removed > 0 then end_busy_period() end
save()
return removed
