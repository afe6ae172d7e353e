-- Module: the backlog, see line.lua.
--
-- NEEDS    places
-- KEYS     backlog line state

local ENTRY, BLOCK = 23, 100 -- bytes of an entry, most entries of a block

local function count(part, change)
  part.blocked = part.blocked + change
  call('HINCRBY', key.state, 'backlog', text(change))
end

local function first_block(part)
  local from, to = range_of(part.name)
  return call('ZRANGEBYLEX', key.backlog, from, to, 'LIMIT', 0, 1)[1]
end

-- Note which place the backlog of a partition begins with.
local function look(part)
  local block = first_block(part)
  part.block = block and string.format('%02x%012x', read_place(block, #part.name + 2)) or '-'
end

-- Put jobs at the end of a partition's line: places and ids, one after the other in `jobs`.
-- They are of priority 0 and UUIDs, and no other job of the partition has a place among theirs.
local function add(part, jobs)
  for from = 1, #jobs, 2 * BLOCK do
    local entries = {}
    for index = from, math.min(#jobs, from + 2 * BLOCK - 1), 2 do
      entries[#entries + 1] = pack_place(jobs[index]) .. pack_uuid(jobs[index + 1])
    end
    call('ZADD', key.backlog, '0', part.name .. NUL .. table.concat(entries))
  end
  count(part, #jobs / 2)
  look(part)
end

-- Split the block that goes on behind the place that `entries` begin with, if there is one: jobs
-- from before and behind them were packed together while only their places were reserved. So no
-- two blocks of a partition overlap.
local function make_way(part, entries)
  local start = part.name .. NUL
  local block = call('ZREVRANGEBYLEX', key.backlog,
    '(' .. start .. string.sub(entries, 1, PLACE), '[' .. start, 'LIMIT', 0, 1)[1]
  if not block then return end
  local _, tick = read_place(entries, 1)
  for at = #block - ENTRY + 1, #start + 1, -ENTRY do
    local _, its = read_place(block, at)
    if its < tick then
      local behind = string.sub(block, at + ENTRY)
      if behind ~= '' then
        call('ZREM', key.backlog, block)
        call('ZADD', key.backlog, '0', string.sub(block, 1, at + ENTRY - 1), '0', start .. behind)
      end
      return
    end
  end
end

-- Put a row of packed jobs into the backlog; return how many they are. Theirs may not be the last
-- places: they were given out some moments ago.
local function add_entries(part, entries)
  make_way(part, entries)
  for from = 1, #entries, BLOCK * ENTRY do
    local block = string.sub(entries, from, from + BLOCK * ENTRY - 1)
    call('ZADD', key.backlog, '0', part.name .. NUL .. block)
  end
  count(part, #entries / ENTRY)
  look(part)
  return #entries / ENTRY
end

-- Pack the far end of a line of jobs that came one by one into a block.
local function compact(part)
  local from, to = range_of(part.name)
  local members = call('ZREVRANGEBYLEX', key.line, to, from, 'LIMIT', 0, BLOCK)
  local last = call('ZREVRANGEBYLEX', key.backlog, to, from, 'LIMIT', 0, 1)[1]
  local entries, start = {}, #part.name + 2
  for index = #members, 1, -1 do
    local member = members[index]
    local precedence, tick = read_place(member, start)
    local packable = precedence == 100 and string.sub(member, start + PLACE, start + PLACE) == IS_UUID
    if not packable then return end
    if index == #members and last then
      -- What goes into one block has to be side by side in the line.
      local _, before = read_place(last, #last - ENTRY + 1)
      if tick < before then return end
    end
    entries[#entries + 1] = string.sub(member, start, start + PLACE - 1) ..
      string.sub(member, start + PLACE + 1)
  end
  call('ZREM', key.line, unpack(members))
  call('ZADD', key.backlog, '0', part.name .. NUL .. table.concat(entries))
  count(part, #members)
  look(part)
end

-- Return the ids in a row of packed jobs.
local function ids(entries)
  local found = {}
  for at = 1, #entries, ENTRY do found[#found + 1] = unpack_uuid(entries, at + PLACE) end
  return found
end

-- Move the first block of a partition's backlog into its line. Where there is none, somebody has
-- spoilt the counts: they are set right, and nobody else's jobs are held up.
local function bring_up(part)
  local block = first_block(part)
  if not block then
    count(part, -part.blocked)
    local from, to = range_of(part.name)
    part.ready = call('ZLEXCOUNT', key.line, from, to)
    return look(part)
  end
  call('ZREM', key.backlog, block)
  local members, start = {}, string.sub(block, 1, #part.name + 1)
  for at = #start + 1, #block, ENTRY do
    members[#members + 1] = '0'
    members[#members + 1] = start .. string.sub(block, at, at + PLACE - 1) .. IS_UUID ..
      string.sub(block, at + PLACE, at + ENTRY - 1)
  end
  call('ZADD', key.line, unpack(members))
  count(part, -#members / 2)
  look(part)
end

-- Take one job out; return whether it was there.
local function leave(part, place, id)
  local uuid = pack_uuid(id)
  if not uuid then return false end
  local start, packed = part.name .. NUL, pack_place(place)
  -- The block that begins at this place, whatever the id there, or is the last to begin before it.
  local block = call('ZREVRANGEBYLEX', key.backlog,
    '[' .. start .. packed .. string.rep('\255', ENTRY), '[' .. start, 'LIMIT', 0, 1)[1]
  for at = #start + 1, block and #block or 0, ENTRY do
    if string.sub(block, at, at + ENTRY - 1) == packed .. uuid then
      local rest = string.sub(block, 1, at - 1) .. string.sub(block, at + ENTRY)
      call('ZREM', key.backlog, block)
      if #rest > #start then call('ZADD', key.backlog, '0', rest) end
      count(part, -1)
      look(part)
      return true
    end
  end
  return false
end

-- Take up to about `most` jobs out, of one partition or (nil) of all; `each` is told the
-- partition and id of every one.
local function purge(name, most, each)
  local from, to = '-', '+'
  if name then from, to = range_of(name) end
  local blocks = call('ZRANGEBYLEX', key.backlog, from, to, 'LIMIT', 0, math.ceil(most / BLOCK))
  for _, block in ipairs(blocks) do
    call('ZREM', key.backlog, block)
    local ends, part = string.find(block, NUL, 1, true), nil
    for at = ends + 1, #block, ENTRY do
      part = each(string.sub(block, 1, ends - 1), unpack_uuid(block, at + PLACE))
    end
    count(part, -(#block - ends) / ENTRY)
    look(part)
  end
end

return { add = add, compact = compact, add_entries = add_entries, ids = ids, bring_up = bring_up, leave = leave,
         purge = purge }
