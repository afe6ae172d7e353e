-- Bring back due jobs and leases that ran out.
--
-- NEEDS    ends
-- USES     returns
-- ARGV     2 most of each kind
-- RETURNS  1 how many jobs were due, 2 the reclaimed jobs, see returns.lua

local due = returns().promote(tonumber(ARGV[2]))
local reclaimed = returns().reclaim(tonumber(ARGV[2]))
save()
return { due, reclaimed }
