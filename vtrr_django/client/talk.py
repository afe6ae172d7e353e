"""What is asked of a server, told once for callers in threads and in event loops alike.

A verb is a generator: it yields calls and is given the answers, and what it returns is what the
verb returns. :func:`hold` and :func:`ahold` lead such a talk, each in its way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from vtrr_django.exceptions import VTRRError

if TYPE_CHECKING:
    from vtrr_django.client.transport import Transport

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One request.

    Attributes:
        path: below ``base_url``; it needs no percent-encoding.
        method: in capitals.
        content: JSON; ``b""``: none.
        repeatable: whether it may be done twice. What may not is tried again only where it has
            certainly not arrived.
        patience: seconds in which it is tried again; None: those of the transport.
        wait: seconds that the server may take besides, as for a long poll.
    """

    path: str
    method: str = "POST"
    content: bytes = b""
    repeatable: bool = True
    patience: float | None = None
    wait: float = 0.0


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing, for so many seconds; the answer is empty."""

    seconds: float


Answer = dict[str, Any] | VTRRError | None
"""What came back, or what went wrong; None: nothing was asked yet."""

Talk = Generator[Call | Pause, Any, T]


def hold(talk: Talk[T], way: Transport) -> T:
    """Lead a talk to its end, and return what it returns; it is told of errors, too."""
    answer: Answer = None
    try:
        while True:
            asked = _go_on(talk, answer)
            try:
                answer = {}
                if isinstance(asked, Pause):
                    time.sleep(asked.seconds)
                else:
                    answer = way.call(asked)
            except VTRRError as error:
                answer = error
    except StopIteration as end:
        returned: T = end.value
        return returned


async def ahold(talk: Talk[T], way: Transport) -> T:
    """Do :func:`hold` in asyncio's event loop."""
    answer: Answer = None
    try:
        while True:
            asked = _go_on(talk, answer)
            try:
                answer = {}
                if isinstance(asked, Pause):
                    await asyncio.sleep(asked.seconds)
                else:
                    answer = await way.acall(asked)
            except VTRRError as error:
                answer = error
    except StopIteration as end:
        returned: T = end.value
        return returned


def _go_on(talk: Talk[T], answer: Answer) -> Call | Pause:
    """Return what a talk asks next.

    Raises:
        StopIteration: it has come to its end.
    """
    return talk.throw(answer) if isinstance(answer, VTRRError) else talk.send(answer)
