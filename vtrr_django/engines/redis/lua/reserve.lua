-- Give out places in line for jobs that are about to be stored.
--
-- NEEDS    places
-- KEYS     state staged
-- ARGV     2 how many, 3 name of the enqueue that append.lua shall end, or ""
-- RETURNS  the first tick; the others follow it

local first = next_tick()
call('HSET', key.state, 'sequence', text(first + tonumber(ARGV[2]) - 1))
if ARGV[3] ~= '' then call('HSET', key.staged, ARGV[3], 'staged ' .. text(now)) end
return text(first)
