-- Module: long rows of jobs whose places were reserved, and whose `task` and `meta` are written.
--
-- NEEDS  state
-- USES   backlog
--
-- A row is "<share, or -> <bytes of the partition key> <partition key><entries>"; entries as in the
-- backlog, see line.lua.

-- Return partition key, share ("-": nothing is declared), entries.
local function read(row)
  local share, length, rest = string.match(row, '^(%S+) (%d+) (.*)$')
  return string.sub(rest, 1, tonumber(length)), share, string.sub(rest, tonumber(length) + 1)
end

local function add(row)
  local name, share, entries = read(row)
  local part = partition_of(name)
  if share ~= '-' and share ~= part.declared then
    part.declared = share
    set(part)
  end
  part.ready = part.ready + backlog().add_entries(part, entries)
  refresh(part)
end

-- Return the ids in a row.
local function ids(row)
  local _, _, entries = read(row)
  return backlog().ids(entries)
end

return { add = add, ids = ids }
