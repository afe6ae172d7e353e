"""One batch of a run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from vtrr_django.admin.bulk import Action, Run, why_not
from vtrr_django.admin.bulk_ledger import DONE, RUNNING, Ledger, Progress
from vtrr_django.admin.history_names import rows_in
from vtrr_django.admin.history_outage import answering
from vtrr_django.exceptions import ValidationError, VTRRError
from vtrr_django.models import FailedJob
from vtrr_django.queue import Queue
from vtrr_django.registry import get_queue

CHUNK: Final = 250
"""Letters taken at a time."""

SECONDS: Final = 1.0
"""How long one request takes more of them."""

SPAN: Final = 20_000
"""Rows that are looked through for a chunk."""


class Letter(NamedTuple):
    """A dead letter to be taken."""

    seq: int
    queue: str
    id: str


def step(run: Run, ledger: Ledger) -> Progress:
    """Do one batch, and return how far the run has come.

    Raises:
        VTRRError: a store did not answer. What was done until then is written down.
        NotOurs: the run's log entry was deleted.
    """
    end = time.monotonic() + SECONDS
    while True:
        progress = ledger.read()
        if progress.state != RUNNING:
            return progress
        with answering(run.alias):
            letters, reached = _next(run, progress.reached)
        if not letters and reached >= run.upto:
            return ledger.change(lambda now: replace(now, state=DONE))
        if ledger.take(progress, reached=reached, count=len(letters)):
            progress = _do(run, ledger, letters, progress, reached)
        if time.monotonic() >= end:
            return progress


def _next(run: Run, reached: int) -> tuple[list[Letter], int]:
    """Return the next letters, the oldest first, and the number up to which they are all."""
    first = rows_in(FailedJob, run.alias).filter(seq__gt=reached, seq__lte=run.upto)
    start = first.order_by("seq").values_list("seq", flat=True).first()
    if start is None:
        return [], run.upto
    end = min(run.upto, start + SPAN)
    rows = run.selection.rows(FailedJob).filter(seq__gte=start, seq__lte=end).order_by("seq")
    letters = [Letter(*row) for row in rows.values_list("seq", "queue", "id")[:CHUNK]]
    return letters, end if len(letters) < CHUNK else letters[-1].seq


def _do(
    run: Run, ledger: Ledger, letters: Sequence[Letter], before: Progress, reached: int
) -> Progress:
    """Do it with letters that are claimed, and write down with how many it was done."""
    done, refused = 0, dict[str, int]()
    by_queue: dict[str, list[str]] = {}
    for letter in letters:
        by_queue.setdefault(letter.queue, []).append(letter.id)
    try:
        for queue, ids in by_queue.items():
            if queue in run.left or why_not(queue, run.alias):
                refused[queue] = len(ids)
            else:
                done += _do_with(run.action, get_queue(queue), ids)
    except VTRRError:

        def give_back(now: Progress) -> Progress:
            now = replace(now, done=now.done + done)
            if now.reached != reached or not run.action.repeats:
                return now  # others have gone on, or some may be copied without our knowing
            return replace(now, reached=before.reached, taken=before.taken + done)

        ledger.change(give_back)
        raise

    def add(now: Progress) -> Progress:
        counts = {queue: now.refused.get(queue, 0) + n for queue, n in refused.items()}
        return replace(now, done=now.done + done, refused={**now.refused, **counts})

    return ledger.change(add)


def _do_with(action: Action, queue: Queue, ids: Sequence[str]) -> int:
    """Return with how many letters it was done; one that is spoilt does not hold up the rest."""
    try:
        return len(action.does(queue, ids))
    except ValidationError:  # nothing was done with any of them
        if len(ids) == 1:
            return 0
        half = len(ids) // 2
        return _do_with(action, queue, ids[:half]) + _do_with(action, queue, ids[half:])
