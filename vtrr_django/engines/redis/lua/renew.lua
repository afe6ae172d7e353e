-- Let leases run for longer.
--
-- NEEDS    jobs
-- USES     measuring
-- KEYS     lease lease_info inflight state
-- ARGV     2 lease in seconds, from now; then for each lease: id, token, seconds it has run or ""
-- RETURNS  "1" or "0" for each: whether the token was the current one

call('HDEL', key.state, '') -- frees nothing: see lease.lua

local done = {}
local expires = text((now + tonumber(ARGV[2]) * 1e6) / 1e6)
for index = 3, #ARGV, 3 do
  local id, token, ran = ARGV[index], ARGV[index + 1], tonumber(ARGV[index + 2])
  local ours = call('HGET', key.lease, id) == token
  done[#done + 1] = ours and '1' or '0'
  if ours then call('ZADD', key.inflight, expires, id) end
  if ours and measured then
    local claimed, charged, worker =
      string.match(call('HGET', key.lease_info, id) or '', '^(%d+) (%S+) (.*)$')
    ran = ran or (claimed and (now - tonumber(claimed)) / 1e6)
    if claimed and ran > tonumber(charged) then
      measuring().charge(partition_of(read_meta(id).name), ran - tonumber(charged))
      call('HSET', key.lease_info, id, claimed .. ' ' .. text(ran) .. ' ' .. worker)
    end
  end
end
save()
return table.concat(done)
