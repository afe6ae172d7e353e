"""A queue behind the HTTP API: publishing to it, and running its jobs here."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from datetime import datetime
from typing import Any, Self

from vtrr_django.client.answers import ids_of, stats_of
from vtrr_django.client.leases import RemoteLeases
from vtrr_django.client.messages import message_item, message_items
from vtrr_django.client.talk import Call, Talk, ahold, hold
from vtrr_django.client.transport import PATIENCE, Transport
from vtrr_django.client.wire import LARGEST_PAYLOAD, LONGEST_LEASE, LONGEST_WAIT, publications
from vtrr_django.client.worker import DEFAULT_WAIT, RemoteWorker
from vtrr_django.declaring import Declaring
from vtrr_django.domain.config import QueueConfig
from vtrr_django.domain.job import NewJob
from vtrr_django.domain.retry import RetryPolicy
from vtrr_django.domain.values import (
    check_number,
    check_partition_key,
    check_queue_name,
    describe,
)
from vtrr_django.exceptions import ConfigurationError, ValidationError
from vtrr_django.intake import named_jobs
from vtrr_django.tasks import Task

PUBLISH_PATH = "messages"


class RemoteQueue(RemoteLeases, Declaring):
    """A queue behind the HTTP API of ``vtrr_serve``. Needs no Django settings.

    Tasks and handlers declared on it are run by its :meth:`worker`, here. How failed ones are
    retried is decided here too; all else, such as shares, limits and retention, at the server.

    Safe to share between threads, and to carry over a fork. What may be done twice is tried
    again for as long as ``patience`` says while the server is away: publishing, ends of leases,
    renewals, counts. A claim is not, for it might lease jobs that nobody hears of. A worker sits
    out any outage, whatever the ``patience``.

    A publish that is repeated makes no second job, for ids are made here: the server knows an id
    (or ``msg_id``) while its job lives or is in the history, which keeps what has ended for two
    minutes at least. Not so with the server's ``COMPLETED_RETENTION=0``, which keeps nothing of
    a completed job: one that had ended before its publish was repeated runs a second time.

    Args:
        name: of the queue.
        base_url: where the API is, such as ``https://jobs.example.com``.
        secret: the server's ``VTRR["SECRET"]``; None: it serves its own machine only.
        visibility_timeout: how long a lease lasts unless it is renewed, 1 to 86,400 seconds.
            Workers renew the leases of what they run.
        retry: what happens to a job that raises; None: it becomes a dead letter at once.
        timeout: seconds for each step of a request, such as waiting for the answer.
        patience: seconds in which a request that failed is tried again; 0: not once. The last
            try may begin at their end, and take as long as ``timeout`` lets it. With more than
            two minutes, what the history keeps has to last as long: see above.
        http_options: more arguments of ``httpx.Client`` and ``httpx.AsyncClient``: ``verify``,
            ``proxy`` and so on.

    Raises:
        ConfigurationError: an argument is wrong.
    """

    def __init__(
        self,
        name: str = "default",
        *,
        base_url: str,
        secret: str | None = None,
        visibility_timeout: float = 30.0,
        retry: RetryPolicy | None = RetryPolicy(),  # noqa: B008 - it is frozen
        timeout: float = 10.0,
        patience: float = PATIENCE,
        http_options: Mapping[str, Any] | None = None,
    ) -> None:
        try:
            Declaring.__init__(self, check_queue_name(name, "name"))
            seconds = check_number(visibility_timeout, "visibility_timeout", 1, LONGEST_LEASE)
        except ValidationError as error:
            raise ConfigurationError(str(error)) from error
        if retry is not None and not isinstance(retry, RetryPolicy):
            raise ConfigurationError(
                f"retry: expected a RetryPolicy or None, got {describe(retry)}"
            )
        transport = Transport(
            base_url, secret, timeout=timeout, patience=patience, http_options=http_options
        )
        RemoteLeases.__init__(self, name, transport)
        self._config = QueueConfig(
            engine="http",
            lease_seconds=seconds,
            retry=retry,
            max_payload_bytes=LARGEST_PAYLOAD,
        )

    def __repr__(self) -> str:
        return f"<RemoteQueue {self.name!r} at {self._transport.address}>"

    @property
    def config(self) -> QueueConfig:
        """What is settled here: ``lease_seconds`` and ``retry``."""
        return self._config

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; whoever uses the queue again opens new ones.

        Those of an event loop are closed when it ends, or by :meth:`aclose` in it.
        """
        self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Do :meth:`close`, and close the connections of the event loop that runs."""
        await self._transport.aclose()

    # -- coming in -----------------------------------------------------------------

    def publish(
        self,
        message: object,
        *,
        partition_key: str = "",
        weight: int = 1,
        priority: int = 0,
        delay: float | None = None,
        scheduled_at: datetime | None = None,
        msg_id: str | None = None,
        parent_id: str | None = None,
        id: str | None = None,
    ) -> str:
        """Enqueue a message, an instance of a dataclass, and return its job's id.

        The arguments and the errors are those of ``Queue.publish``, and ConfigurationError
        where the server does not let us in.
        """
        options = {
            "partition_key": partition_key,
            "weight": weight,
            "priority": priority,
            "delay": delay,
            "scheduled_at": scheduled_at,
            "msg_id": msg_id,
            "parent_id": parent_id,
            "id": id,
        }
        return self.put_all([message_item(message, options)])[0]

    def publish_many(self, messages: Iterable[object], **options: Any) -> list[str]:
        """Enqueue messages, up to 500 or 900 kB in one request; return their ids in order.

        All are checked before the first is sent. Each request is done as a whole or not at all.

        Args:
            messages: each one a message, or a pair ``(message, options)`` with options of its
                own, such as ``{"msg_id": "welcome-17"}``.
            options: of all of them, as for :meth:`publish`.

        Raises:
            ValidationError, DuplicateJobError, StoreUnavailable, ConfigurationError: as for
                :meth:`publish`; what earlier requests brought is enqueued.
        """
        return self.put_all(message_items(messages, options, PUBLISH_PATH), path=PUBLISH_PATH)

    def put(
        self,
        task: Task,
        items: Sequence[Mapping[str, Any]],
        partition_key: str,
        *,
        path: str = "",
        on_commit: bool | None = None,
    ) -> list[str]:
        """Validate and enqueue jobs of one task; :meth:`Task.queue` and ``enqueue`` call it."""
        talk = self._putting(task, items, partition_key, path, on_commit)
        return hold(talk, self._transport)

    async def aput(
        self,
        task: Task,
        items: Sequence[Mapping[str, Any]],
        partition_key: str,
        *,
        path: str = "",
        on_commit: bool | None = None,
    ) -> list[str]:
        """Do :meth:`put` in asyncio's event loop."""
        talk = self._putting(task, items, partition_key, path, on_commit)
        return await ahold(talk, self._transport)

    def put_all(self, items: Sequence[Mapping[str, Any]], *, path: str = "") -> list[str]:
        """Validate and enqueue jobs of any tasks and partitions; return their ids.

        Args:
            items: as for ``Queue.put_all``.
            path: of the items, for errors; "": there is one, which needs no path.

        Raises:
            ValidationError, DuplicateJobError, StoreUnavailable, ConfigurationError: as for
                :meth:`publish_many`.
        """
        return hold(self._sending(self._checked(items, path), path), self._transport)

    def _checked(self, items: Sequence[Mapping[str, Any]], path: str) -> list[NewJob]:
        return named_jobs(items, max_bytes=self.config.max_payload_bytes, path=path)

    def _putting(
        self,
        task: Task,
        items: Sequence[Mapping[str, Any]],
        partition_key: str,
        path: str,
        on_commit: bool | None,
    ) -> Talk[list[str]]:
        if on_commit:
            raise ValidationError(
                "on_commit",
                "expected None or False, for a queue behind HTTP knows of no transaction, got "
                "True; enqueue in a function that you give to transaction.on_commit()",
            )
        check_partition_key(partition_key, "partition_key", required=True)
        named = [{**item, "task": task.name, "partition_key": partition_key} for item in items]
        jobs = self._checked(named, path)
        for index, item in enumerate(items):
            where = f"{path}[{index}]" if path else ""
            task.check_call(item.get("args", ()), item.get("kwargs", {}), where)
        return (yield from self._sending(jobs, path))

    def _sending(self, jobs: Sequence[NewJob], path: str) -> Talk[list[str]]:
        ids: list[str] = []
        for one in publications(jobs, path):
            try:
                body = yield Call(path=self._path("jobs"), content=one.body)
            except ValidationError as error:
                raise one.told_to_caller(error) from error
            ids += ids_of(body, one.count, self._where)
        return ids

    async def apublish(self, message: object, **options: Any) -> str:
        """Do :meth:`publish` in asyncio's event loop."""
        inspect.signature(self.publish).bind(message, **options)
        jobs = self._checked([message_item(message, options)], "")
        return (await ahold(self._sending(jobs, ""), self._transport))[0]

    async def apublish_many(self, messages: Iterable[object], **options: Any) -> list[str]:
        """Do :meth:`publish_many` in asyncio's event loop."""
        jobs = self._checked(message_items(messages, options, PUBLISH_PATH), PUBLISH_PATH)
        return await ahold(self._sending(jobs, PUBLISH_PATH), self._transport)

    # -- looking -------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        """Return the queue's counts and most recent runs and failures, as ``Queue.stats``."""
        return hold(self._looking(), self._transport)

    async def astats(self) -> dict[str, Any]:
        """Do :meth:`stats` in asyncio's event loop."""
        return await ahold(self._looking(), self._transport)

    def _looking(self) -> Talk[dict[str, Any]]:
        body = yield Call(method="GET", path=self._path("stats"))
        return stats_of(body, self._where)

    # -- running -------------------------------------------------------------------

    def worker(
        self,
        *,
        concurrency: int = 1,
        poll_interval: float = 0.5,
        backoff_interval: float = 2.0,
        max_empty: int = 4,
        wait: float = DEFAULT_WAIT,
        **more: Any,
    ) -> RemoteWorker:
        """Return a worker for this queue.

        Args:
            concurrency: jobs run at once, each in a thread.
            poll_interval: seconds between looks while the queue is empty.
            backoff_interval: seconds between looks after ``max_empty`` empty ones.
            max_empty: see ``backoff_interval``.
            wait: seconds that a look lasts while there are no jobs, 0 to 20: the server answers
                as soon as there are some. A worker that is told to stop waits for its end.
            more: the other arguments of :class:`~vtrr_django.worker.worker.Worker`. In a Django
                project, whose jobs use the database, give
                ``hooks=vtrr_django.connections.DjangoHooks()``.

        Raises:
            ConfigurationError: an argument is wrong.
        """
        try:
            seconds = check_number(wait, "wait", 0, LONGEST_WAIT)
        except ValidationError as error:
            raise ConfigurationError(str(error)) from error
        return RemoteWorker(
            copy(self),  # which shares all but the wait
            wait=seconds,
            concurrency=concurrency,
            poll_interval=poll_interval,
            backoff_interval=backoff_interval,
            max_empty=max_empty,
            **more,
        )
