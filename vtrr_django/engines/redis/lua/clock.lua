-- Shared: the queue's rules, the clock, the busy period, numbers as text.
--
-- KEYS   current_virtual_time
-- ARGV   1 rules of the queue: "partition_limit most_per_partition measured max_timeouts kept",
--          each a number, or "-" where there is none
--
-- state  hash: "sequence" (last tick given out, see places.lua), "paused" (there while it is),
--        "backlog" (jobs in the backlog, see line.lua)

local call = redis.call

local rule_limit, rule_most, rule_measured, rule_max_timeouts, rule_kept =
  string.match(ARGV[1], '^(%S+) (%S+) (%S+) (%S+) (%S+)$')
rule_limit, rule_most = tonumber(rule_limit), tonumber(rule_most)
rule_max_timeouts, rule_kept = tonumber(rule_max_timeouts), tonumber(rule_kept)
local measured = rule_measured == '1'

local EPOCH = 1577836800000000 -- 2020-01-01, in microseconds
local clock = call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2]) -- microseconds

local sequence -- the last tick this call has given out

-- tostring() keeps 14 digits of a number; all of them have to survive.
local function text(number)
  return string.format(number % 1 == 0 and number < 1e15 and '%d' or '%.17g', number)
end

local virtual_time
local function current_virtual_time()
  if not virtual_time then
    -- 1 is the first tag of a busy period; vtrr-queue 0.1 begins with 0.
    virtual_time = math.max(1, tonumber(call('GET', key.current_virtual_time) or '') or 1)
  end
  return virtual_time
end
