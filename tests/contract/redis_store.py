"""The Redis engine under test: on the real server, and on a fake in this process."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import fakeredis
import redis

from tests.contract.stores import Store
from tests.own_redis import OwnRedis
from tests.races.faults import RedisServer, Server
from vtrr_django.domain.config import QueueConfig
from vtrr_django.engines.redis.engine import RedisEngine
from vtrr_django.engines.redis.keys import key_names
from vtrr_django.engines.redis.wire import text
from vtrr_django.engines.sql.models import CompletedJob, FailedJob

# Leases, due times and what was written down about leases, all so much earlier.
_SET_BACK = """
local back, only = tonumber(ARGV[1]), ARGV[2]
local count = 0
local function holder(id)
  return string.match(redis.call('HGET', KEYS[3], id) or '', '^%d+ %S+ (.*)$')
end
for position, key in ipairs({KEYS[1], KEYS[2]}) do
  local all = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  for index = 1, #all, 2 do
    if only == '' or (position == 1 and holder(all[index]) == only) then
      redis.call('ZADD', key, string.format('%.17g', tonumber(all[index + 1]) - back), all[index])
      count = count + 1
    end
  end
end
if only == '' then
  local info = redis.call('HGETALL', KEYS[3])
  for index = 1, #info, 2 do
    local claimed, rest = string.match(info[index + 1], '^(%d+)( .*)$')
    redis.call('HSET', KEYS[3], info[index],
      string.format('%.0f', tonumber(claimed) - back * 1e6) .. rest)
  end
end
return count
"""

_fake = fakeredis.FakeServer()


def forget_all() -> None:
    """Empty the fake, for tests of what is in the place of a queue besides it."""
    fakeredis.FakeRedis(server=_fake).flushall()


class FakeRedisEngine(RedisEngine):
    """The engine on a Redis that lives in this process, with decoded responses."""

    def __init__(self, name: str, config: QueueConfig) -> None:
        client = fakeredis.FakeRedis(server=_fake, decode_responses=True)
        super().__init__(name, config, client)


class RedisStore(Store):
    """The Redis engine, its history in the default database of ``tests.settings``."""

    databases = ("default",)
    joins = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.services = ("redis",) if name == "redis" else ()
        self.shared = name == "redis"
        self._place: dict[str, Any] = {"CACHE": "vtrr"}
        self._own: OwnRedis | None = None
        self._queues: set[str] = set()

    def settings(self, **more: Any) -> dict[str, Any]:
        if self.services:
            return {"ENGINE": "redis", **self._place, **more}
        path = f"{FakeRedisEngine.__module__}.{FakeRedisEngine.__qualname__}"
        return {"ENGINE": path, **more}

    def move(self, own_server: Callable[[], OwnRedis]) -> None:
        if self.services:
            self._own = own_server()
            self._place = {"URL": f"{self._own.url()}?socket_timeout=3"}

    def server(self) -> Server:
        assert self._own is not None, "this server is not ours to harm"
        return RedisServer(self._own)

    def new_name(self) -> str:
        name = super().new_name()
        self._queues.add(name)
        return name

    def engine(self, **config: Any) -> RedisEngine:
        return self.engine_named(self.new_name(), **config)

    def engine_named(self, name: str, **config: Any) -> RedisEngine:
        if self.services:
            return RedisEngine(name, QueueConfig(options=self._place, **config))
        return FakeRedisEngine(name, QueueConfig(**config))

    def _client(self, queue: str) -> tuple[redis.Redis, dict[str, str]]:
        self._queues.add(queue)
        return self.engine_named(queue).commands.client, key_names(queue, hash_tag=False)

    def _set_back(self, queue: str, seconds: float, worker_id: str) -> int:
        client, keys = self._client(queue)
        names = [keys["inflight"], keys["scheduled"], keys["lease_info"]]
        return int(client.eval(_SET_BACK, 3, *names, seconds, worker_id))  # type: ignore[arg-type]

    def advance(self, queue: str, seconds: float) -> None:
        self._set_back(queue, seconds, "")

    def lapse(self, queue: str, worker_id: str) -> int:
        return self._set_back(queue, 3600, worker_id)

    def history(self, queue: str) -> dict[str, list[dict[str, Any]]]:
        self.engine_named(queue).archive(1_000_000)
        return {
            "completed": list(CompletedJob.objects.filter(queue=queue).order_by("seq").values()),
            "failed": list(FailedJob.objects.filter(queue=queue).order_by("seq").values()),
        }

    def live(self, queue: str) -> dict[str, dict[str, Any]]:
        client, keys = self._client(queue)

        hashes = ("task", "inflight_task", "meta", "details", "timeouts", "lease_info", "msg_id")
        # At one moment: workers may be at it.
        with client.pipeline(transaction=True) as pipe:
            for key in hashes:
                pipe.hgetall(keys[key])
            for key in ("scheduled", "inflight"):
                pipe.zrange(keys[key], 0, -1, withscores=True)
            *found, due, ends = pipe.execute()
        hash_of = {
            key: {text(name): text(value) for name, value in one.items()}
            for key, one in zip(hashes, found, strict=True)
        }
        scheduled = {text(job_id): datetime.fromtimestamp(at, UTC) for job_id, at in due}
        expiry = {text(job_id): datetime.fromtimestamp(end, UTC) for job_id, end in ends}
        inflight, meta = hash_of["inflight_task"], hash_of["meta"]
        details, timeouts, holders = (hash_of[k] for k in ("details", "timeouts", "lease_info"))
        msg_ids = {job_id: msg_id for msg_id, job_id in hash_of["msg_id"].items()}
        rows = {}
        for job_id in sorted([*hash_of["task"], *inflight]):
            waits = "scheduled" if job_id in scheduled else "ready"
            rows[job_id] = {
                "id": job_id,
                "state": "leased" if job_id in inflight else waits,
                "partition_key": meta[job_id].partition(":")[2],
                "delivery_count": int(details.get(job_id, "0").partition(" ")[0]),
                "timeouts": int(timeouts.get(job_id, "0")),
                "msg_id": msg_ids.get(job_id),
                "scheduled_at": scheduled.get(job_id),
                "lease_expires_at": expiry.get(job_id),
                "claimed_by": holders.get(job_id, "  ").split(" ", 2)[2] or None,
            }
        return rows

    def remembered(self, queue: str) -> set[str]:
        client, keys = self._client(queue)
        return {text(one) for one in client.hkeys(keys["partition"])}

    def close(self) -> None:
        super().close()
        for queue in self._queues:
            client, keys = self._client(queue)
            client.delete(*keys.values())
