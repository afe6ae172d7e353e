"""What a test's processes do; each function is one role, its keywords are its options."""

from __future__ import annotations

import logging
import os
import random
import signal
import time
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from tests.races.child import Part
from tests.races.faults import be_impatient
from vtrr_django import RetryPolicy, StoreUnavailable
from vtrr_django.domain.job import LeasedJob, Outcome, OutcomeKind
from vtrr_django.worker.worker import WorkerSummary


@dataclass
class Note:
    """A message with nothing to it."""

    number: int = 0


class Undo(Exception):
    """Makes ``atomic()`` roll back."""


# -- leasing by hand ---------------------------------------------------------------


def consume(part: Part, *, n: int = 1) -> None:
    """Lease and ack as fast as possible.

    Until the flag "drain" is up and nothing is left, or "enough" is up.
    """
    while not part.sees("enough"):
        last = part.sees("drain")
        jobs = part.queue.lease(n)
        if not jobs and last:
            return
        for job in jobs:
            part.say("run", job.id)
            assert part.queue.ack(job)


def consume_and_fail(part: Part, *, n: int, seed: int) -> None:
    """Do as :func:`consume`, until "enough"; a third of the jobs fails."""
    rng = random.Random(seed)
    while not part.sees("enough"):
        for job in part.queue.lease(n):
            part.say("run", job.id)
            if rng.random() < 1 / 3:
                assert part.queue.fail(job, "by chance")
            else:
                assert part.queue.ack(job)


def consume_in_one_trip(part: Part, *, n: int = 1) -> None:
    """Do as :func:`consume`, ending and leasing in the same transaction as workers do."""
    held: list[LeasedJob] = []
    while held or not part.sees("enough"):
        last = part.sees("drain")
        n = 0 if part.sees("enough") else n
        acks = [Outcome(kind=OutcomeKind.ACK, job_id=j.id, token=j.token) for j in held]
        done, held = part.queue.finish_and_lease(acks, n, worker_id=f"trips-{part.number}")
        assert all(done)
        for job in held:
            part.say("run", job.id)
        if not held and last:
            return


def produce(part: Part, *, seed: int, transactions: int, partitions: list[str]) -> None:
    """Enqueue in transactions, some rolled back as a whole, some in part."""
    rng = random.Random(seed)
    alias = part.queue.engine.transaction_alias or "default"

    def publish() -> str:
        return part.queue.publish(Note(), partition_key=rng.choice(partitions))

    for _ in range(transactions):
        kept, undone, undo_all = [], [], rng.random() < 0.2
        try:
            with transaction.atomic(using=alias):
                kept += [publish() for _ in range(rng.randint(1, 4))]
                if rng.random() < 0.3:
                    try:
                        with transaction.atomic(using=alias):
                            undone += [publish(), publish()]
                            raise Undo
                    except Undo:
                        pass
                if undo_all:
                    raise Undo
        except Undo:
            kept, undone = [], kept + undone
        part.say("enqueued", kept, undone)


def publish_and_die(part: Part, *, partition_key: str) -> None:
    """Be killed behind the commit of an enqueue, before anything else happens."""
    alias = part.queue.engine.transaction_alias or "default"
    with transaction.atomic(using=alias):
        # Before the queue's own hook, for it comes first.
        transaction.on_commit(lambda: os.kill(os.getpid(), signal.SIGKILL), using=alias)
        part.say("published", part.queue.publish(Note(), partition_key=partition_key))


def ack_and_die(part: Part) -> None:
    """Lease a job, ack it, and be killed behind the commit of the ack."""
    job = part.queue.lease()[0]
    engine: Any = part.queue.engine
    engine._partitions.settle = lambda freed: os.kill(os.getpid(), signal.SIGKILL)
    part.queue.ack(job)


def hold(part: Part, *, kinds: list[str]) -> None:
    """Lease a job, wait for the flag "end", and say what each way to end the lease answers."""
    job = part.queue.lease()[0]
    part.say("leased", job.id)
    part.wait_for("end")
    for kind in kinds:
        end: Any = getattr(part.queue, kind)
        part.say("ended", kind, end(job, "late") if kind == "fail" else end(job))


def hold_and_hang(part: Part, *, worker_id: str, n: int, seconds: float) -> None:
    """Lease, keep each job for up to ``seconds``, ack; until "drain" and nothing is left."""
    rng = random.Random(worker_id)
    while True:
        last = part.sees("drain")
        jobs = part.queue.lease(rng.randint(1, n), worker_id)
        for job in jobs:
            part.say("start", job.id, job.partition_key, job.token)
        for job in jobs:
            time.sleep(rng.uniform(0, seconds))
            part.say("stop", job.id, job.partition_key, job.token)
            assert part.queue.ack(job)
            part.say("acked", job.id)
        if last and not jobs:
            return
        time.sleep(0.0 if jobs else 0.03)


# -- workers -----------------------------------------------------------------------


def work(part: Part, *, max_jobs: int | None = None) -> None:
    """Run a worker whose jobs say "run" and wait for the flag "finish"."""

    @part.queue.handler(policy=RetryPolicy(max_retries=0))
    def note(message: Note) -> None:
        part.say("run", message.number, os.getpid())
        part.wait_for("finish")

    _work(part, max_jobs=max_jobs)


def work_and_die(part: Part, *, killer: int) -> None:
    """Run a worker that the job of that number kills; the others do nothing."""

    @part.queue.handler
    def note(message: Note) -> None:
        if message.number == killer:
            part.say("run", message.number, os.getpid())
            os.kill(os.getpid(), signal.SIGKILL)

    _work(part)


class _SayOutage(logging.Handler):
    """Has the worker's complaints about its store in the journal."""

    def __init__(self, part: Part) -> None:
        super().__init__(logging.INFO)
        self._part = part

    def emit(self, record: logging.LogRecord) -> None:
        if record.msg.startswith("%s does not work"):
            self._part.say("away", str(record.args))
        elif record.msg.startswith("%s works again"):
            self._part.say("back", str(record.args))


def use_through_an_outage(part: Part) -> None:
    """Use the queue by hand, with no worker around it, before, during and after."""
    be_impatient()
    part.queue.publish(Note())
    part.say("in")
    part.wait_for("away")
    # An enqueue may be cut off behind its commit; Django logs that, and others make it good.
    commits = logging.getLogger("django.db.backends.base")
    commits.disabled = True
    try:
        while True:  # one call may get through
            part.queue.publish(Note())
    except StoreUnavailable:
        part.say("refused")
    part.wait_for("back")
    commits.disabled = False
    for job in part.queue.lease(1000):
        part.say("run", job.id, part.queue.ack(job))


def work_through_outages(part: Part, *, concurrency: int) -> None:
    """Run a worker with short jobs that says when its store is away, and hears of it soon."""
    be_impatient()
    logger = logging.getLogger("vtrr_django.worker")
    logger.setLevel(logging.INFO)
    logger.addHandler(_SayOutage(part))
    rng = random.Random(part.number)

    @part.queue.handler(policy=RetryPolicy(max_retries=0))
    def note(message: Note) -> None:
        part.say("run", message.number)
        time.sleep(rng.uniform(0, 0.01))

    _work(part, concurrency=concurrency)


def _work(part: Part, **options: Any) -> None:
    worker = part.queue.worker(poll_interval=0.02, backoff_interval=0.02, **options)
    worker.install_signal_handlers()
    part.say("begun")
    summary: WorkerSummary = worker.run()
    part.say("summary", summary.jobs, summary.succeeded, summary.lost)
