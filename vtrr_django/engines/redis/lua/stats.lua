-- Count.
--
-- NEEDS    clock
-- KEYS     state line waiting inflight scheduled outbox_completed outbox_failed
-- RETURNS  paused (0|1), ready, scheduled, leased, partitions waiting, moment the longest-waiting
--          head has been ready since (microseconds, ""), now, completed and failed on their way,
--          the entry of each of these that is on it longest ("")

-- An entry's name begins with the milliseconds since the epoch.
local function first(outbox)
  local found = call('XRANGE', outbox, '-', '+', 'COUNT', 1)[1]
  return found and found[1] or ''
end

local longest = call('ZRANGE', key.waiting, 0, 0, 'WITHSCORES')
return {
  text(call('HEXISTS', key.state, 'paused')),
  text(call('ZCARD', key.line) + tonumber(call('HGET', key.state, 'backlog') or '0')),
  text(call('ZCARD', key.scheduled)),
  text(call('ZCARD', key.inflight)),
  text(call('ZCARD', key.waiting)),
  longest[2] and text(EPOCH + 10 * tonumber(longest[2])) or '',
  text(now),
  text(call('XLEN', key.outbox_completed)),
  text(call('XLEN', key.outbox_failed)),
  first(key.outbox_completed),
  first(key.outbox_failed),
}
