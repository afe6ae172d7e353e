"""``VTRRQueue``: vtrr-queue's class, by its constructor, on top of a :class:`Queue`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.module_loading import import_string

from vtrr_django import conf
from vtrr_django.contrib.celery.dispatch import CeleryDispatcher
from vtrr_django.contrib.celery.reclaim import schedule_of
from vtrr_django.domain.config import QueueConfig
from vtrr_django.domain.values import check_queue_name
from vtrr_django.engines.base import Engine
from vtrr_django.exceptions import ConfigurationError, ValidationError
from vtrr_django.queue import Queue

DEFAULT_LEASE_SECONDS = 60.0


class _OwnQueue(Queue):
    """A queue that settings do not declare: it has its configuration and its store."""

    def __init__(self, config: QueueConfig, engine: Engine, app: Any, *, periodic: bool) -> None:
        super().__init__(engine.name)
        self._config = config
        self._adopt(engine)
        self._dispatcher = CeleryDispatcher(self, app, periodic=periodic)

    @property
    def config(self) -> QueueConfig:
        return self._config

    @property
    def engine(self) -> Engine:
        assert self._engine is not None  # noqa: S101 - the constructor has set it
        return self._engine


@dataclass(frozen=True, slots=True)
class _Lease:
    id: str
    token: str


class VTRRQueue:
    """A fair queue on a Redis client of yours, run by a Celery app of yours.

    For code written for vtrr-queue. In a project of its own, name the queue in
    ``settings.VTRR`` and use ``get_queue(name)``, which can do more.

    Args:
        redis_client: a redis-py client; as many queues may share it as have names.
        celery_app: the Celery app whose workers run the tasks.
        name: of the queue, 1 to 64 of ``A-Z a-z 0-9 _ -``; keys begin with ``vtrr:<name>:``.
        celery_queue: the Celery queue that triggers go to, one per ``VTRRQueue``.
        max_concurrency: most triggers that wait in the broker.
        lease_seconds: how long a lease lasts; it is renewed while its job runs.
        reclaim_interval: seconds between two reclaims by beat; None: beat does none.
        reclaim_queue: Celery queue of the reclaim task; None: ``celery_queue``.

    Attributes:
        queue: the :class:`~vtrr_django.queue.Queue` behind it.

    Raises:
        ConfigurationError: a value is out of range, or redis is not installed.
    """

    def __init__(
        self,
        redis_client: Any,
        celery_app: Any,
        *,
        name: str,
        celery_queue: str = "vtrr_queue",
        max_concurrency: int = 4,
        lease_seconds: float = DEFAULT_LEASE_SECONDS,
        reclaim_interval: float | None = None,
        reclaim_queue: str | None = None,
    ) -> None:
        try:
            check_queue_name(name, "name")
        except ValidationError as error:
            raise ConfigurationError(str(error)) from error
        if not hasattr(redis_client, "execute_command"):
            raise ConfigurationError(
                "redis_client: expected a client of redis-py, such as redis.Redis.from_url(...), "
                f"got a {type(redis_client).__name__}"
            )
        said: dict[str, Any] = {
            "ENGINE": "redis",
            "CELERY_QUEUE": celery_queue,
            "MAX_CONCURRENCY": max_concurrency,
            "LEASE_SECONDS": lease_seconds,
            "RECLAIM_QUEUE": reclaim_queue,
        }
        if reclaim_interval is not None:
            said["RECLAIM_INTERVAL"] = reclaim_interval
        config = conf.parse({"QUEUES": {name: said}}).queues[name]
        engine = import_string(conf.ENGINES["redis"])(name, config, client=redis_client)
        self.queue = _OwnQueue(config, engine, celery_app, periodic=reclaim_interval is not None)

    def __repr__(self) -> str:
        return f"<VTRRQueue {self.queue.name!r}>"

    def task(self, function: Any = None, /, **options: Any) -> Any:
        """Make a task, as :meth:`Queue.task <vtrr_django.queue.Queue.task>` does.

        Raises:
            TypeError: an option is not supported; the message names those that are.
            ValueError: the queue has its one task already.
        """
        return self.queue.task(**options) if function is None else self.queue.task(function)

    def ack(self, task_id: str, token: str) -> bool:
        """End a lease: the job is completed. False: the lease was not ours any more."""
        return self.queue.ack(_Lease(task_id, token))

    def reclaim(self) -> int:
        """Bring back jobs whose lease ran out; return how many."""
        return self.queue.reclaim()

    def reclaim_and_dispatch(self) -> int:
        """Do :meth:`reclaim`, then send triggers for the jobs that wait; return how many."""
        return self.queue.reclaim_and_dispatch()

    def reclaim_beat_schedule(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the beat entry, for an app that assigns ``beat_schedule`` whole.

        With ``reclaim_interval`` the entry is on the schedule by itself; without, this is
        what it would be, every 10 seconds.
        """
        return schedule_of(self.queue)

    def _dequeue(self) -> tuple[str, list[Any], dict[str, Any], str, str, int] | None:
        """Lease one job: ``(task_name, args, kwargs, task_id, token, timeouts)`` or None."""
        for job in self.queue.lease():
            return job.task_name, job.args, job.kwargs, job.id, job.token, job.timeouts
        return None
