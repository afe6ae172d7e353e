-- Forget partitions that have no jobs, no settings and no debt.
--
-- NEEDS    state
-- KEYS     partition partition_virtual_time settings
-- ARGV     2... partition keys
-- RETURNS  how many were forgotten

local count = 0
for index = 2, #ARGV do
  local name = ARGV[index]
  local part = partition_of(name)
  touched[name] = nil
  local idle = part.leased + part.ready + part.scheduled == 0
  local plain = part.share == '-' and part.limit == '-' and part.paused == '0'
  if idle and plain and virtual_time_of(part) <= current_virtual_time() then
    call('HDEL', key.partition, name)
    call('HDEL', key.settings, name)
    call('HDEL', key.partition_virtual_time, name)
    count = count + 1
  end
end
return count
