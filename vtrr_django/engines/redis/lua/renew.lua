-- Let leases run for longer.
--
-- NEEDS    jobs
-- USES     measuring records
-- KEYS     lease lease_info inflight state
-- ARGV     2 lease in seconds, from now; then for each lease: id, token, seconds it has run or "",
--          attempts used or "" where none was under this lease, token from now on or "": it stays
-- RETURNS  "1" or "0" for each: whether the token, or the one from now on, was the current one

call('HDEL', key.state, '') -- frees nothing: see lease.lua

local function set_attempts(job, count)
  local created, details = created_at(job), records().read_details(job.id)
  details.deliveries = count
  records().write_details(job.id, details)
  if job.more then return end
  job.more = true
  job.place = job.place or '64000000000000' -- leased by vtrr-queue 0.2
  records().write_meta(job, created)
end

local done = {}
local expires = text((now + tonumber(ARGV[2]) * 1e6) / 1e6)
for index = 3, #ARGV, 5 do
  local id, token, ran = ARGV[index], ARGV[index + 1], tonumber(ARGV[index + 2])
  local count, fresh = tonumber(ARGV[index + 3]), ARGV[index + 4]
  local current = call('HGET', key.lease, id)
  local ours = current and (current == token or current == fresh)
  done[#done + 1] = ours and '1' or '0'
  if ours then call('ZADD', key.inflight, expires, id) end
  if ours and fresh ~= '' and current ~= fresh then call('HSET', key.lease, id, fresh) end
  if ours and count then set_attempts(read_meta(id) or read(id, '1:'), count) end
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
