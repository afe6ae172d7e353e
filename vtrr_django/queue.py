"""The queue: the one caller of engines.

What cuts across engines happens here, once: validation, ids, waiting for the caller's
transaction, signals. Verbs say what they did.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from asgiref.sync import sync_to_async
from django.apps import apps
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.utils.module_loading import import_string

from vtrr_django import conf, events
from vtrr_django.connections import DjangoHooks
from vtrr_django.dispatching import Dispatcher, call_for, load_dispatcher
from vtrr_django.domain import values as checks
from vtrr_django.domain.config import QueueConfig
from vtrr_django.domain.ids import new_job_id, new_job_ids
from vtrr_django.domain.job import (
    JobInfo,
    JobPage,
    LeasedJob,
    NewJob,
    Outcome,
    OutcomeKind,
    PartitionStats,
    QueueStats,
    Reclaimed,
    Renewal,
)
from vtrr_django.domain.messages import encode, message_name
from vtrr_django.domain.retry import RetryPolicy
from vtrr_django.domain.states import State
from vtrr_django.engines.base import UNSET, Engine, Unset
from vtrr_django.engines.sql.store import Store
from vtrr_django.exceptions import ConfigurationError, UnknownQueueError, ValidationError
from vtrr_django.figures.recorder import Recorder
from vtrr_django.intake import Waiting, copy_of, declared_shares, new_job
from vtrr_django.options import TaskOptions
from vtrr_django.tasks import Handler, Runnable, Task, same_function
from vtrr_django.worker.describe import MAX_REASON, describe_exception, storable
from vtrr_django.worker.worker import Worker, default_worker_id

if TYPE_CHECKING:
    from vtrr_django.figures.reading import Reader

    F = TypeVar("F", bound=Callable[..., Any])

MOST_PER_LEASE = 1000

BATCH = 500
"""Jobs of many partitions that are stored at once."""

MOST_PER_PAGE = 1000
"""Jobs in one page of :meth:`Queue.jobs`."""

_LIVE = {state.name.lower(): state for state in (State.READY, State.SCHEDULED, State.LEASED)}


class Leased(Protocol):
    """Anything that names a lease: its job and its token."""

    @property
    def id(self) -> str: ...
    @property
    def token(self) -> str: ...


class Queue:
    """A named stream of jobs, fair between partitions. Get one with ``get_queue(name)``."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._runnables: dict[str, Runnable] = {}
        self._engine: Engine | None = None
        self._dispatcher: Dispatcher | None = None
        self._lock = threading.Lock()
        self._worker_id: str | None = None
        self.recorder = Recorder()

    def __repr__(self) -> str:
        return f"<Queue {self.name!r}>"

    # -- settings and store --------------------------------------------------------

    @property
    def config(self) -> QueueConfig:
        """The queue's settings, as they are now.

        Raises:
            UnknownQueueError: settings declare no queue of this name.
            ConfigurationError: ``settings.VTRR`` is wrong.
        """
        return conf.get_config(self.name)

    @property
    def engine(self) -> Engine:
        """The store behind the queue; a new one when the settings have changed."""
        config = self.config
        engine = self._engine
        if engine is None or engine.config is not config:
            with self._lock:
                self._engine = engine = _engine_class(config.engine)(self.name, config)
                engine.on_reclaimed = self._on_reclaimed
        return engine

    def _on_reclaimed(self, jobs: Sequence[Reclaimed]) -> None:
        self.recorder.reclaimed(jobs)
        events.reclaimed(self, jobs)

    @property
    def dispatcher(self) -> Dispatcher | None:
        """What tells Celery about jobs; None: ``vtrr_worker`` runs this queue.

        Raises:
            ConfigurationError: Celery is needed and not installed.
        """
        if self.config.celery_queue is None:
            return None
        if self._dispatcher is None:
            with self._lock:
                if self._dispatcher is None:
                    self._dispatcher = load_dispatcher(self)
        return self._dispatcher

    def attach(self) -> None:
        """Make what was declared known to Celery, if it runs this queue; again does no harm.

        Done by itself: for what is declared before the apps are ready, when they are.
        """
        dispatcher = None if self._celery_queue() is None else self.dispatcher
        if dispatcher is not None:
            for runnable in list(self._runnables.values()):
                dispatcher.attach(runnable)

    @property
    def runnables(self) -> Mapping[str, Runnable]:
        """The tasks and handlers this process knows, by task name."""
        return self._runnables

    def resolve(self, task_name: str) -> Runnable | None:
        """Return the task or handler of that name, or None."""
        return self._runnables.get(task_name)

    # -- declaring -----------------------------------------------------------------

    @overload
    def task(self, function: Callable[..., Any], /) -> Task: ...
    @overload
    def task(self, /, **options: Any) -> Callable[[Callable[..., Any]], Task]: ...
    def task(
        self, function: Callable[..., Any] | None = None, /, **options: Any
    ) -> Task | Callable[[Callable[..., Any]], Task]:
        """Make a task of a function whose first argument is ``self``.

        Raises:
            TypeError: an option is not supported, or the function takes no ``self``.
            ValidationError: an option's value is wrong.
            ValueError: the queue is run by Celery and has its one task already, or the
                name is taken.
        """
        checked = TaskOptions.of(options)

        def decorate(function: Callable[..., Any]) -> Task:
            task = Task(self, function, checked)
            self._register(task)
            return task

        return decorate if function is None else decorate(function)

    def handler(
        self,
        function: Callable[[Any], Any] | None = None,
        /,
        *,
        policy: RetryPolicy | None = None,
        **options: Any,
    ) -> Any:
        """Make a handler of a function whose argument is annotated with a dataclass.

        Args:
            function: the function, when used without parentheses.
            policy: what happens when it raises; None: as the queue's ``RETRY`` says.
            options: task options, such as ``time_limit``.

        Raises:
            TypeError: an option is not supported, or the argument is not annotated.
            ValidationError: the dataclass has fields that cannot travel as JSON.
            ValueError: the message type has a handler already.
        """
        checked = TaskOptions.of(options)

        def decorate(function: Callable[[Any], Any]) -> Handler:
            handler = Handler(self, function, checked, policy)
            self._register(handler)
            return handler

        return decorate if function is None else decorate(function)

    def _register(self, runnable: Runnable) -> None:
        known = self._runnables.get(runnable.name)
        if known is not None and not same_function(known, runnable):
            raise ValueError(
                f"expected one handler or task named {runnable.name!r} on queue {self.name!r}, "
                "got a second; rename it or use another queue"
            )
        others = [name for name in self._runnables if name != runnable.name]
        celery_queue = self._celery_queue() if others else None
        if celery_queue is not None:
            raise ValueError(
                f"expected one task on queue {self.name!r}, which is run by Celery "
                f"(CELERY_QUEUE={celery_queue!r}) where triggers are "
                f"interchangeable, got {runnable.name!r} besides {others[0]!r}; give it a "
                "queue of its own, or set CELERY_QUEUE to None and run vtrr_worker"
            )
        self._runnables[runnable.name] = runnable
        if apps.ready:  # else AppConfig.ready() does it: an import reads no settings
            self.attach()

    def _celery_queue(self) -> str | None:
        try:
            return self.config.celery_queue
        except UnknownQueueError:
            # Said at the queue's first use; an import must not fail over it.
            return None

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
        on_commit: bool | None = None,
    ) -> str:
        """Enqueue a message, an instance of a dataclass, and return its job's id.

        Without a ``partition_key`` it belongs to partition ``""``, one among others. The
        other arguments and the errors are those of :meth:`Task.enqueue`.
        """
        item = {
            "kwargs": encode(message),
            "weight": weight,
            "priority": priority,
            "delay": delay,
            "scheduled_at": scheduled_at,
            "msg_id": msg_id,
            "parent_id": parent_id,
            "id": id,
        }
        checks.check_partition_key(partition_key, "partition_key", required=False)
        name = message_name(type(message))
        job = new_job(
            name,
            item,
            partition_key,
            fresh_id=new_job_id(),
            max_bytes=self.config.max_payload_bytes,
        )
        return self._store([job], on_commit)[0]

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
        checks.check_partition_key(partition_key, "partition_key", required=True)
        most = self.config.max_payload_bytes
        jobs = []
        for index, (item, fresh_id) in enumerate(zip(items, new_job_ids(len(items)), strict=True)):
            where = f"{path}[{index}]" if path else ""
            job = new_job(
                task.name, item, partition_key, fresh_id=fresh_id, max_bytes=most, path=where
            )
            task.check_call(item.get("args", ()), item.get("kwargs", {}), where)
            jobs.append(job)
        return self._store(jobs, on_commit) if jobs else []

    def put_each(self, name: str, items: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
        """Validate jobs of many partitions, then enqueue them in batches; return their ids.

        Args:
            name: of the task or message, whose arguments fit.
            items: partition keys, checked, with items as in :meth:`Task.queue`.

        Raises:
            ValidationError: an item is wrong; nothing was written.
            StoreUnavailable: the store did not answer; earlier batches are written.
        """
        most = self.config.max_payload_bytes
        jobs = [
            new_job(name, item, key, fresh_id=fresh_id, max_bytes=most)
            for (key, item), fresh_id in zip(items, new_job_ids(len(items)), strict=True)
        ]
        batches = [jobs[start : start + BATCH] for start in range(0, len(jobs), BATCH)]
        return [job_id for batch in batches for job_id in self._store(batch, None)]

    def take_over(self, task_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """Store a job that vtrr-queue knew, in partition ``""``, at once; return its id.

        Raises:
            ValidationError: its arguments do not come back equal from JSON.
        """
        item = {"args": args, "kwargs": kwargs}
        most = self.config.max_payload_bytes
        job = new_job(task_name, item, "", fresh_id=new_job_id(), max_bytes=most)
        return self._store([job], on_commit=False)[0]

    def _store(self, jobs: Sequence[NewJob], on_commit: bool | None) -> list[str]:
        config, engine = self.config, self.engine
        _ = self.dispatcher  # what it may lack is said before the first write
        shares = declared_shares(config.shares, {job.partition_key for job in jobs})
        if self._must_wait(engine, config.enqueue_on_commit if on_commit is None else on_commit):
            return self._store_later(engine, jobs, shares)
        return self._store_now(engine, jobs, shares)

    def _store_later(
        self, engine: Engine, jobs: Sequence[NewJob], shares: Mapping[str, float]
    ) -> list[str]:
        """Store after the commit of the default database's transaction; return the ids now."""
        ids = [known or job.id for job, known in zip(jobs, engine.known(jobs), strict=True)]
        waiting = Waiting.of(self.name)
        ids = [waiting.match(job) or job_id for job, job_id in zip(jobs, ids, strict=True)]
        # Not robust: should the store refuse, the caller has to hear of it.
        transaction.on_commit(
            Waiting(self.name, jobs, lambda: self._store_now(engine, jobs, shares))
        )
        return ids

    def _must_wait(self, engine: Engine, on_commit: bool) -> bool:
        alias = engine.transaction_alias
        joins = alias is not None and connections[alias].in_atomic_block
        return on_commit and not joins and connections[DEFAULT_DB_ALIAS].in_atomic_block

    def _store_now(
        self, engine: Engine, jobs: Sequence[NewJob], shares: Mapping[str, float]
    ) -> list[str]:
        ids = engine.enqueue(jobs, shares)
        events.enqueued(self, jobs, ids, engine.transaction_alias)
        if (dispatcher := self.dispatcher) is not None:
            call_for(dispatcher, jobs, engine.transaction_alias)
        return ids

    # -- running -------------------------------------------------------------------

    def lease(self, n: int = 1, worker_id: str | None = None) -> list[LeasedJob]:
        """Lease up to ``n`` jobs in fair order; empty when nothing may run.

        Each must be ended with one of the finishing verbs, or renewed, within
        ``LEASE_SECONDS``; otherwise it is reclaimed and runs again.

        Args:
            n: 1 to 1,000.
            worker_id: who leases, for people; this process by default.
        """
        checks.check_whole(n, "n", 1, MOST_PER_LEASE)
        return self._lease(n, self._own_id(worker_id))

    def _lease(self, n: int, worker_id: str) -> list[LeasedJob]:
        seconds = self.config.lease_seconds
        jobs = self.engine.lease(n, worker_id=worker_id, lease_seconds=seconds)
        self.recorder.leased(jobs, worker_id, seconds)
        return jobs

    def _own_id(self, worker_id: str | None) -> str:
        if worker_id is not None:
            return checks.check_worker_id(worker_id, "worker_id")
        if self._worker_id is None:
            self._worker_id = default_worker_id()
        return self._worker_id

    def ack(self, job: Leased, *, runtime: float | None = None) -> bool:
        """End a lease: the job is completed. False: the lease was not ours any more.

        ``runtime`` is how many seconds the job ran; by default since it was leased.
        """
        return self._finish(_outcome(OutcomeKind.ACK, job, runtime=runtime))

    def fail(
        self, job: Leased, reason: str | BaseException, *, runtime: float | None = None
    ) -> bool:
        """End a lease: the job is a dead letter. False: the lease was not ours any more.

        ``reason`` is text for people, or the exception, whose traceback is kept too.
        """
        return self._finish(_outcome(OutcomeKind.FAIL, job, reason=reason, runtime=runtime))

    def retry(
        self,
        job: Leased,
        delay: float = 0.0,
        *,
        reason: str | BaseException = "",
        runtime: float | None = None,
    ) -> bool:
        """End a lease: the job runs again in ``delay`` seconds, one attempt used."""
        return self._finish(
            _outcome(OutcomeKind.RETRY, job, delay=delay, reason=reason, runtime=runtime)
        )

    def snooze(self, job: Leased, delay: float = 0.0, *, runtime: float | None = None) -> bool:
        """End a lease: the job runs again in ``delay`` seconds, no attempt used."""
        return self._finish(_outcome(OutcomeKind.SNOOZE, job, delay=delay, runtime=runtime))

    def release(self, job: Leased) -> bool:
        """End a lease: the job is ready again at its old place, no attempt used."""
        return self._finish(_outcome(OutcomeKind.RELEASE, job))

    def renew(self, job: Leased, *, runtime: float | None = None) -> bool:
        """Let the lease run for ``LEASE_SECONDS`` from now. False: it was not ours any more."""
        return self.renew_many([Renewal(job_id=job.id, token=job.token, runtime=runtime)])[0]

    def renew_many(
        self, renewals: Sequence[Renewal], lease_seconds: float | None = None
    ) -> list[bool]:
        """Renew several leases in one transaction; None: for ``LEASE_SECONDS``."""
        seconds = self.config.lease_seconds if lease_seconds is None else lease_seconds
        done = self.engine.renew(renewals, lease_seconds=seconds)
        self.recorder.renewed(renewals, done, seconds)
        return done

    def _finish(self, outcome: Outcome) -> bool:
        done = self.engine.finish([outcome])
        self.recorder.finished([outcome], done)
        events.finished(self, [outcome], done, worker_id="")
        if done[0] and (dispatcher := self.dispatcher) is not None:
            # Whatever the end, it may have freed a place below a partition's limit.
            self._after_commit(lambda: dispatcher.dispatch(1))
            if outcome.delay:
                self._after_commit(lambda: dispatcher.wake(outcome.delay))
        return done[0]

    def _after_commit(self, call: Callable[[], object]) -> None:
        alias = self.engine.transaction_alias
        if alias is None:
            call()
        else:
            transaction.on_commit(call, using=alias, robust=True)

    def finish_and_lease(
        self, outcomes: Sequence[Outcome], n: int, *, worker_id: str
    ) -> tuple[list[bool], list[LeasedJob]]:
        """End leases and lease up to ``n`` more jobs in one transaction; workers call it."""
        seconds = self.config.lease_seconds
        done, jobs = self.engine.finish_and_lease(
            outcomes, n, worker_id=worker_id, lease_seconds=seconds
        )
        self.recorder.finished(outcomes, done)
        self.recorder.leased(jobs, worker_id, seconds)
        events.finished(self, outcomes, done, worker_id=worker_id)
        return done, jobs

    def job_started(self, job: LeasedJob, worker_id: str) -> None:
        """Tell listeners that a job is about to run; workers call it."""
        events.started(self, job, worker_id)

    def worker(
        self,
        *,
        concurrency: int = 1,
        poll_interval: float = 0.5,
        backoff_interval: float = 2.0,
        max_empty: int = 4,
        **more: Any,
    ) -> Worker:
        """Return a worker for this queue.

        Args:
            concurrency: jobs run at once, each in a thread.
            poll_interval: seconds between looks while the queue is empty.
            backoff_interval: seconds between looks after ``max_empty`` empty ones.
            max_empty: see ``backoff_interval``.
            more: the other arguments of :class:`~vtrr_django.worker.worker.Worker`.
        """
        more.setdefault("hooks", DjangoHooks())
        return Worker(
            [self],
            concurrency=concurrency,
            poll_interval=poll_interval,
            backoff_interval=backoff_interval,
            max_empty=max_empty,
            **more,
        )

    # -- upkeep --------------------------------------------------------------------

    def reclaim(self) -> int:
        """Bring back jobs whose lease ran out and jobs that are due; return how many leases."""
        reclaimed = self.engine.reclaim()
        self.recorder.looked()
        return len(reclaimed)

    def reclaim_and_dispatch(self) -> int:
        """Reclaim, then make sure that somebody runs what waits; return how many leases.

        On a queue with a ``CELERY_QUEUE`` it sends triggers for the jobs that wait.
        ``vtrr_worker`` polls, so on queues it runs this is :meth:`reclaim`.
        """
        reclaimed = self.reclaim()
        self._dispatch_waiting()
        return reclaimed

    def _dispatch_waiting(self) -> None:
        if (dispatcher := self.dispatcher) is not None:
            self._after_commit(dispatcher.dispatch_waiting)

    def archive(self) -> int:
        """Move ended jobs from the store to the history tables; return how many.

        Redis keeps them on an outbox until then; other stores write their history at once.
        Workers do this every second.
        """
        return self.engine.archive()

    def prune(self) -> dict[str, int]:
        """Trim history to the retention settings; return ``{"completed": n, "failed": m}``."""
        return self.engine.prune()

    def measure(self, worker_id: str = "", *, beat: bool = False) -> None:
        """Write down what this process has counted and, once a minute, how the queue stands.

        Workers do this every few seconds, ``vtrr_reclaim`` and beat each time. What pages,
        metrics and health checks show comes from here.

        Args:
            worker_id: the worker that is alive and says so; "": none.
            beat: whether Celery's beat asked for it.

        Raises:
            StoreUnavailable: the database did not take it, and what was counted is kept for the
                next time; or the store did not say how the queue stands.
        """
        # Not at the top: a queue is imported before models may be.
        from vtrr_django.figures.keeping import LONGEST_LINES, Keeper, Told

        if worker_id:
            checks.check_worker_id(worker_id, "worker_id")
        keeper = Keeper(self.name, Store(self.config.database))
        holding = self.recorder.holding()
        counted = self.recorder.take()
        try:
            minute = keeper.add(
                Told(counted=counted, holding=holding, worker_id=worker_id, beat=beat)
            )
        except BaseException:
            self.recorder.put_back(counted)
            raise
        if minute is not None:
            engine = self.engine
            keeper.note(minute, engine.depth(), engine.partitions(limit=LONGEST_LINES))

    # -- steering ------------------------------------------------------------------

    def pause(self, partition_key: str | None = None) -> None:
        """Stop giving out jobs, of one partition or (None) of the queue. Nothing is lost."""
        key = _checked_key(partition_key)
        self.engine.pause(key, shares=self._shares_of(key))

    def resume(self, partition_key: str | None = None) -> None:
        """Undo :meth:`pause`."""
        key = _checked_key(partition_key)
        self.engine.resume(key, shares=self._shares_of(key))
        self._dispatch_waiting()

    def set_partition(
        self,
        partition_key: str,
        *,
        share: float | Unset | None = UNSET,
        limit: int | Unset | None = UNSET,
    ) -> None:
        """Set a partition's share or in-flight limit; jobs that wait already obey it.

        Args:
            partition_key: the tenant.
            share: what it is due, relative to the others; None: back to ``SHARES``.
            limit: most jobs of it that run at once; None: back to ``PARTITION_LIMIT``.
        """
        if share is not None and not isinstance(share, Unset):
            share = checks.check_share(share, "share")
        if not isinstance(limit, Unset):
            limit = checks.check_limit(limit, "limit")
        key = checks.check_partition_key(partition_key, "partition_key", required=False)
        self.engine.set_partition(key, share=share, limit=limit, shares=self._shares_of(key))
        self._dispatch_waiting()

    def _shares_of(self, *partition_keys: str | None) -> dict[str, float]:
        return declared_shares(self.config.shares, {key for key in partition_keys if key})

    def cancel(self, ids: str | Sequence[str]) -> list[str]:
        """Remove jobs that wait; return the ids removed. Leased jobs run to their end."""
        return self.engine.cancel(_checked_ids(ids))

    def purge(self, partition_key: str | None = None) -> int:
        """Remove all jobs that wait, of one partition or (None) of the queue; return how many."""
        return self.engine.purge(_checked_key(partition_key))

    def requeue(self, ids: str | Sequence[str] | None = None, *, limit: int = 1000) -> list[str]:
        """Bring dead letters back with a fresh attempt budget; return their ids.

        None: up to ``limit`` of the queue's dead letters, the oldest first.
        """
        checks.check_whole(limit, "limit", 1, 1_000_000)
        requeued = self.engine.requeue(None if ids is None else _checked_ids(ids), limit=limit)
        if requeued and (dispatcher := self.dispatcher) is not None:
            self._after_commit(partial(dispatcher.dispatch, len(requeued)))
        return requeued

    def discard(self, ids: str | Sequence[str]) -> list[str]:
        """Delete dead letters for good; return the ids of those there were."""
        return self.engine.discard(_checked_ids(ids))

    def copy(self, ids: str | Sequence[str], *, once: str | None = None) -> list[str]:
        """Enqueue a fresh job like each of these dead letters, which stay; return the new ids.

        Each has its letter's task, arguments, partition, weight and priority, its id as
        ``parent_id``, and no ``msg_id``. Ids of which there is no dead letter are passed over.
        As any enqueue, it waits for the transaction it is called in.

        Args:
            ids: of the dead letters.
            once: any text; asked again for a letter with the same one, it returns the copy
                that was made then, as long as that is live or in the history.

        Raises:
            ValidationError: a letter's record is spoilt; nothing is enqueued.
            DuplicateJobError: a letter was changed since it was copied with this ``once``.
        """
        letters = self.engine.dead_letters(_checked_ids(ids))
        copies = [
            copy_of(letter, fresh_id, once)
            for letter, fresh_id in zip(letters, new_job_ids(len(letters)), strict=True)
        ]
        return self._store(copies, None) if copies else []

    # -- looking -------------------------------------------------------------------

    def jobs(
        self,
        state: str = "ready",
        *,
        partition_key: str | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> JobPage:
        """Return a page of live jobs.

        Ready ones come by partition, those of one partition in the order in which they will
        run; scheduled ones as they fall due; leased ones as their leases run out. However
        many there are, a page takes bounded time. Jobs that move while somebody turns pages
        may be missed or come twice. Pages of one partition's scheduled or leased jobs may be
        short, or empty, and yet have a next.

        Args:
            state: "ready", "scheduled" or "leased".
            partition_key: only this partition's; None: all.
            after: ``next`` of the page before; None: the first page.
            limit: most jobs of the page, 1 to 1,000.

        Raises:
            ValidationError: an argument is wrong.
        """
        if not isinstance(state, str) or state not in _LIVE:
            raise ValidationError(
                "state", f"expected one of {', '.join(_LIVE)}, got {checks.describe(state)}"
            )
        checks.check_whole(limit, "limit", 1, MOST_PER_PAGE)
        key = _checked_key(partition_key)
        return self.engine.jobs(_LIVE[state], partition_key=key, after=after, limit=limit)

    def job(self, job_id: str) -> JobInfo | None:
        """Return the job of that id if it is ready, scheduled or leased, else None."""
        return self.engine.job(checks.check_job_id(job_id, "job_id"))

    def depth(self) -> QueueStats:
        """Count live jobs and the partitions that wait, without looking at the history.

        What :meth:`stats` tells of ended jobs is left at 0 and empty.
        """
        return self.engine.depth()

    def stats(self) -> dict[str, Any]:
        """Return the queue's counts and most recent runs and failures.

        Keys: ``queue engine paused ready claimed scheduled failed completed
        partitions_waiting oldest_ready_at oldest_wait_seconds recent_failures recent_runs``.
        """
        stats = self.engine.stats()
        return {
            "queue": self.name,
            "engine": self.config.engine,
            "paused": stats.paused,
            "ready": stats.ready,
            "claimed": stats.leased,
            "scheduled": stats.scheduled,
            "failed": stats.failed,
            "completed": stats.completed,
            "partitions_waiting": stats.partitions_waiting,
            "oldest_ready_at": stats.oldest_ready_at,
            "oldest_wait_seconds": stats.oldest_wait_seconds,
            "recent_failures": stats.recent_failures,
            "recent_runs": stats.recent_runs,
        }

    @property
    def figures(self) -> Reader:
        """What happened on the queue, over time: what :meth:`measure` has written down."""
        from vtrr_django.figures.reading import Reader  # as in measure()

        return Reader(self.name, Store(self.config.database))

    def partitions(
        self, partition_key: str | None = None, *, limit: int = 1000
    ) -> list[PartitionStats]:
        """Return the partitions with live jobs or settings, most ready jobs first."""
        return self.engine.partitions(partition_key=_checked_key(partition_key), limit=limit)

    async def apublish(self, message: object, **options: Any) -> str:
        """Do :meth:`publish` from async code."""
        return await sync_to_async(self.publish)(message, **options)

    async def astats(self) -> dict[str, Any]:
        """Do :meth:`stats` from async code."""
        return await sync_to_async(self.stats)()


def _engine_class(name: str) -> type[Engine]:
    try:
        found = import_string(conf.ENGINES.get(name, name))
    except ImportError as error:
        raise ConfigurationError(
            f"expected ENGINE {name!r} to be importable, got: {error}; install what it needs, "
            "or choose another engine"
        ) from error
    if not (isinstance(found, type) and issubclass(found, Engine)):
        raise ConfigurationError(
            f"expected ENGINE {name!r} to be an Engine subclass, got {found!r}"
        )
    return found


def _outcome(
    kind: OutcomeKind,
    job: Leased,
    *,
    delay: float = 0.0,
    reason: str | BaseException = "",
    runtime: float | None = None,
) -> Outcome:
    checks.check_delay(delay, "delay")
    if runtime is not None:
        checks.check_delay(runtime, "runtime")
    if isinstance(reason, BaseException):
        told = describe_exception(reason)
    else:
        told = {"reason": storable(str(reason), MAX_REASON)}
    return Outcome(kind=kind, job_id=job.id, token=job.token, delay=delay, runtime=runtime, **told)


def _checked_key(partition_key: str | None) -> str | None:
    if partition_key is None:
        return None
    return checks.check_partition_key(partition_key, "partition_key", required=False)


def _checked_ids(ids: str | Sequence[str]) -> list[str]:
    given = [ids] if isinstance(ids, str) else list(ids)
    checked = [checks.check_job_id(one, f"ids[{index}]") for index, one in enumerate(given)]
    return list(dict.fromkeys(checked))
