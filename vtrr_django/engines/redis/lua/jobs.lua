-- Shared: reading one job's records.
--
-- NEEDS  state
-- KEYS   meta
--
-- meta   hash: id -> "weight,place[,created[,+]]:partition key"; vtrr-queue 0.2 wrote
--        "weight:partition key". `created` (microseconds) is there when it is not the moment the
--        place tells; "+": `details` or `timeouts` have something about the job.

-- Return what `meta` says of a job; what cannot be read says nothing.
local function read(id, meta)
  local weight, place, rest, name = string.match(meta, '^(%d+),?(%x*)([^:]*):(.*)$')
  if not name or (place ~= '' and #place ~= 14) then
    meta, weight, place, rest, name = '1:', '1', '', '', ''
  end
  return { id = id, meta = meta, name = name, weight = tonumber(weight), more = rest ~= '' and
           string.sub(rest, -1) == '+', place = place ~= '' and place or nil }
end

-- The moment a job was enqueued, in microseconds.
local function created_at(job)
  local own = job.meta and string.match(job.meta, '^%d+,%x+,(%d+)')
  if own then return tonumber(own) end
  return job.meta and job.place and EPOCH + 10 * tonumber(string.sub(job.place, 3), 16) or now
end

local function read_meta(id)
  local meta = call('HGET', key.meta, id)
  return meta and read(id, meta)
end

local function priority_of(job)
  return job.place and 100 - tonumber(string.sub(job.place, 1, 2), 16) or 0
end

-- When a job joined the line it is in, or was leased from: microseconds.
local function ready_since(job)
  return job.place and EPOCH + 10 * tonumber(string.sub(job.place, 3), 16) or now
end
