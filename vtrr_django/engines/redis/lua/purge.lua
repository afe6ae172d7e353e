-- Remove one batch of ready jobs.
--
-- NEEDS    jobs
-- USES     records backlog
-- KEYS     line
-- ARGV     2 "1" for the partition in 3, "0" for all, 4 about how many jobs
-- RETURNS  how many were removed

local name = ARGV[2] == '1' and ARGV[3] or nil
local most = tonumber(ARGV[4])
local parts, removed = {}, 0

local function remove(name, id)
  local part = partition_of(name)
  part.ready = part.ready - 1
  parts[part] = true
  removed = removed + 1
  records().erase(id)
  return part
end

local from, to = '-', '+'
if name then from, to = range_of(name) end
local members = call('ZRANGEBYLEX', key.line, from, to, 'LIMIT', 0, most)
if #members > 0 then call('ZREM', key.line, unpack(members)) end
for _, member in ipairs(members) do
  local ends = string.find(member, NUL, 1, true) - 1
  remove(string.sub(member, 1, ends), id_of(member, ends))
end
if removed < most then backlog().purge(name, most - removed, remove) end
for part in pairs(parts) do refresh(part) end
if removed > 0 then end_busy_period() end
save()
return removed
