-- Shared: reading the lines of the partitions.
--
-- NEEDS    clock
-- USES     backlog
-- KEYS     line
--
-- line     sorted set, all scores 0: partition key, NUL, place, kind of id, id. So the line of a
--          partition is one range, its head the first of it. Places and UUIDs are packed into
--          their bytes.
-- backlog  sorted set, all scores 0: partition key, NUL, then up to 100 times place and UUID of
--          jobs of priority 0 that came in one call: the far end of a long line, which takes 23
--          bytes for a job where the line takes 140. What its turn is near goes into the line.

local NUL = '\0'
local PLACE, IS_UUID, IS_TEXT = 7, 'u', 't' -- length of a packed place; kinds of ids

local function range_of(name)
  return '[' .. name .. NUL, '(' .. name .. '\1'
end

local function unpack_uuid(member, from)
  return string.format('%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x',
    string.byte(member, from, from + 15))
end

local function id_of(member, name_length)
  local from = name_length + PLACE + 2
  if string.sub(member, from, from) == IS_TEXT then return string.sub(member, from + 1) end
  return unpack_uuid(member, from + 1)
end

-- Return what the packed place at `from` tells: precedence (100 - priority), tick.
local function read_place(member, from)
  local precedence, a, b, c, d, e, f = string.byte(member, from, from + PLACE - 1)
  return precedence, ((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f
end

-- Return whether a member of the line goes before what its partition has in the backlog.
-- By number: how Lua compares strings depends on the locale of the Redis server.
local function goes_before(member, part)
  if part.block == '-' then return false end -- the counts are spoilt, see bring_up()
  local precedence, tick = read_place(member, #part.name + 2)
  local backlogs = tonumber(string.sub(part.block, 1, 2), 16)
  if precedence ~= backlogs then return precedence < backlogs end
  return tick < tonumber(string.sub(part.block, 3), 16)
end

-- Return the first members of a partition's line, `count` if there are so many.
local function first_in_line(part, count)
  local from, to = range_of(part.name)
  local first = call('ZRANGEBYLEX', key.line, from, to, 'LIMIT', 0, count)
  while part.blocked > 0 and not (first[count] and goes_before(first[count], part)) do
    backlog().bring_up(part)
    first = call('ZRANGEBYLEX', key.line, from, to, 'LIMIT', 0, count)
  end
  return first
end
