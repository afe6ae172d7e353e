-- Store one batch of a large enqueue that was committed.
--
-- NEEDS    storing
-- USES     rows
-- KEYS     staged finished
-- ARGV     2 name of the enqueue, 3 number of the batch; ids of ended jobs, each ended by \30:
--          4 of those in the history, 5 of those that are forgotten;
--          6 "1" where somebody else than its enqueuer does it, else "0"
-- RETURNS  1 "stored", "gone" where somebody else stored it, or "undecided" where nothing was
--          stored because an ended job in neither list stands in the way, 2 what stands in the
--          way of jobs, which are not stored: see in_the_way() in storing.lua

local field = ARGV[2] .. ' ' .. ARGV[3]
local batches = string.match(call('HGET', key.staged, ARGV[2]) or '', '^committed (%d+)$')
local laid_aside = batches and call('HGET', key.staged, field)
if not laid_aside then return { 'gone', {} } end

local function admitted()
  call('HDEL', key.staged, field)
  if tonumber(ARGV[3]) == tonumber(batches) - 1 then
    call('HDEL', key.staged, ARGV[2])
    -- Its enqueuer may not know yet that it counts, or may ask again.
    if ARGV[6] == '1' then call('ZADD', key.finished, text(now / 1e6), 'e' .. ARGV[2]) end
  end
end

if string.sub(laid_aside, 1, 1) == 'R' then
  admitted()
  rows().add(string.sub(laid_aside, 2))
  save()
  return { 'stored', {} }
end

local ends = string.find(laid_aside, '\29', 1, true)
local jobs = string.sub(laid_aside, ends + 1)
local kept, skip = set_of(ARGV[4]), {}
local found = look(jobs, set_of(ARGV[5]))
for _, one in ipairs(found) do
  if one[2] == 'ended' and not kept[one[3]] then return { 'undecided', found } end
  skip[one[1]] = true
end

admitted()
store(jobs, string.sub(laid_aside, 2, ends - 1), skip)
save()
return { 'stored', found }
