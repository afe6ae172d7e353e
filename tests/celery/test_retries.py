"""Retries that meet others: of their own job, and of another one."""

from __future__ import annotations

import pytest

from tests.celery.conftest import PAIRS, StartsSite, pairs
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
