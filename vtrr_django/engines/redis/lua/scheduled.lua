-- Remove scheduled jobs of one batch, counted from the one due last.
--
-- NEEDS    jobs
-- USES     records
-- KEYS     scheduled
-- ARGV     2 "1" for the partition in 3, "0" for all, 4 how many at the end to pass over,
--          5 most jobs to look at
-- RETURNS  how many were looked at, how many removed

local skip, most = tonumber(ARGV[4]), tonumber(ARGV[5])
local ids = call('ZRANGE', key.scheduled, -skip - most, -skip - 1)
local removed = 0
for _, id in ipairs(ids) do
  local job = read_meta(id)
  if job and (ARGV[2] == '0' or job.name == ARGV[3]) then
    call('ZREM', key.scheduled, id)
    local part = partition_of(job.name)
    part.scheduled = math.max(0, part.scheduled - 1)
    records().erase(id)
    removed = removed + 1
  end
end
save()
return { #ids, removed }
