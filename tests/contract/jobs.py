"""Short ways to say what most tests of the contract say."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from tests.contract.stores import Store
from vtrr_django.domain.ids import new_job_id
from vtrr_django.domain.job import JobInfo, LeasedJob, NewJob, Outcome, OutcomeKind
from vtrr_django.domain.states import State
from vtrr_django.engines.base import Engine
from vtrr_django.engines.sql.models import FailedJob

LEASE_SECONDS = 55.0


def job(partition_key: str = "", **fields: Any) -> NewJob:
    values: dict[str, Any] = {
        "id": new_job_id(),
        "task_name": "tests.task",
        "payload": '{"args": [], "kwargs": {}}',
        "partition_key": partition_key,
    }
    return NewJob(**(values | fields))


def put(engine: Engine, *partition_keys: str, **fields: Any) -> list[str]:
    """Enqueue one job per partition key, in one call; return the ids."""
    return engine.enqueue([job(key, **fields) for key in partition_keys], {})


def take(engine: Engine, n: int = 1, worker_id: str = "w") -> list[LeasedJob]:
    return engine.lease(n, worker_id=worker_id, lease_seconds=LEASE_SECONDS)


def outcome(kind: OutcomeKind, leased: LeasedJob, **fields: Any) -> Outcome:
    return Outcome(kind=kind, job_id=leased.id, token=leased.token, **fields)


def end(engine: Engine, leased: LeasedJob, kind: OutcomeKind = OutcomeKind.ACK, **f: Any) -> bool:
    return engine.finish([outcome(kind, leased, **f)])[0]


def ack_all(engine: Engine, leased: Iterable[LeasedJob]) -> list[bool]:
    return engine.finish([outcome(OutcomeKind.ACK, one) for one in leased])


def all_pages(
    engine: Engine, state: State, *, limit: int = 50, after: str | None = None, **only: Any
) -> list[JobInfo]:
    """Turn pages to the end; return all jobs."""
    found: list[JobInfo] = []
    for _ in range(5000):
        page = engine.jobs(state, after=after, limit=limit, **only)
        assert len(page.jobs) <= limit
        found += page.jobs
        if (after := page.next) is None:
            return found
    raise AssertionError("the pages did not come to an end")


def haunt(store: Store, engine: Engine, like: str, ids: list[str]) -> None:
    """Have live jobs be dead letters too, older ones than that of the job ``like``."""
    store.history(engine.name)  # Redis hands it over
    rows = FailedJob.objects.using(store.history_alias).filter(queue=engine.name)
    [values] = rows.filter(id=like).values()
    del values["seq"]
    values["failed_at"] -= timedelta(hours=1)
    rows.bulk_create(FailedJob(**(values | {"id": job_id})) for job_id in ids)


def drain(engine: Engine, batch: int = 1) -> list[LeasedJob]:
    """Lease and ack until the queue gives no more; return the jobs in order."""
    done: list[LeasedJob] = []
    while leased := take(engine, batch):
        assert all(ack_all(engine, leased))
        done += leased
    return done
