-- Store new jobs, all or none.
--
-- NEEDS    storing
-- ARGV     2 jobs, 3 shares: see storing.lua; 4 ids whose names may be taken over, for their
--          jobs are known to be forgotten, each ended by \30
-- RETURNS  nothing when all are stored; else nothing is, and this returns what stands in the
--          way: see in_the_way() in storing.lua
-- ERRORS   OOM before the first write, when Redis is out of memory

local found = look(ARGV[2], set_of(ARGV[4]))
if #found == 0 then
  store(ARGV[2], ARGV[3], {})
  save()
end
return found
