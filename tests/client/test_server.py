"""Workers without Django settings, behind a real server, while everything is killed."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest

from tests.client.processes import SECRET, RemoteProcess, Server
from tests.client.remote import Upload
from tests.contract.stores import Store
from tests.races.conftest import MakeQueue
from tests.races.journal import Journal
from tests.races.waiting import PATIENCE, until
from vtrr_django import ConfigurationError, StoreUnavailable, UnknownQueueError
from vtrr_django.client import Liteworks, RemoteQueue

HEAVY, LIGHT = 820, 20
TENANTS = [f"light-{number}" for number in range(9)]
CLIENTS = ["one", "two", "three"]
LEASE_SECONDS = 6

StartsServer = Callable[[], Server]


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path / "journal")
    yield made
    made.close()


@pytest.mark.parametrize("store", ["sqlite", "postgres", "redis"], indirect=True)
def test_all_jobs_end_once_and_fairly_whoever_is_killed(
    store: Store,
    make_queue: MakeQueue,
    start_server: StartsServer,
    settings: Any,
    tmp_path: Path,
    journal: Journal,
) -> None:
    name = make_queue(COMPLETED_RETENTION=None, RECLAIM_INTERVAL=0.5).name
    settings.VTRR = {**settings.VTRR, "SECRET": SECRET}
    server = start_server()
    uploads = publish(server, name)
    clients = [start_client(tmp_path, server, name, worker_id) for worker_id in CLIENTS]

    def wait_for(count: int, what: str, look: Callable[[], list[Any]]) -> None:
        told = "".join(client.told for client in clients)
        until(lambda: len(look()) >= count, lambda: f"{count} jobs to {what}: {told}")

    try:
        wait_for(150, "start", lambda: journal.said("start"))
        clients[0].kill()
        wait_for(300, "start", lambda: journal.said("start"))
        server.stop()
        server.start()
        wait_for(600, "start", lambda: journal.said("start"))
        server.kill()
        server.start()
        wait_for(len(uploads), "end", lambda: store.history(name)["completed"])
        summaries = [client.stop() for client in clients[1:]]
    finally:
        for client in clients:
            client.kill()

    history = store.history(name)
    assert sorted(row["id"] for row in history["completed"]) == sorted(uploads)
    assert not history["failed"]
    assert not store.live(name)
    assert all(summary["succeeded"] for summary in summaries)
    # What the killed client ran, and what the others could not say or hear while there was no
    # server: a job or two of each.
    late = {uploads[row["id"]] for row in history["completed"] if row["timeouts"]}
    assert 1 <= len(late) <= 3 * len(CLIENTS)
    starts = [(tenant, number) for tenant, number, _ in journal.said("start")]
    check_runs(starts, {uploads[row["id"]]: row["timeouts"] for row in history["completed"]})
    check_fairness(starts, late)


def publish(server: Server, name: str) -> dict[str, tuple[str, int]]:
    """Publish all jobs, the heavy tenant's first; return what each is about, by its id."""
    heavy = [("heavy", number) for number in range(HEAVY)]
    light = [(tenant, number) for tenant in TENANTS for number in range(LIGHT)]
    with RemoteQueue(name, base_url=server.url, secret=SECRET) as queue:
        ids = queue.publish_many([Upload(*one) for one in heavy], partition_key="heavy")
        messages = [(Upload(*one), {"partition_key": one[0]}) for one in light]
        ids += asyncio.run(queue.apublish_many(messages))
        assert queue.stats()["ready"] == len(set(ids)) == HEAVY + LIGHT * len(TENANTS)
    return dict(zip(ids, heavy + light, strict=True))


def start_client(folder: Path, server: Server, name: str, worker_id: str) -> RemoteProcess:
    return RemoteProcess(
        folder,
        {
            "url": server.url,
            "secret": SECRET,
            "queue": name,
            "visibility_timeout": LEASE_SECONDS,
            "worker_id": worker_id,
            "journal": str(folder / "journal"),
        },
    )


def check_runs(starts: list[tuple[str, int]], timeouts: dict[tuple[str, int], int]) -> None:
    """Check that nothing ran again but what somebody had held until its lease ran out."""
    counted = Counter(starts)
    assert counted.keys() == timeouts.keys()
    twice = {job: count for job, count in counted.items() if count > 1 + timeouts[job]}
    assert not twice, {job: (count, timeouts[job]) for job, count in twice.items()}


def check_fairness(starts: list[tuple[str, int]], late: set[tuple[str, int]]) -> None:
    """Check the ranks of light jobs; those whose lease ran out joined the end of their line."""
    ranks: dict[str, dict[int, int]] = defaultdict(dict)
    for rank, (tenant, number) in enumerate(starts, 1):
        ranks[tenant].setdefault(number, rank)
    allowance = 2 * (len(CLIENTS) + 1)  # the bound of SFQ(D) for weights and shares of 1
    for tenant in TENANTS:
        assert len(ranks[tenant]) == LIGHT
        for place in range(LIGHT):
            if (tenant, place) not in late:
                most = place + 1 + len(TENANTS) * (place + allowance)
                assert ranks[tenant][place] <= most, (tenant, place)


def test_a_wrong_secret_and_an_unknown_queue_are_said(
    transactional_db: None, start_server: StartsServer, settings: Any
) -> None:
    settings.VTRR = {"SECRET": SECRET}
    server = start_server()
    with pytest.raises(ConfigurationError, match="secret= has to be"):
        Liteworks(base_url=server.url, secret="a guess").stats()
    with pytest.raises(ConfigurationError, match="give secret="):
        Liteworks(base_url=server.url).stats()
    with pytest.raises(UnknownQueueError, match="nowhere"):
        Liteworks("nowhere", server.url, SECRET).stats()
    with pytest.raises(ConfigurationError, match="where the API begins"):
        Liteworks(base_url=f"{server.url}/deeper/and", secret=SECRET).stats()


def test_publishers_and_ends_sit_out_a_restart_and_nothing_happens_twice(
    transactional_db: None, start_server: StartsServer, settings: Any
) -> None:
    settings.VTRR = {"SECRET": SECRET}
    server = start_server()
    with RemoteQueue(base_url=server.url, secret=SECRET) as queue, ThreadPoolExecutor(3) as pool:
        [first] = queue.publish_many([Upload("a", 1)], partition_key="a")
        [job] = queue.lease()
        server.kill()
        asked = [
            pool.submit(queue.publish, Upload("a", 2), partition_key="a"),
            pool.submit(queue.publish_many, [Upload("a", n) for n in range(600)]),
            pool.submit(queue.ack, job),
        ]
        # Longer than all pauses were before: 8 s.
        done, _ = wait(asked, timeout=9)
        assert not done
        server.start()
        second, many, acked = [one.result(PATIENCE) for one in asked]
        assert acked
        assert queue.stats()["ready"] == len({second, *many}) == 601
        assert queue.stats()["completed"] == 1
        assert job.id == first


def test_a_publish_whose_server_is_killed_on_the_way_is_one_job(
    transactional_db: None, start_server: StartsServer, settings: Any
) -> None:
    settings.VTRR = {"SECRET": SECRET}
    server = start_server()
    ended = threading.Event()

    def publish(tenant: str) -> list[str]:
        ids = []
        with RemoteQueue(base_url=server.url, secret=SECRET) as queue:
            while not ended.is_set():
                ids.append(queue.publish(Upload(tenant, len(ids)), partition_key=tenant))
        return ids

    with ThreadPoolExecutor(3) as pool:
        published = [pool.submit(publish, tenant) for tenant in ("a", "b", "c")]
        for _ in range(3):
            until(lambda: not ended.wait(0.5), "some to be published")
            server.kill()
            server.start()
        ended.set()
        ids = [job_id for one in published for job_id in one.result(PATIENCE)]
    with RemoteQueue(base_url=server.url, secret=SECRET) as queue:
        assert queue.stats()["ready"] == len(set(ids)) == len(ids)


def test_without_patience_a_publisher_is_told_at_once(start_server: StartsServer) -> None:
    with (
        RemoteQueue(base_url="http://127.0.0.1:9", patience=0) as queue,
        pytest.raises(StoreUnavailable),
    ):
        queue.publish(Upload("a", 1))


def test_all_who_wait_by_hand_are_given_a_job_where_nobody_may_wait(
    transactional_db: None, start_server: StartsServer, settings: Any
) -> None:
    settings.VTRR = {"SECRET": SECRET, "LONG_POLLS": 0}
    server, looks = start_server(), threading.Semaphore(0)
    hooks = {"response": [lambda response: looks.release()]}
    with (
        RemoteQueue(
            base_url=server.url, secret=SECRET, http_options={"event_hooks": hooks}
        ) as queue,
        RemoteQueue(base_url=server.url, secret=SECRET) as publisher,
        ThreadPoolExecutor(6) as pool,
    ):
        asked = [pool.submit(queue.lease, wait=20) for _ in range(6)]
        for _ in asked:
            assert looks.acquire(timeout=PATIENCE)
        ids = publisher.publish_many([Upload("a", number) for number in range(6)])
        leased = [job.id for one in asked for job in one.result(PATIENCE)]
    assert sorted(leased) == sorted(ids)
