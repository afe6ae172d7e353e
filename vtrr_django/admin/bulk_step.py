"""One batch of a run.

A chunk is written down after it was done, and whatever is done can be done again: a process
that dies in between, or a store that does not answer, only has the next batch do it again. One
process at a time is at work on a run, so that each can tell how it ended. Should two be,
because one was taken for dead, each counts what it did; the run passes the letters once.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from vtrr_django.admin.bulk import Run, why_not
from vtrr_django.admin.bulk_ledger import DONE, RUNNING, STOPPED, Ledger, Progress
from vtrr_django.admin.history_names import rows_in
from vtrr_django.admin.history_outage import answering
from vtrr_django.exceptions import DuplicateJobError, ValidationError, VTRRError
from vtrr_django.models import FailedJob
from vtrr_django.queue import Queue
from vtrr_django.registry import get_queue

CHUNK: Final = 250
"""Letters taken at a time."""

SECONDS: Final = 1.0
"""How long one request takes more of them."""

SPAN: Final = 20_000
"""Rows that are looked through for a chunk."""

PATIENCE: Final = 5.0
"""Seconds without news after which a process that is at work is taken for dead."""

_LOOK, _LOOKS = 0.1, 5
"""Seconds between looks at what others do, and looks at letters that others hold."""


class Letter(NamedTuple):
    """A dead letter to be taken."""

    seq: int
    queue: str
    id: str


@dataclass(kw_only=True, slots=True)
class Chunk:
    """What became of some letters; see :class:`Progress`."""

    done: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    kept: int = 0


def step(run: Run, ledger: Ledger) -> Progress:
    """Do one batch, and return how far the run has come.

    Raises:
        VTRRError: a store did not answer. What was done until then is written down.
        NotOurs: the run's log entry was deleted.
    """
    me = secrets.token_hex(4)
    progress = _begin(ledger, me)
    end = time.monotonic() + SECONDS
    try:
        while progress.at_work == me:
            progress = _do_chunk(run, ledger, progress, lambda: time.monotonic() >= end)
    except Exception:
        ledger.change(lambda now: replace(now, at_work="") if now.at_work == me else now)
        raise
    return progress


def stop(ledger: Ledger) -> Progress:
    """End a run; return how far it has come when who is at work on it has counted."""
    ledger.change(lambda now: replace(now, state=STOPPED) if now.state == RUNNING else now)
    return _watch(ledger, lambda now: not now.at_work)


def _begin(ledger: Ledger, me: str) -> Progress:
    """Be at work on a run, unless it has ended or others are, who get on."""
    begun, end = ledger.read(), time.monotonic() + SECONDS

    def follows(now: Progress) -> bool:
        return now.reached != begun.reached and time.monotonic() >= end

    def is_free(now: Progress) -> bool:
        return not now.at_work or now.state != RUNNING

    seen = _watch(ledger, lambda now: is_free(now) or follows(now))
    if seen.state != RUNNING or (seen.at_work and seen.reached != begun.reached):
        return seen
    return ledger.change(lambda now: replace(now, at_work=me) if now == seen else now)


def _watch(ledger: Ledger, enough: Callable[[Progress], bool]) -> Progress:
    """Return how far a run has come as soon as that is enough, or when nothing changes."""
    seen, since = ledger.read(), time.monotonic()
    while not enough(seen) and time.monotonic() - since < PATIENCE:
        time.sleep(_LOOK)
        now = ledger.read()
        if now != seen:
            seen, since = now, time.monotonic()
    return seen


def _do_chunk(run: Run, ledger: Ledger, before: Progress, late: Callable[[], bool]) -> Progress:
    """Do it with the next letters, and write down what became of them."""
    with answering(run.alias):
        letters, reached = _next(run, before.reached)
    chunk = Chunk()

    def record(now: Progress) -> Progress:
        if now.reached == before.reached:
            counted = _plus(now, chunk)
            state = DONE if now.state == RUNNING and reached >= run.upto else now.state
            free = state != RUNNING or late()
            return replace(
                counted,
                taken=now.taken + len(letters),
                reached=reached,
                state=state,
                at_work="" if free and now.at_work == before.at_work else now.at_work,
            )
        # We were taken for dead, and these letters were passed meanwhile.
        return now if run.action.stays else _plus(now, Chunk(done=chunk.done))

    try:
        _do(run, letters, chunk)
    except VTRRError:
        if not run.action.stays:  # else they are counted when all of them are done
            ledger.change(lambda now: _plus(now, Chunk(done=chunk.done)))
        raise
    return ledger.change(record)


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


def _plus(progress: Progress, chunk: Chunk) -> Progress:
    return replace(
        progress,
        done=_sum(progress.done, chunk.done),
        refused=_sum(progress.refused, chunk.refused),
        kept=progress.kept + chunk.kept,
    )


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {**one, **{queue: one.get(queue, 0) + n for queue, n in other.items()}}


# -- doing it ----------------------------------------------------------------------


def _do(run: Run, letters: Sequence[Letter], chunk: Chunk) -> None:
    """Do it with letters; ``chunk`` is told with how many, also if a store then fails."""
    by_queue: dict[str, list[Letter]] = {}
    for letter in letters:
        by_queue.setdefault(letter.queue, []).append(letter)
    for name, some in by_queue.items():
        if name in run.left or why_not(name, run.alias):
            chunk.refused[name] = len(some)
        else:
            _do_with(run, get_queue(name), some, chunk)


def _do_with(run: Run, queue: Queue, letters: Sequence[Letter], chunk: Chunk) -> None:
    """Do it with letters of one queue. Those that others hold just then are tried again."""
    spoilt: set[str] = set()
    for _ in range(_LOOKS):
        ids = [letter.id for letter in letters]
        missing = len(ids) - _act(run, queue, ids, chunk, spoilt)
        if run.action.stays or not missing:
            letters = []
            break
        letters = [one for one in _still_there(run, letters) if one.id not in spoilt]
        if not letters:
            break
        time.sleep(_LOOK)
    chunk.kept += len(letters) + len(spoilt)


def _still_there(run: Run, letters: Sequence[Letter]) -> list[Letter]:
    with answering(run.alias):
        rows = rows_in(FailedJob, run.alias).filter(seq__in=[letter.seq for letter in letters])
        seqs = set(rows.values_list("seq", flat=True))
    return [letter for letter in letters if letter.seq in seqs]


def _act(run: Run, queue: Queue, ids: Sequence[str], chunk: Chunk, spoilt: set[str]) -> int:
    """Return with how many letters it was done; one that is spoilt does not hold up the rest."""

    def counted(done: int) -> int:
        chunk.done[queue.name] = chunk.done.get(queue.name, 0) + done
        return done

    try:
        return counted(len(run.action.does(queue, ids, f"{run.key}/{queue.name}")))
    except VTRRError as error:
        done = counted(error.done)
        if not _is_about_a_letter(error):
            raise
    if len(ids) == 1:
        spoilt.update(ids)
        return done
    half = len(ids) // 2
    return done + sum(_act(run, queue, part, chunk, spoilt) for part in (ids[:half], ids[half:]))


def _is_about_a_letter(error: VTRRError) -> bool:
    """Return whether it is a letter that is spoilt, not what the project says of its partition."""
    if isinstance(error, ValidationError):
        return not error.path.startswith("SHARES")
    return isinstance(error, DuplicateJobError)
