"""Requeueing all dead letters as a browser does it, and whether tenants are served fairly then."""

from __future__ import annotations

import html
import re
import time
from collections import Counter
from typing import Any

from benchmarks.sites.pages import data, walking
from benchmarks.sites.pages.visiting import Visitor, staff
from benchmarks.sites.pages.walking import FAILED
from vtrr_django import get_queue
from vtrr_django.domain.ids import new_job_id
from vtrr_django.domain.job import NewJob
from vtrr_django.models import FailedJob
from vtrr_django.queue import Queue

BEFORE, AFTER = "small-before", "small-after"
"""Tenants of every queue that enqueue one job, before and after the run."""

WORKERS = 1

BOUND = (WORKERS + 1) * 2
"""By how much the work of two tenants that wait may differ, with weight 1; see the README.

A share is 1 at least.
"""

_LEASES = 600
_MOST_POSTS = 10_000


def requeue_all() -> dict[str, Any]:
    """Requeue all dead letters through the admin; then lease from each queue."""
    letters = FailedJob.objects.count()
    _enqueue_small(BEFORE)
    live = _live()
    run = _Run()
    message = run.to_the_end()
    came = _live() - live
    _enqueue_small(AFTER)
    left = FailedJob.objects.count()
    if left or came != letters:
        raise RuntimeError(f"{came:,} of {letters:,} came back, {left:,} are left: {message}")
    return {
        "letters": letters,
        "seconds": sum(run.seconds),
        "posts": len(run.seconds),
        "slowest_ms": max(run.seconds) * 1000,
        "pages": run.visitor.rows,
        "bound": BOUND,
        "fairness": {name: _lease(get_queue(name)) for name in data.QUEUES},
    }


def _enqueue_small(key: str) -> None:
    for name in data.QUEUES:
        job = NewJob(id=new_job_id(), task_name="t", payload=data.payload(1), partition_key=key)
        get_queue(name).engine.enqueue([job], {})


def _live() -> int:
    return sum(get_queue(name).depth().ready for name in data.QUEUES)


class _Run:
    """Does what the pages of a run and their script do.

    Attributes:
        seconds: those of each POST.
        visitor: has looked at the run's page, under way and ended.
    """

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._client = staff()
        self.visitor = Visitor(self._client, rounds=3)

    def to_the_end(self) -> str:
        """Press the button of the page that asks, and go on; return what the list says then."""
        asked = self._client.post(FAILED, walking.asked("requeue")).content.decode()
        [signed] = re.findall(r'name="run" value="([^"]*)"', asked)
        response = self._post(_form(asked, "vtrr-buttons"), "text/html", run=signed)
        here = there = response.headers["Location"]
        shown = self._client.get(here).content.decode()
        if 'id="vtrr-run"' in shown:
            self.visitor.get("a run, under way", here)
            there = self._go_on(_form(shown, "vtrr-buttons"))
            ended = self._client.get(there).content.decode()
            self.visitor.get("a run, ended", here)
            shown = ended
        return " ".join(re.findall(r'<li class="success">(.*?)</li>', shown))

    def _go_on(self, address: str) -> str:
        for _ in range(_MOST_POSTS):
            news = self._post(address, "application/json").json()
            if news.get("trouble"):
                raise RuntimeError(news["trouble"])
            if "location" in news:
                return str(news["location"])
        raise RuntimeError(f"the run did not end within {_MOST_POSTS:,} batches")

    def _post(self, address: str, accept: str, **sent: str) -> Any:
        began = time.perf_counter()
        response = self._client.post(address, sent, headers={"accept": accept})
        self.seconds.append(time.perf_counter() - began)
        return response


def _form(text: str, css: str) -> str:
    """Return where the form of that class sends."""
    [address] = re.findall(rf'<form method="post" action="([^"]*)" class="{css}"', text)
    return html.unescape(address)


def _lease(queue: Queue) -> dict[str, Any]:
    """Lease and ack some jobs, one at a time; return how unevenly tenants were served.

    ``apart`` is the largest difference of W/share between two tenants that had work waiting
    all the time: of the small ones until they were served, of the others until the end.
    """
    got, places, ahead = Counter[str](), dict[str, int](), 0.0
    shares = {one.partition_key: one.share for one in queue.partitions(limit=data.PARTITIONS)}
    for number in range(1, _LEASES + 1):
        leased = queue.lease(1, worker_id="fair")
        if not leased:
            break
        [job] = leased
        queue.ack(job, runtime=0.001)
        key = job.partition_key
        if key in (BEFORE, AFTER):
            places[key] = number
            continue
        got[key] += 1
        if len(places) < 2:
            ahead = max(ahead, got[key] / shares.get(key, 1.0))
    waiting = [
        got[one.partition_key] / one.share
        for one in queue.partitions(limit=data.PARTITIONS + 2)
        if one.ready and not one.paused and one.limit is None and one.partition_key != BEFORE
    ]
    spread = max(waiting) - min(waiting) if waiting else 0.0
    return {"places": places, "apart": max(ahead, spread), "tenants": len(shares)}
