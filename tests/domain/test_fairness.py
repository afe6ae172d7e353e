"""The oracle keeps the promise of start-time fair queueing, and the rule's finer points."""

from __future__ import annotations

import itertools
from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st

from vtrr_django.domain.fairness import FairQueue, after_charge, initial_charge, new_average


def drain(queue: FairQueue) -> list[str]:
    order = []
    while (job_id := queue.lease()) is not None:
        order.append(job_id)
        queue.finish(job_id)
    return order


def test_the_first_tag_of_a_busy_period_is_one_and_it_ends_when_nothing_waits_or_runs() -> None:
    queue = FairQueue()
    for number in range(5):
        queue.enqueue(f"a{number}", "a")
    leased = [queue.lease() for _ in range(5)]
    assert queue.virtual_time == 5.0
    for job_id in leased[:4]:
        queue.finish(str(job_id))
    assert queue.virtual_time == 5.0
    queue.finish(str(leased[4]))
    assert queue.virtual_time == 1.0
    queue.enqueue("a5", "a")
    queue.enqueue("b0", "b")
    assert drain(queue) == ["a5", "b0"]


def test_a_newcomer_starts_at_the_current_virtual_time_not_behind_it() -> None:
    queue = FairQueue()
    for number in range(10):
        queue.enqueue(f"a{number:02}", "a")
    for _ in range(6):
        queue.lease()
    queue.enqueue("b", "b")
    assert [queue.lease(), queue.lease()] == ["b", "a06"]


def test_a_partition_that_paused_gets_no_credit_for_it() -> None:
    queue = FairQueue()
    for number in range(20):
        queue.enqueue(f"a{number:02}", "a")
        queue.enqueue(f"b{number:02}", "b")
    queue.pause_partition("a", True)
    assert [str(queue.lease())[0] for _ in range(10)] == ["b"] * 10
    queue.pause_partition("a", False)
    # One turn ahead, as any newcomer, and not the ten it sat out.
    assert "".join(str(queue.lease())[0] for _ in range(8)) == "aabababa"


def test_a_refund_never_takes_a_partition_below_the_current_virtual_time() -> None:
    assert after_charge(10.0, -5.0, 1.0, 8.0) == 8.0
    assert after_charge(10.0, -1.0, 1.0, 8.0) == 9.0
    assert after_charge(10.0, 4.0, 2.0, 8.0) == 12.0
    assert after_charge(3.0, -1.0, 1.0, 8.0) == 3.0


def test_half_of_the_average_is_charged_and_the_average_moves_slowly() -> None:
    assert initial_charge(10.0) == 5.0
    assert initial_charge(None) == 0.5
    assert new_average(None, 4.0) == 4.0
    assert new_average(10.0, 20.0) == 12.0


# |W_f / share_f - W_g / share_g| <= (D + 1) * (c_f / share_f + c_g / share_g): W the work
# leased over any interval in which both wait, c the largest weight, D the workers.

partitions = st.lists(
    st.tuples(
        st.lists(st.integers(1, 20), min_size=5, max_size=40),
        st.sampled_from([0.25, 0.5, 1.0, 2.0, 3.0, 7.5]),
    ),
    min_size=2,
    max_size=5,
)


@given(partitions, st.integers(1, 6), st.randoms(use_true_random=False))
@settings(max_examples=300)
def test_the_fairness_inequality_holds_over_every_interval(
    tenants: list[tuple[list[int], float]], workers: int, random: object
) -> None:
    queue = FairQueue()
    weights: dict[str, int] = {}
    for key, (jobs, share) in enumerate(tenants):
        queue.set_share(str(key), share)
        for number, weight in enumerate(jobs):
            job_id = f"{number:04}-{key}"
            weights[job_id] = weight
            queue.enqueue(job_id, str(key), weight=weight)
    running: deque[str] = deque()
    leases: list[tuple[str, int]] = []
    waiting_until: dict[str, int] = {}
    while True:
        while len(running) < workers and (job_id := queue.lease()) is not None:
            running.append(job_id)
            key = job_id.split("-")[1]
            leases.append((key, weights[job_id]))
            if not queue.ready(key):
                waiting_until[key] = len(leases)
        if not running:
            break
        index = random.randrange(len(running))  # type: ignore[attr-defined]
        queue.finish(running[index])
        del running[index]
    for f, g in itertools.combinations(range(len(tenants)), 2):
        both_wait = min(waiting_until[str(f)], waiting_until[str(g)])
        _check_pair(leases[:both_wait], tenants, f, g, workers)


def _check_pair(
    leases: list[tuple[str, int]],
    tenants: list[tuple[list[int], float]],
    f: int,
    g: int,
    workers: int,
) -> None:
    (jobs_f, share_f), (jobs_g, share_g) = tenants[f], tenants[g]
    bound = (workers + 1) * (max(jobs_f) / share_f + max(jobs_g) / share_g)
    gap, lowest, highest = 0.0, 0.0, 0.0
    for key, weight in leases:
        if key == str(f):
            gap += weight / share_f
        elif key == str(g):
            gap -= weight / share_g
        lowest, highest = min(lowest, gap), max(highest, gap)
    # The largest difference over any interval is the spread of the running sum.
    assert highest - lowest <= bound + 1e-9


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=60), st.integers(1, 3))
def test_no_partition_is_ever_over_its_limit_and_everything_runs(keys: str, limit: int) -> None:
    queue = FairQueue(default_limit=limit)
    for number, key in enumerate(keys):
        queue.enqueue(f"{number:03}", key)
    done = 0
    running: list[str] = []
    while True:
        while (job_id := queue.lease()) is not None:
            running.append(job_id)
            assert all(len(queue.leased(key)) <= limit for key in "abc")
        if not running:
            break
        queue.finish(running.pop(0))
        done += 1
    assert done == len(keys)
