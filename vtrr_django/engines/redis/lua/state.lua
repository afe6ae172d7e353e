-- Shared: one partition's standing among the others.
--
-- NEEDS  line
-- KEYS   queue current_virtual_time partition_virtual_time partition settings waiting inflight
--        line backlog state
--
-- partition  hash: partition key -> "leased ready scheduled blocked block head": four counts
--            (blocked: of the ready ones, those in the backlog), the place the backlog begins
--            with ("-": there is none), and the job id that stands for the partition in `queue`
--            (nothing: it is no candidate)
-- settings   hash: partition key -> "own_share declared_share own_limit paused", of partitions
--            where one of them is set ("-", 1, "-" and 0 are not)
-- waiting    sorted set: partition key -> tick of the first job in its line

-- An error does not undo what a script has written, and the lease script goes from one partition to
-- the next. So whatever cannot be read is read as if it were not there: what somebody has spoilt of
-- one partition must not stop the script half way, and with it all others.

-- Partitions this call has looked at, by their keys; save() writes them back.
local touched = {}
local any_settings

local function partition_of(name)
  local part = touched[name]
  if part then return part end
  part = { name = name, leased = 0, ready = 0, scheduled = 0, blocked = 0, share = '-',
           declared = '1', limit = '-', paused = '0', block = '-', head = '' }
  local record = call('HGET', key.partition, name)
  local leased, ready, scheduled, blocked, block, head =
    string.match(record or '', '^(%d+) (%d+) (%d+) (%d+) (%S+) (.*)$')
  if head then
    part.leased, part.ready = tonumber(leased), tonumber(ready)
    part.scheduled, part.blocked = tonumber(scheduled), tonumber(blocked)
    part.block, part.head = block, head
  end
  if any_settings == nil then any_settings = call('HLEN', key.settings) > 0 end
  local settings = any_settings and call('HGET', key.settings, name)
  local share, declared, limit, paused =
    string.match(settings or '', '^(%S+) (%S+) (%S+) (%d)$')
  if paused then part.share, part.declared, part.limit, part.paused = share, declared, limit, paused end
  touched[name] = part
  return part
end

local function virtual_time_of(part)
  if not part.at then
    part.at = tonumber(call('HGET', key.partition_virtual_time, part.name) or '') or 0
  end
  return part.at
end

local function share_of(part)
  return tonumber(part.share) or tonumber(part.declared) or 1
end

local function has_room(part)
  local limit = tonumber(part.limit) or rule_limit
  if rule_most then limit = limit and math.min(limit, rule_most) or rule_most end
  return not limit or part.leased < limit
end

-- Make `part` a candidate, or not, as its jobs and settings say; `first` is the first member of
-- its line where the caller knows it.
local function refresh(part, first)
  if part.ready == 0 then
    first = nil
  else
    first = first or first_in_line(part, 1)[1]
    if not first then part.ready = 0 end -- somebody has spoilt the count
  end
  local id = ''
  if first and part.paused == '0' and has_room(part) then id = id_of(first, #part.name) end
  if id == part.head and id ~= '' then return end
  part.first = first or false -- save() tells since when it waits
  if id == part.head then return end
  if part.head ~= '' then
    call('ZREM', key.queue, part.head)
  else
    part.at = math.max(virtual_time_of(part), current_virtual_time())
    part.moved = true
  end
  if id ~= '' then call('ZADD', key.queue, text(virtual_time_of(part)), id) end
  part.head = id
end

-- Move a partition's virtual time, and with it the tag of the job at its head.
local function move(part, at)
  part.at, part.moved = at, true
  if part.head ~= '' then call('ZADD', key.queue, text(at), part.head) end
end

-- Write down what a caller has changed of a partition's settings.
local function set(part)
  if part.share == '-' and part.declared == '1' and part.limit == '-' and part.paused == '0' then
    call('HDEL', key.settings, part.name)
  else
    call('HSET', key.settings, part.name,
      part.share .. ' ' .. part.declared .. ' ' .. part.limit .. ' ' .. part.paused)
  end
end

-- The busy period ends when nothing waits and nothing is leased: all are even again.
local function end_busy_period()
  if call('EXISTS', key.line, key.backlog, key.inflight, key.queue) == 0 then
    -- UNLINK: the hash may hold many tenants, and freeing it must not hold up everybody.
    call('UNLINK', key.partition_virtual_time, key.current_virtual_time)
    virtual_time = 1
    for _, part in pairs(touched) do part.at, part.moved = 0, false end
  end
end

-- Run a command that takes pairs, a thousand of them at a time.
local function call_with_pairs(command, where, pairs_)
  for from = 1, #pairs_, 2000 do
    call(command, where, unpack(pairs_, from, math.min(#pairs_, from + 1999)))
  end
end

local function save()
  local records, times, waiting = {}, {}, {}
  for name, part in pairs(touched) do
    records[#records + 1] = name
    records[#records + 1] = string.format('%d %d %d %d %s %s', part.leased, part.ready,
      part.scheduled, part.blocked, part.block, part.head)
    if part.moved then
      times[#times + 1] = name
      times[#times + 1] = text(part.at)
    end
    if part.first then
      local _, tick = read_place(part.first, #name + 2)
      waiting[#waiting + 1] = text(tick)
      waiting[#waiting + 1] = name
    elseif part.first == false then
      call('ZREM', key.waiting, name)
    end
  end
  call_with_pairs('HSET', key.partition, records)
  call_with_pairs('HSET', key.partition_virtual_time, times)
  call_with_pairs('ZADD', key.waiting, waiting)
  if sequence then call('HSET', key.state, 'sequence', text(sequence)) end
end
