"""Whose turn it is: which slot talks to which source, when, and for how many jobs.

A source *flows* while lease rounds find work: then any slot may lease from it. After an
empty round it is *dry* until its next poll is due, and only one slot polls it; a slot that
ends a batch from it leases with the same call nevertheless. While all sources are dry one
waiting slot has set its alarm to the next poll; the others sleep until work is found. So
more slots mean no more polls.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from vtrr_django.worker.lanes import Lane
from vtrr_django.worker.logs import Outage

TURN_SECONDS = 0.05
"""How long a slot stays with one source while others have work too.

Longer turns mean fewer calls that only hand in (a slot that moves on pays one), shorter
ones a shorter wait for the other source.
"""


@dataclass(slots=True, eq=False)
class Flow:
    """One source in the rota; guarded by the rota's lock."""

    lane: Lane
    outage: Outage
    flowing: bool = False
    polled: bool = False
    ready_at: float = 0.0
    empty_rounds: int = 0
    empty_at: float = -math.inf
    changes: int = 0
    slots: int = 0
    served: int = 0
    empty_epoch: int = -1


@dataclass(slots=True, eq=False)
class Seat:
    """A slot as the rota sees it.

    Attributes:
        holding: the slot has outcomes to hand in; set by the slot.
        sizes: jobs to ask each source for; set by the slot.
    """

    flow: Flow | None = None
    since: float = 0.0
    busy: bool = False
    ran: bool = False
    holding: bool = False
    sizes: dict[Lane, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Turn:
    """Leave for one slot to make one call.

    Attributes:
        flow: the source.
        n: jobs to lease; 0: only hand in.
        stale: the slot has waited.
        counts: an empty answer means that the source is dry.
        is_poll: the slot is the one that polls this dry source.
        changes: state of the source when the turn began; an answer to an older state says
            nothing about the present one.
        epoch: likewise, of the whole worker: how many batches had ended.
    """

    flow: Flow
    n: int
    stale: bool
    counts: bool
    is_poll: bool
    changes: int
    epoch: int


class Rota:
    """Gives turns to slots.

    Args:
        lanes: the sources.
        poll_interval: seconds between two polls of an idle source.
        backoff_interval: the same after ``max_empty`` empty polls.
        max_empty: see there.
        burst: whether to end when nothing is ready and nothing runs.
        max_jobs: jobs to lease at most; None: no end.
        extra: of log records.
    """

    def __init__(
        self,
        lanes: Sequence[Lane],
        *,
        poll_interval: float,
        backoff_interval: float,
        max_empty: int,
        burst: bool,
        max_jobs: int | None,
        extra: dict[str, str],
    ) -> None:
        self._poll_interval = poll_interval
        self._backoff_interval = backoff_interval
        self._max_empty = max_empty
        self._burst = burst
        self._budget = math.inf if max_jobs is None else max_jobs
        self._flows = [
            Flow(lane, Outage(f"leasing from queue {lane.name}", {**extra, "queue": lane.name}))
            for lane in lanes
        ]
        self._changed = threading.Condition()
        self._alarm_at = math.inf
        self._alarm: object = None
        self._busy = 0
        self._turns = 0
        self._epoch = 0
        self.stopping = False

    # -- slots ---------------------------------------------------------------------

    def next_turn(self, seat: Seat) -> Turn | None:
        """Wait for a turn; None: no more work, the slot may end.

        A slot that holds outcomes gets a turn at once: at the source it comes from, and
        with ``n=0`` when it must not lease there any more.
        """
        waited = False
        with self._changed:
            self._rise(seat)
            while True:
                over = self._over()
                now = time.monotonic()
                flow = None if over or self._budget <= 0 else self._choose(seat, now)
                if seat.holding and seat.flow is not None and flow is not seat.flow:
                    return self._sit(seat, seat.flow, 0, now, stale=waited)
                if over:
                    self._changed.notify_all()
                    return None
                if flow is not None:
                    wanted = seat.sizes.get(flow.lane, 1)
                    return self._sit(seat, flow, int(min(wanted, self._budget)), now, stale=waited)
                waited = True
                self._wait(now)

    def answered(self, turn: Turn, found: int, *, unused: int = 0) -> None:
        """Note that the call of ``turn`` went well and leased ``found`` jobs.

        Args:
            turn: what :meth:`next_turn` gave.
            found: how many jobs were leased.
            unused: how many jobs leased before were given back by the same call.
        """
        flow = turn.flow
        with self._changed:
            flow.outage.recovered()
            if turn.is_poll:
                flow.polled = False
            self._budget += turn.n - found + unused
            if found:
                self._found(flow, is_all=found < turn.n)
            elif turn.n:
                flow.empty_epoch = max(flow.empty_epoch, turn.epoch)
                flow.empty_at = time.monotonic()
                if turn.counts and flow.changes == turn.changes:
                    flow.empty_rounds += 1
                    quiet = flow.empty_rounds >= self._max_empty
                    self._dry_up(flow, self._backoff_interval if quiet else self._poll_interval)

    def failed(self, turn: Turn, exc: BaseException) -> None:
        """Note that the call of ``turn`` raised."""
        flow = turn.flow
        with self._changed:
            if turn.is_poll:
                flow.polled = False
            self._budget += turn.n
            # A slot that only tried to hand in, or came late, does not make the pause longer.
            news = turn.counts or not flow.outage.failures
            if news and flow.changes == turn.changes:
                self._dry_up(flow, flow.outage.failed(exc))

    # -- others --------------------------------------------------------------------

    def stir(self, lane: Lane | None = None, *, unused: int = 0) -> None:
        """Have idle slots look at once: at ``lane``, or (None) at every source that works.

        Args:
            lane: where there is work again.
            unused: jobs that were leased and given back.
        """
        with self._changed:
            self._budget += unused
            self._epoch += 1
            for flow in self._flows:
                if (lane is None or flow.lane is lane) and not flow.outage.failures:
                    flow.ready_at = 0.0
            self._changed.notify()

    def stop(self) -> None:
        """Give no more turns, except to hand in."""
        with self._changed:
            self.stopping = True
            self._changed.notify_all()

    @property
    def busy(self) -> int:
        """How many slots are in a turn."""
        return self._busy

    # -- with the lock held --------------------------------------------------------

    def _found(self, flow: Flow, *, is_all: bool) -> None:
        flow.empty_rounds = 0
        flow.changes += 1
        quiet_until = flow.empty_at + self._poll_interval
        # Few jobs, and another slot that looked went away with nothing: one slot is enough.
        # Not for long, though, for it may be busy for hours with what it found.
        flow.flowing = not (is_all and time.monotonic() < quiet_until)
        if flow.flowing:
            self._changed.notify()  # there may be more: one more slot looks
        else:
            flow.ready_at = quiet_until
            if self._alarm_at > quiet_until:
                self._changed.notify()  # somebody must set an alarm for it

    def _rise(self, seat: Seat) -> None:
        if seat.busy and seat.flow is not None:
            seat.busy = False
            seat.flow.slots -= 1
            self._busy -= 1
            if seat.ran:
                seat.ran = False
                self._epoch += 1

    def _sit(self, seat: Seat, flow: Flow, n: int, now: float, *, stale: bool) -> Turn:
        is_due = not flow.flowing and not flow.polled and flow.ready_at <= now
        is_poll = n > 0 and (is_due or (self._burst and not flow.flowing and not flow.polled))
        turn = Turn(
            flow=flow,
            n=n,
            stale=stale,
            counts=flow.flowing or is_poll,
            is_poll=is_poll,
            changes=flow.changes,
            epoch=self._epoch,
        )
        if flow is not seat.flow or now - seat.since >= TURN_SECONDS:
            seat.since = now
        seat.flow = flow
        seat.busy = True
        flow.slots += 1
        flow.polled |= is_poll
        self._busy += 1
        self._turns += 1
        flow.served = self._turns
        self._budget -= n
        if len(self._flows) > 1 and self._alarm is None:
            self._changed.notify()  # somebody must set an alarm for the other sources
        return turn

    def _choose(self, seat: Seat, now: float) -> Flow | None:
        """Return the source where the fewest slots are, of those the one served longest ago."""
        best: Flow | None = None
        for flow in self._flows:
            own = flow is seat.flow and seat.holding
            if not (own or flow.flowing or self._is_due(flow, now)):
                continue
            if flow is seat.flow and now - seat.since < TURN_SECONDS:
                return flow
            if best is None or (flow.slots, flow.served) < (best.slots, best.served):
                best = flow
        return best

    def _is_due(self, flow: Flow, now: float) -> bool:
        if flow.polled:
            return False
        if flow.ready_at <= now:
            return True
        # A burst ends with a look at every source after the last job has ended.
        return (
            self._burst
            and self._busy == 0
            and flow.empty_epoch != self._epoch
            and not flow.outage.failures
        )

    def _dry_up(self, flow: Flow, pause: float) -> None:
        flow.flowing = False
        flow.ready_at = time.monotonic() + pause
        flow.changes += 1

    def _over(self) -> bool:
        if self.stopping:
            return True
        if self._busy:
            return False
        if self._budget <= 0:
            return True
        return self._burst and all(
            not flow.flowing and flow.empty_epoch == self._epoch for flow in self._flows
        )

    def _wait(self, now: float) -> None:
        due = min((flow.ready_at for flow in self._flows if not flow.polled), default=math.inf)
        if self._budget <= 0 or due >= self._alarm_at:
            self._changed.wait()
            return
        self._alarm_at, alarm = due, object()
        self._alarm = alarm
        self._changed.wait(max(0.0, due - now))
        if self._alarm is alarm:
            self._alarm_at, self._alarm = math.inf, None
