"""The queue: the one caller of engines.

What cuts across engines happens here, once: validation, ids, waiting for the caller's
transaction, signals. Verbs say what they did.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from asgiref.sync import sync_to_async
from django.apps import apps
from django.db import transaction
from django.utils.module_loading import import_string

from vtrr_django import conf, events
from vtrr_django.connections import DjangoHooks
from vtrr_django.declaring import Declaring
from vtrr_django.dispatching import Dispatcher, load_dispatcher
from vtrr_django.domain import values as checks
from vtrr_django.domain.config import QueueConfig
from vtrr_django.domain.forks import at_fork
from vtrr_django.domain.ids import new_job_id, new_job_ids
from vtrr_django.domain.job import (
    JobInfo,
    JobPage,
    LeasedJob,
    Outcome,
    PartitionStats,
    QueueStats,
    Reclaimed,
    Renewal,
)
from vtrr_django.domain.messages import encode, message_name
from vtrr_django.domain.parts import parts
from vtrr_django.domain.states import State
from vtrr_django.ending import Ending, Leased, renewal
from vtrr_django.engines.base import UNSET, Engine, Unset
from vtrr_django.engines.sql.store import Store
from vtrr_django.exceptions import (
    ConfigurationError,
    StoreUnavailable,
    UnknownQueueError,
    ValidationError,
)
from vtrr_django.figures.held import goes_on, holds_back
from vtrr_django.figures.recorder import Recorder
from vtrr_django.intake import copy_of, declared_shares, named_jobs, new_job
from vtrr_django.storing import bring_back, store
from vtrr_django.tasks import Runnable, Task
from vtrr_django.worker.process import own_worker_id
from vtrr_django.worker.worker import Worker

if TYPE_CHECKING:
    from vtrr_django.figures.reading import Reader

logger = logging.getLogger("vtrr_django.queue")

MOST_PER_LEASE = 1000

BATCH = 500
"""Jobs of many partitions that are stored at once."""

MOST_PER_PAGE = 1000
"""Jobs in one page of :meth:`Queue.jobs`."""

_LIVE = {state.name.lower(): state for state in (State.READY, State.SCHEDULED, State.LEASED)}


_queues: WeakSet[Queue] = WeakSet()


def _begin_anew() -> None:
    """Renew the locks in a forked process: a thread may have held one that was not forked."""
    for queue in list(_queues):
        queue._lock = threading.Lock()


at_fork(after_in_child=_begin_anew)


class Queue(Declaring, Ending):
    """A named stream of jobs, fair between partitions. Get one with ``get_queue(name)``."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._engine: Engine | None = None
        self._dispatcher: Dispatcher | None = None
        self._lock = threading.Lock()
        self.recorder = Recorder()
        _queues.add(self)

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
            with self._lock:  # another thread may have come first
                engine = self._engine
                if engine is None or engine.config is not config:
                    engine = self._adopt(_engine_class(config.engine)(self.name, config))
        return engine

    def _adopt(self, engine: Engine) -> Engine:
        """Make an engine the queue's; nobody sees it without its hooks."""
        engine.on_reclaimed = self._on_reclaimed
        engine.on_left_undone = self._on_left_undone
        engine.shares_of = self._declared_shares
        self._engine = engine
        return engine

    def _on_reclaimed(self, jobs: Sequence[Reclaimed]) -> None:
        self.recorder.reclaimed(jobs)
        events.reclaimed(self, jobs)

    def _on_left_undone(self, error: Exception) -> None:
        logger.warning(
            "queue %s: jobs were leased or ended, but what follows was not done, and is left to "
            "the next reclaim: %s",
            self.name,
            error,
            exc_info=error,
        )

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

        Raises:
            ValueError: Celery runs the queue and it has several tasks.
        """
        dispatcher = None if self._celery_queue() is None else self.dispatcher
        if dispatcher is not None:
            self._refuse_several(self._runnables)
            for runnable in list(self._runnables.values()):
                dispatcher.attach(runnable)

    # -- declaring -----------------------------------------------------------------

    def _register(self, runnable: Runnable) -> None:
        if not apps.ready:
            # An import reads no settings: they may name what the module that declares imports.
            super()._register(runnable)
            _unattached[self] = None
            return
        self._refuse_several([*self._runnables, runnable.name])
        super()._register(runnable)
        self.attach()

    def _refuse_several(self, names: Iterable[str]) -> None:
        first, *others = dict.fromkeys(names) or [""]
        celery_queue = self._celery_queue() if others else None
        if celery_queue is not None:
            raise ValueError(
                f"expected one task on queue {self.name!r}, which is run by Celery "
                f"(CELERY_QUEUE={celery_queue!r}) where triggers are "
                f"interchangeable, got {others[0]!r} besides {first!r}; give it a "
                "queue of its own, or set CELERY_QUEUE to None and run vtrr_worker"
            )

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
        return store(self, [job], on_commit)[0]

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
        return store(self, jobs, on_commit) if jobs else []

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
        return [job_id for batch in parts(jobs, BATCH) for job_id in store(self, batch, None)]

    def put_all(self, items: Sequence[Mapping[str, Any]], *, path: str = "") -> list[str]:
        """Validate and enqueue jobs of any tasks and partitions, all or none; return their ids.

        Args:
            items: as in :meth:`Task.queue`, each with its ``task``, by name and whether or not
                this process knows it, and perhaps its ``partition_key``.
            path: of the items, for errors; "": there is one, which needs no path.

        Raises:
            ValidationError: an item is wrong; nothing was written.
            DuplicateJobError: an ``id`` belongs to a different job; nothing was written.
            StoreUnavailable: the store did not answer.
        """
        jobs = named_jobs(items, max_bytes=self.config.max_payload_bytes, path=path)
        return store(self, jobs, None) if jobs else []

    def take_over(self, task_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """Store a job that vtrr-queue knew, in partition ``""``, at once; return its id.

        Raises:
            ValidationError: its arguments do not come back equal from JSON.
        """
        item = {"args": args, "kwargs": kwargs}
        most = self.config.max_payload_bytes
        job = new_job(task_name, item, "", fresh_id=new_job_id(), max_bytes=most)
        return store(self, [job], on_commit=False)[0]

    # -- running -------------------------------------------------------------------

    def lease(
        self, n: int = 1, worker_id: str | None = None, *, lease_seconds: float | None = None
    ) -> list[LeasedJob]:
        """Lease up to ``n`` jobs in fair order; empty when nothing may run.

        Each must be ended with one of the finishing verbs, or renewed, before its lease runs
        out; otherwise it is reclaimed and runs again.

        Args:
            n: 1 to 1,000.
            worker_id: who leases, for people; this process by default.
            lease_seconds: how long the leases last; None: ``LEASE_SECONDS``.
        """
        checks.check_whole(n, "n", 1, MOST_PER_LEASE)
        worker_id, seconds = self._own_id(worker_id), self._lease_seconds(lease_seconds)
        jobs = self.engine.lease(n, worker_id=worker_id, lease_seconds=seconds)
        self.recorder.leased(jobs, worker_id, seconds)
        return jobs

    def _lease_seconds(self, given: float | None) -> float:
        if given is None:
            return self.config.lease_seconds
        return checks.check_number(given, "lease_seconds", 1, checks.MAX_DELAY)

    def _own_id(self, worker_id: str | None) -> str:
        if worker_id is None:
            return own_worker_id()
        return checks.check_worker_id(worker_id, "worker_id")

    def renew(
        self, job: Leased, *, runtime: float | None = None, lease_seconds: float | None = None
    ) -> bool:
        """Let the lease run for ``lease_seconds`` from now. False: it was not ours any more.

        None: for ``LEASE_SECONDS``.
        """
        return self.renew_many([renewal(job, runtime)], self._lease_seconds(lease_seconds))[0]

    def renew_many(
        self, renewals: Sequence[Renewal], lease_seconds: float | None = None
    ) -> list[bool]:
        """Renew several leases in one transaction; None: for ``LEASE_SECONDS``."""
        seconds = self.config.lease_seconds if lease_seconds is None else lease_seconds
        done = self.engine.renew(renewals, lease_seconds=seconds)
        self.recorder.renewed(renewals, done, seconds)
        return done

    def finish(self, outcomes: Sequence[Outcome]) -> list[bool]:
        """End leases, each in its way; False: that lease was not ours any more."""
        done = self.engine.finish(outcomes)
        self.recorder.finished(outcomes, done)
        events.finished(self, outcomes, done, worker_id="")
        self.dispatch_after(outcomes, done)
        return done

    def dispatch_after(self, outcomes: Sequence[Outcome], done: Sequence[bool]) -> None:
        """Have Celery, if it runs the queue, take what ends of leases made room for.

        :meth:`finish_and_lease` leaves that to its caller, who may take it himself.
        """
        ended = [outcome for outcome, accepted in zip(outcomes, done, strict=True) if accepted]
        if not ended or (dispatcher := self.dispatcher) is None:
            return
        # Whatever the end, it may have freed a place below a partition's limit.
        self._after_commit(partial(dispatcher.dispatch, len(ended)))
        for delay in sorted({outcome.delay for outcome in ended if outcome.delay}):
            self._after_commit(partial(dispatcher.wake, delay))

    def _after_commit(self, call: Callable[[], object]) -> None:
        alias = self.engine.transaction_alias
        if alias is None:
            call()
        else:
            transaction.on_commit(call, using=alias, robust=True)

    def finish_and_lease(
        self,
        outcomes: Sequence[Outcome],
        n: int,
        *,
        worker_id: str,
        lease_seconds: float | None = None,
    ) -> tuple[list[bool], list[LeasedJob]]:
        """End leases and lease up to ``n`` more jobs in one transaction; workers call it."""
        seconds = self._lease_seconds(lease_seconds)
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
        _ = self.dispatcher  # what it may lack is said before the first write; so below
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
        key, _ = _checked_key(partition_key), self.dispatcher
        held = holds_back(self.engine, key)
        self.engine.resume(key, shares=self._shares_of(key))
        self._go_on(key, held=held)

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
        _ = self.dispatcher
        held = not isinstance(limit, Unset) and holds_back(self.engine, key)
        self.engine.set_partition(key, share=share, limit=limit, shares=self._shares_of(key))
        self._go_on(key, held=held)

    def _go_on(self, key: str | None, *, held: bool) -> None:
        """Have jobs run that may run from now on; ``held``: some could not until now."""
        if held:
            self._after_commit(partial(self._note_resumed, key))
        self._dispatch_waiting()

    def _note_resumed(self, key: str | None) -> None:
        from vtrr_django.figures.keeping import Keeper  # as in measure()

        try:
            if goes_on(self.engine, key):
                Keeper(self.name, Store(self.config.database)).note_resumed()
        except StoreUnavailable as error:
            # It is done all the same: a health check may blame workers for a few seconds.
            logger.warning("that jobs of queue %s go on was not noted: %s", self.name, error)

    def _shares_of(self, key: str | None) -> dict[str, float]:
        return {} if key is None else self._declared_shares([key])

    def _declared_shares(self, partition_keys: Collection[str]) -> dict[str, float]:
        """Return what ``SHARES`` says in the midst of other work, which does not fail over it.

        The next enqueue asks again, and fails over it.
        """
        try:
            return declared_shares(self.config.shares, partition_keys)
        except (ConfigurationError, ValidationError) as error:
            logger.error(
                "queue %s: until they enqueue again, partitions keep the share that was declared, "
                "or have share 1: %s",
                self.name,
                error,
                exc_info=error,
            )
            return {}

    def cancel(self, ids: str | Sequence[str]) -> list[str]:
        """Remove jobs that wait; return the ids removed. Leased jobs run to their end."""
        return self.engine.cancel(_checked_ids(ids))

    def purge(self, partition_key: str | None = None) -> int:
        """Remove all jobs that wait, of one partition or (None) of the queue; return how many."""
        return self.engine.purge(_checked_key(partition_key))

    def requeue(self, ids: str | Sequence[str] | None = None, *, limit: int = 1000) -> list[str]:
        """Bring dead letters back with a fresh attempt budget; return their ids.

        They keep their ids. Of a ``msg_id`` there is one live job: a letter comes back without
        the one that a live job has, or an older letter of the same call. A letter whose own job
        is live, as one that was taken over may be, is dropped, and not among those returned.

        Args:
            ids: of dead letters; others are passed over. None: the queue's oldest, until
                ``limit`` are back or all have been looked at; those that somebody else takes
                at the same moment are left to them.
            limit: the most that are brought back without ``ids``, 1 to 1,000,000.

        Raises:
            ValidationError: an argument is wrong, or what ``SHARES`` says is no share.
            ConfigurationError: ``SHARES`` raised.
            StoreUnavailable: the store did not answer; ``done`` is how many are back.
        """
        checks.check_whole(limit, "limit", 1, 1_000_000)
        requeued = bring_back(self, None if ids is None else _checked_ids(ids), limit)
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
        return store(self, copies, None) if copies else []

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


_unattached: dict[Queue, None] = {}
"""Queues of which something was declared before the apps were ready."""


def attach_all() -> None:
    """Make known to Celery what was declared before the apps were ready, now that they are.

    Raises:
        ValueError: Celery runs a queue that has several tasks.
    """
    while _unattached:
        queue, _ = _unattached.popitem()
        # What is wrong in settings is said by the checks, and at the queue's first use.
        with suppress(ConfigurationError):
            queue.attach()


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


def _checked_key(partition_key: str | None) -> str | None:
    if partition_key is None:
        return None
    return checks.check_partition_key(partition_key, "partition_key", required=False)


def _checked_ids(ids: str | Sequence[str]) -> list[str]:
    given = [ids] if isinstance(ids, str) else list(ids)
    checked = [checks.check_job_id(one, f"ids[{index}]") for index, one in enumerate(given)]
    return list(dict.fromkeys(checked))
