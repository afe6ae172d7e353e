-- Shared: places in line, and members of the line.
--
-- NEEDS  line
-- KEYS   state
--
-- A place is 2 hex digits of 100 - priority, then 12 of the moment a job joined its line, in ticks
-- of 10 microseconds since 2020, made unique: places sort as the jobs go.

local function next_tick()
  if not sequence then sequence = tonumber(call('HGET', key.state, 'sequence') or '0') end
  sequence = math.max(sequence + 1, math.ceil((now - EPOCH) / 10))
  return sequence
end

local function place_of(priority)
  return string.format('%02x%012x', 100 - priority, next_tick())
end

-- Two, four or eight hex digits as one, two or four bytes.
local function bytes(hex)
  local number = tonumber(hex, 16)
  if #hex == 2 then return string.char(number) end
  local high, low = math.floor(number / 65536), number % 65536
  local two = string.char(math.floor(low / 256), low % 256)
  if #hex == 4 then return two end
  return string.char(math.floor(high / 256), high % 256) .. two
end

local function pack_place(place)
  return bytes(string.sub(place, 1, 2)) .. bytes(string.sub(place, 3, 6)) .. bytes(string.sub(place, 7))
end

-- Return a UUID in lower case as its bytes, nil for any other id.
local function pack_uuid(id)
  if #id ~= 36 or string.find(id, '[^0-9a-f-]') then return nil end
  local a, b, c, d, e, f =
    string.match(id, '^(%x%x%x%x%x%x%x%x)%-(%x%x%x%x)%-(%x%x%x%x)%-(%x%x%x%x)%-(%x%x%x%x)(%x+)$')
  return f and #f == 8 and bytes(a) .. bytes(b) .. bytes(c) .. bytes(d) .. bytes(e) .. bytes(f) or nil
end

local function member_of(name, place, id)
  local uuid = pack_uuid(id)
  return name .. NUL .. pack_place(place) .. (uuid and IS_UUID .. uuid or IS_TEXT .. id)
end
