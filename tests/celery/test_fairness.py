"""Real workers, many jobs: each runs once, and a heavy tenant does not make light ones wait."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from tests.celery.conftest import StartsSite
from tests.races.waiting import until

pytestmark = [
    pytest.mark.django_db(transaction=True, databases="__all__"),
    pytest.mark.service("redis"),
]

HEAVY, LIGHT, WORKERS = 1500, 500, 2
TENANTS = [f"light-{number}" for number in range(19)]


def test_light_tenants_start_within_the_bound_and_every_job_runs_once(
    open_site: StartsSite,
) -> None:
    site = open_site(
        "redis-redis", {"plain": {"MAX_CONCURRENCY": WORKERS, "COMPLETED_RETENTION": None}}
    )
    task, queue = site.tasks["plain"], site.queue("plain")
    task.queue(
        partition_key="heavy", tasks=[{"args": [f"heavy {number}"]} for number in range(HEAVY)]
    )
    for number in range(LIGHT):
        tenant = TENANTS[number % len(TENANTS)]
        task.enqueue(f"{tenant} {number}", partition_key=tenant)
    site.worker("--concurrency", str(WORKERS), "--prefetch-multiplier", "1")
    until(lambda: queue.stats()["completed"] >= HEAVY + LIGHT, "all jobs to end", 300)

    labels = [words[0] for words in site.journal.said("start")]
    assert Counter(labels) == Counter(set(labels))
    assert len(labels) == HEAVY + LIGHT

    ranks: dict[str, list[int]] = defaultdict(list)
    for rank, label in enumerate(labels, 1):
        ranks[label.split()[0]].append(rank)
    allowance = 2 * (WORKERS + 1)  # the bound of SFQ(D) for weights and shares of 1
    for tenant in TENANTS:
        for place, rank in enumerate(ranks[tenant]):
            assert rank <= place + 1 + len(TENANTS) * (place + allowance)
    light = sorted(rank for tenant in TENANTS for rank in ranks[tenant])
    p95 = light[int(len(light) * 0.95) - 1]
    longest = LIGHT // len(TENANTS) + 1
    assert p95 <= longest + len(TENANTS) * (longest + allowance)
    assert p95 < HEAVY / 2
