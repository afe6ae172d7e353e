-- Tell where partitions stand.
--
-- NEEDS    state
-- KEYS     waiting
-- ARGV     2... partition keys
-- RETURNS  for each: leased, ready, scheduled, own share, declared share, own limit, paused (0|1),
--          head, virtual time, moment its head has been ready since ("" where nothing waits);
--          then at the end the current virtual time

local told = {}
for index = 2, #ARGV do
  local part = partition_of(ARGV[index])
  local tick = call('ZSCORE', key.waiting, part.name)
  for _, value in ipairs({ text(part.leased), text(part.ready), text(part.scheduled), part.share,
      part.declared, part.limit, part.paused, part.head, text(virtual_time_of(part)),
      tick and text(EPOCH + 10 * tonumber(tick)) or '' }) do
    told[#told + 1] = value
  end
end
told[#told + 1] = text(current_virtual_time())
return told
