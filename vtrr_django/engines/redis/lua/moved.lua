-- Forget outbox entries that are in the database, and names that nothing stands for any more.
--
-- NEEDS    clock
-- KEYS     outbox_completed outbox_failed finished msg_id task inflight_task
-- ARGV     2 which outbox: completed|failed, 3 seconds a name is kept after its job's end,
--          4... ids of entries
-- RETURNS  how many names were forgotten, up to 1000

local NAMES = 1000

local outbox = ARGV[2] == 'failed' and key.outbox_failed or key.outbox_completed
local entries = {}
for index = 4, #ARGV do entries[#entries + 1] = ARGV[index] end
if #entries > 0 then call('XDEL', outbox, unpack(entries)) end

-- What is still on its way has to be known by its names until it has arrived.
local before = now / 1e6 - tonumber(ARGV[3])
for _, stream in ipairs({ key.outbox_completed, key.outbox_failed }) do
  local first = call('XRANGE', stream, '-', '+', 'COUNT', 1)[1]
  if first then before = math.min(before, tonumber(string.match(first[1], '^%d+')) / 1000 - 1) end
end
local old = call('ZRANGEBYSCORE', key.finished, '-inf', text(before), 'LIMIT', 0, NAMES)
for _, name in ipairs(old) do
  call('ZREM', key.finished, name)
  if string.sub(name, 1, 1) == 'm' then
    local msg_id = string.sub(name, 2)
    local id = call('HGET', key.msg_id, msg_id)
    if id and call('HEXISTS', key.task, id) + call('HEXISTS', key.inflight_task, id) == 0 then
      call('HDEL', key.msg_id, msg_id)
    end
  end
end
return #old
