"""The statements on the hot path are served by indexes, read from the database's own plan."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from django.db import connections

from tests.contract.jobs import LEASE_SECONDS, ack_all, job, outcome, put, take
from tests.contract.stores import SQL_STORES, OrmStore, Store
from vtrr_django.domain.job import OutcomeKind, Renewal
from vtrr_django.domain.states import State
from vtrr_django.engines.base import Engine
from vtrr_django.engines.sql.dialect import dialect_of
from vtrr_django.engines.sql.store import Store as Database
from vtrr_django.engines.sql.strays import strays
from vtrr_django.engines.sql.tables import JOB, PARTITION

EXPLAIN = {
    "sqlite": "EXPLAIN QUERY PLAN ",
    "postgresql": "EXPLAIN (FORMAT JSON) ",
    "mysql": "EXPLAIN ",
}
SORTS = ("USE TEMP B-TREE", '"Sort"', "filesort")


@contextlib.contextmanager
def plans_of(store: OrmStore) -> Iterator[list[tuple[str, str]]]:
    """Collect (statement, plan) of all that the engine reads, changes or deletes."""
    found: list[tuple[str, str]] = []
    connection = connections[store.alias]

    def explain(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if not many and sql.lstrip()[:6] in (
            "SELECT",
            "UPDATE",
            "DELETE",
            "WITH w",
            "WITH n",
            "WITH R",
        ):
            # The driver's own cursor: one of Django's would come back to this wrapper.
            cursor = connection.connection.cursor()
            bound = sql.replace("%s", "?") if connection.vendor == "sqlite" else sql
            cursor.execute(EXPLAIN[connection.vendor] + bound, params)
            found.append((sql, json.dumps(cursor.fetchall(), default=str)))
            cursor.close()
        return execute(sql, params, many, context)

    with connection.execute_wrapper(explain):
        yield found


def reads_a_whole_table(vendor: str, plan: str, tables: Sequence[str] = (JOB, PARTITION)) -> bool:
    """Return whether the plan goes through all jobs or partitions of every queue."""
    if vendor == "sqlite":
        lines = [row[3] for row in json.loads(plan)]
        return any(
            line.startswith(f"SCAN {table}") and "INDEX" not in line
            for line in lines
            for table in tables
        )
    if vendor == "mysql":
        return any(row[2] in tables and row[3] == "ALL" for row in json.loads(plan))
    nodes = [json.loads(plan)[0][0][0]["Plan"]]
    while nodes:
        node = nodes.pop()
        if node["Node Type"] == "Seq Scan" and node["Relation Name"] in tables:
            return True
        nodes += node.get("Plans", [])
    return False


pytestmark = pytest.mark.parametrize("store", SQL_STORES, indirect=True)


@pytest.fixture
def filled(store: Store) -> Engine:
    """A queue of 6,000 jobs of 300 tenants, some scheduled, some leased."""
    assert isinstance(store, OrmStore)
    engine = store.engine()
    engine.enqueue(
        [job(f"tenant-{i % 300}", delay=3600.0 if i % 7 == 0 else None) for i in range(6000)], {}
    )
    take(engine, 40)
    connection = connections[store.alias]
    with connection.cursor() as cursor:
        mysql = connection.vendor == "mysql"
        cursor.execute(f"ANALYZE TABLE {JOB}, {PARTITION}" if mysql else "ANALYZE")
        if mysql:
            cursor.fetchall()
    return engine


@pytest.mark.parametrize("batch", [1, 10])
def test_no_statement_of_a_jobs_life_reads_a_whole_table(
    store: Store, filled: Engine, batch: int
) -> None:
    assert isinstance(store, OrmStore)
    with plans_of(store) as plans:
        leased = take(filled, batch)
        filled.renew(
            [Renewal(job_id=leased[0].id, token=leased[0].token)], lease_seconds=LEASE_SECONDS
        )
        filled.finish_and_lease(
            [outcome(OutcomeKind.ACK, leased[0])],
            batch,
            worker_id="w",
            lease_seconds=LEASE_SECONDS,
        )
        ack_all(filled, leased[1:])
        put(filled, "tenant-1")
        filled.cancel(put(filled, "tenant-2"))
        filled.reclaim()
    vendor = connections[store.alias].vendor
    assert len(plans) > 12
    # The sweep looks up hundreds of partitions, which may well be all there are.
    lookups = [(sql, plan) for sql, plan in plans if not sql.lstrip().startswith("WITH")]
    bad = [f"{sql}\n{plan}" for sql, plan in lookups if reads_a_whole_table(vendor, plan)]
    assert not bad, "\n\n".join(bad)


def test_the_sweep_goes_from_partition_to_partition(store: Store, filled: Engine) -> None:
    assert isinstance(store, OrmStore)
    with plans_of(store) as plans:
        filled.reclaim()
    [plan] = [plan for sql, plan in plans if sql.lstrip().startswith("WITH")]
    assert "vtrr_job_line" in plan
    # By the order of the index alone: what the planner believes of the table may be old.
    told = {"mysql": "Using index for group-by", "postgresql": "ROW(queue, state, partition_key)"}
    assert told.get(connections[store.alias].vendor, "(queue,state,partition_key)>") in plan


@pytest.mark.parametrize(
    ("clause", "index"),
    [("ORDER BY virtual_time", "vtrr_partition_next"), ("ORDER BY precedence", "vtrr_job_line")],
)
def test_the_next_partition_and_its_head_come_in_index_order(
    store: Store, filled: Engine, clause: str, index: str
) -> None:
    assert isinstance(store, OrmStore)
    with plans_of(store) as plans:
        take(filled)
    chosen = [plan for sql, plan in plans if clause in sql]
    assert chosen
    assert all(index in plan for plan in chosen)
    assert not [plan for plan in chosen for sort in SORTS if sort in plan]


@pytest.mark.parametrize("key", [None, "tenant-1", "nobody"])
@pytest.mark.parametrize(
    ("state", "index"),
    [
        (State.READY, "vtrr_job_line"),
        (State.SCHEDULED, "vtrr_job_due"),
        (State.LEASED, "vtrr_job_lease"),
    ],
)
def test_pages_of_jobs_come_in_index_order(
    store: Store, filled: Engine, state: State, index: str, key: str | None
) -> None:
    assert isinstance(store, OrmStore)
    if key is not None:
        index = "vtrr_job_l" if state is State.LEASED else "vtrr_job_line"  # either does
    with plans_of(store) as plans:
        page = filled.jobs(state, partition_key=key, limit=2)
        if page.next is not None:
            assert filled.jobs(state, partition_key=key, limit=30, after=page.next).jobs
    vendor = connections[store.alias].vendor
    bad = [f"{sql}\n{plan}" for sql, plan in plans if reads_a_whole_table(vendor, plan)]
    assert not bad, "\n\n".join(bad)
    ordered = [(sql, plan) for sql, plan in plans if "ORDER BY" in sql]
    assert ordered or key == "nobody"
    for sql, plan in ordered:
        assert index in plan, f"{sql}\n{plan}"
        # What is leased is little; and not every index tells those of one moment apart.
        if state is not State.LEASED and "scheduled_at = %s AND seq" not in sql:
            assert not [sort for sort in SORTS if sort in plan], f"{sql}\n{plan}"


def test_what_is_asked_for_the_page_of_all_queues_reads_no_whole_table(
    store: Store, filled: Engine
) -> None:
    assert isinstance(store, OrmStore)
    for partition in ("tenant-1", "tenant-2"):
        filled.pause(partition)
    filled.set_partition("tenant-3", limit=1)
    depth = filled.depth()
    with plans_of(store) as plans:
        assert not filled.due(depth).held
        [left] = strays(Database(store.alias), ["another"])
    assert (left.queue, left.ready, left.leased) == (filled.name, depth.ready, depth.leased)
    vendor = connections[store.alias].vendor
    *looks, (_, walk) = plans
    assert len(looks) == 2
    for sql, plan in looks:  # all partitions are this queue's, and all are looked at
        assert not reads_a_whole_table(vendor, plan, [JOB]), f"{sql}\n{plan}"
    if vendor == "postgresql":  # most of the table is counted here, and read for that
        [names] = [
            one for one in json.loads(walk)[0][0][0]["Plan"]["Plans"] if "CTE Name" not in one
        ]
        assert "Seq Scan" not in json.dumps(names), walk
    else:
        assert not reads_a_whole_table(vendor, walk, [JOB]), walk
    if vendor == "mysql":
        assert "Using index for group-by" in walk


def test_only_what_can_be_found_out_again_is_committed_without_the_disk(store: Store) -> None:
    assert isinstance(store, OrmStore)
    engine = store.engine()
    relax = dialect_of(connections[store.alias]).relax_commit or "nothing of the kind"
    said: list[str] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        said.append(sql)
        return execute(sql, params, many, context)

    with connections[store.alias].execute_wrapper(note):
        put(engine, "a", "b", "a")  # one that stays, for the end of a busy period is relaxed too
        assert (relax in said) == (relax != "nothing of the kind")
        said.clear()
        leased = take(engine, 2)
        ack_all(engine, leased)
        put(engine, "c", msg_id="m")
    insert = next(i for i, sql in enumerate(said) if "INSERT" in sql and JOB in sql)
    assert relax not in said[:insert]
