-- End leases, let jobs come back that are due to, then lease.
--
-- Redis refuses a script that begins with a write that needs memory when it is out of it, and
-- lets the rest pass once one was made. So every script that ends or begins a lease begins with
-- a write that frees memory: those go on when an enqueue is refused.
--
-- NEEDS    leasing
-- USES     returns
-- KEYS     scheduled inflight
-- ARGV     2 number of outcomes, 3 jobs wanted, 4 lease in seconds, 5 token: a fresh prefix,
--          6 worker id, 7 jobs that may come back by themselves, of each kind,
--          8... outcomes, see finish() in ends.lua
-- RETURNS  1 "1" or "0" for each outcome, 2 now (microseconds), 3 the leased jobs, see lease() in
--          leasing.lua, 4 the reclaimed ones, see returns.lua

local done = finish_all(8, tonumber(ARGV[2]))
local reclaimed, leased = {}, {}
if ARGV[3] ~= '0' then
  local moment = text(now / 1e6)
  if #call('ZRANGEBYSCORE', key.scheduled, '-inf', moment, 'LIMIT', 0, 1) > 0 then
    returns().promote(tonumber(ARGV[7]))
  end
  if #call('ZRANGEBYSCORE', key.inflight, '-inf', moment, 'LIMIT', 0, 1) > 0 then
    reclaimed = returns().reclaim(tonumber(ARGV[7]))
  end
  leased = lease(tonumber(ARGV[3]), ARGV[6], tonumber(ARGV[4]), ARGV[5])
end
save()
return { done, text(now), leased, reclaimed }
