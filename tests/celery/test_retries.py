"""Retries that meet others: of their own job, and of another one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.celery.conftest import PAIRS, StartsSite, pairs
from tests.celery.site import Site
from tests.races.waiting import until

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")


@pytest.mark.parametrize("pool", ["prefork", "threads"])
@pytest.mark.parametrize("pair", pairs)
def test_a_retry_that_is_delivered_again_while_it_runs(
    pair: str, pool: str, open_site: StartsSite
) -> None:
    """As by Redis after its visibility timeout, when the first one waited in a busy pool."""
    site = open_site(pair, {"plain": {"LEASE_SECONDS": 60}})
    worker, flag = site.worker("-P", pool, "-c", "2"), site.flag()
    job_id = site.enqueue("plain", "twice", ["retry delivered twice"], ["wait", str(flag)])
    until(
        lambda: worker.told("is dropped") or len(site.starts("twice")) > 2,
        "the second delivery to arrive",
    )
    site.heard("start", "twice", 1)
    flag.touch()
    assert site.end_of("plain", job_id) == "completed"
    assert site.starts("twice") == [(0, 0), (1, 0)]
    assert site.counts("plain", job_id) == (1, 0)


@pytest.mark.service("redis")
@pytest.mark.parametrize(("queue", "retries"), [("auto", 2), ("autonever", 0)])
def test_max_retries_of_one_job_are_not_those_of_one_beside_it(
    queue: str, retries: int, open_site: StartsSite
) -> None:
    """Celery notes them on the task, which the threads of a pool share."""
    site = open_site(PAIRS[0], {queue: {}})
    site.worker("-P", "threads", "-c", "2")
    flag = site.flag()
    slow = site.enqueue(queue, "slow", ["send retry slowly", str(flag)], ["end"])
    site.heard("sending", "slow")
    beside = site.enqueue(queue, "beside", ["raise", "Wanted"])
    assert site.end_of(queue, beside).endswith("Wanted")
    assert site.starts("beside") == [(number, 0) for number in range(retries + 1)]
    flag.touch()
    assert site.end_of(queue, slow) == "completed"
    assert site.starts("slow") == [(0, 0), (1, 0)]


IN_A_DATABASE = [pair for pair in pairs if not pair.values[0].startswith("redis")]
TWICE = [(0, 0), (1, 0)]


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, open_site: StartsSite) -> Site:
    """A store and a broker, and a pool of two."""
    pair, pool = request.param
    site = open_site(pair, {"plain": {"LEASE_SECONDS": 60}})
    site.worker("-P", pool, "-c", "2")
    return site


def in_pools(pairs: list[Any]) -> Any:
    """Run a test for each store and broker, in both kinds of pool."""
    return pytest.mark.parametrize(
        "site",
        [
            pytest.param((pair.values[0], pool), marks=pair.marks, id=f"{pair.values[0]}-{pool}")
            for pair in pairs
            for pool in ("prefork", "threads")
        ],
        indirect=True,
    )


@in_pools(IN_A_DATABASE)
def test_a_retry_in_a_transaction_that_is_broken(site: Site) -> None:
    job_id = site.enqueue("plain", "broken", ["retry from a broken transaction"], ["end"])
    assert site.end_of("plain", job_id) == "completed"
    assert site.starts("broken") == TWICE


@in_pools(IN_A_DATABASE)
@pytest.mark.parametrize("step", ["retry in a transaction", "retry and leave a transaction"])
def test_a_lease_is_kept_though_a_transaction_is_rolled_back(site: Site, step: str) -> None:
    job_id = site.enqueue("plain", step, [step, 600])
    until(lambda: _lasts(site, job_id, 300), "the lease to be kept")


def _lasts(site: Site, job_id: str, seconds: float) -> bool:
    """Return whether a job's lease lasts for so long after it was enqueued."""
    job = site.queue("plain").job(job_id)
    if job is None or job.lease_expires_at is None or job.enqueued_at is None:
        return False
    return job.lease_expires_at - job.enqueued_at > timedelta(seconds=seconds)


@in_pools(pairs)
def test_a_retry_waits_for_the_attempt_that_asked(site: Site) -> None:
    flag = site.flag()
    job_id = site.enqueue("plain", "cleans up", ["retry and clean up slowly", str(flag)], ["end"])
    site.heard("cleaning", "cleans up")
    # The other place of the pool is free: a retry that was sent by now would run before these.
    for number in range(3):
        other = site.enqueue("plain", f"beside {number}", ["end"])
        assert site.end_of("plain", other) == "completed"
    assert site.starts("cleans up") == [(0, 0)]
    flag.touch()
    assert site.end_of("plain", job_id) == "completed"
    assert site.starts("cleans up") == TWICE


@in_pools(pairs[:1])
def test_a_retry_that_was_asked_for_happens_though_it_is_caught(site: Site) -> None:
    job_id = site.enqueue("plain", "caught", ["retry and catch it"], ["end"])
    assert site.end_of("plain", job_id) == "completed"
    assert site.starts("caught") == TWICE


@in_pools(pairs)
@pytest.mark.parametrize("then", ["throw", "return", "raise"])
def test_a_retry_whose_message_cannot_be_sent_goes_through_the_store(site: Site, then: str) -> None:
    job_id = site.enqueue("plain", f"{then} away", ["retry without a broker", then], ["end"])
    assert site.end_of("plain", job_id) == "completed"
    assert site.starts(f"{then} away") == TWICE


@in_pools(pairs)
def test_each_attempt_gets_the_arguments_that_were_enqueued(site: Site) -> None:
    given = [1, 2], {"nested": [3]}
    job_id = site.enqueue("plain", "spoils", ["retry and spoil", *given])
    assert site.end_of("plain", job_id) == "completed"
    assert site.heard("given", "spoils", count=3) == [("spoils", *given)] * 3


@in_pools(pairs)
@pytest.mark.parametrize(
    "given",
    [{"__type__": "unknown", "__value__": 1}, {"__type__": "datetime", "__value__": "2026-11-29"}],
    ids=["unknown", "datetime"],
)
def test_arguments_are_not_what_json_of_celery_takes_them_for(site: Site, given: Any) -> None:
    """It marks types of its own, and refuses marks it does not know; tenants may send anything."""
    label = f"marks {given['__type__']}"
    job_id = site.enqueue("plain", label, ["retry and tell", given])
    assert site.end_of("plain", job_id) == "completed"
    assert site.starts(label) == TWICE
    assert site.heard("given", label, count=2) == [(label, given)] * 2
