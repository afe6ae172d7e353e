-- Give out places in line for jobs that are about to be stored.
--
-- NEEDS    places
-- KEYS     state
-- ARGV     2 how many
-- RETURNS  the first tick; the others follow it

local first = next_tick()
call('HSET', key.state, 'sequence', text(first + tonumber(ARGV[2]) - 1))
return text(first)
