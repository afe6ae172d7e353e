-- Forget partitions that have no jobs, no settings and no debt, and heal those that nobody would
-- serve, for the job that stands for them is not in `queue`.
--
-- NEEDS    state
-- KEYS     queue partition partition_virtual_time settings average
-- ARGV     2... partition keys
-- RETURNS  how many were forgotten

local count = 0
for index = 2, #ARGV do
  local name = ARGV[index]
  local part = partition_of(name)
  local idle = part.leased + part.ready + part.scheduled == 0
  local plain = part.share == '-' and part.limit == '-' and part.paused == '0'
  if idle and plain and virtual_time_of(part) <= current_virtual_time() then
    call('HDEL', key.partition, name)
    call('HDEL', key.settings, name)
    call('HDEL', key.partition_virtual_time, name)
    call('HDEL', key.average, name)
    count = count + 1
    touched[name] = nil
  elseif part.head ~= '' and not call('ZSCORE', key.queue, part.head) then
    part.head = ''
    refresh(part)
  else
    touched[name] = nil
  end
end
save()
return count
