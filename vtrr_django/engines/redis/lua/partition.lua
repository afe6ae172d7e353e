-- Change the settings of one partition.
--
-- NEEDS  state
-- KEYS   state
-- ARGV   2 partition key, 3 own share, 4 own limit, 5 paused (0|1), 6 declared share: each ""
--        to leave it; share and limit "-" to go back to what is declared

call('HDEL', key.state, '') -- frees nothing: see lease.lua

local part = partition_of(ARGV[2])
if ARGV[3] ~= '' then part.share = ARGV[3] end
if ARGV[4] ~= '' then part.limit = ARGV[4] end
if ARGV[5] ~= '' then part.paused = ARGV[5] end
if ARGV[6] ~= '' then part.declared = ARGV[6] end
set(part)
refresh(part)
save()
