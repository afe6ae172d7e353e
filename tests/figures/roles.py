"""What the processes of these tests do; see ``tests.races.processes``."""

from __future__ import annotations

from tests.figures.jobs import LEASE_SECONDS, end, lease
from tests.races.child import Part
from tests.races.roles import Note
from tests.races.waiting import until
from vtrr_django.engines.sql.store import Cursor, Store
from vtrr_django.exceptions import StoreUnavailable
from vtrr_django.figures.keeping import Keeper, Told
from vtrr_django.figures.recorder import Counted, Recorder


def did(*partition_keys: str, worker_id: str = "w") -> Counted:
    """Return what a process counts that ran one job of each partition."""
    recorder = Recorder()
    jobs = [lease(key, waited=1.0) for key in partition_keys]
    recorder.leased(jobs, worker_id, LEASE_SECONDS)
    recorder.finished([end(job, runtime=2.0) for job in jobs], [True] * len(jobs))
    return recorder.take()


def add(keeper: Keeper, told: Told) -> int | None:
    """Add what is told, however long the others are at it without a pause."""

    def attempt() -> list[int | None]:
        try:
            return [keeper.add(told)]
        except StoreUnavailable:
            return []

    return until(attempt, "the others to let go")[0]


def measure(part: Part, *, rounds: int, partition_keys: list[str]) -> None:
    """Write down jobs of some tenants, again and again."""
    keeper = Keeper(part.queue.name, Store(part.queue.config.database))
    worker_id = f"w{part.number}"
    part.say("ready")
    part.wait_for("go")
    for _ in range(rounds):
        counted = did(*partition_keys, worker_id=worker_id)
        minute = add(keeper, Told(counted=counted, holding={}, worker_id=worker_id, beat=True))
        if minute is not None:
            part.say("minute", minute)


def stand_still_while_writing(part: Part) -> None:
    """Lock what writers of figures lock, and stay there."""
    keeper = Keeper(part.queue.name, Store(part.queue.config.database))

    def work(cursor: Cursor) -> None:
        assert keeper._add(cursor, Told(counted=did("stopped"), holding={}))
        part.say("locked")
        part.wait_for("go on")

    keeper.store.transact(work)


def serve(part: Part) -> None:
    """Work until SIGTERM."""

    @part.queue.handler
    def run(note: Note) -> None:
        part.say("ran")

    worker = part.queue.worker(worker_id="server", poll_interval=0.01)
    worker.install_signal_handlers()
    part.say("serves")
    worker.run()
