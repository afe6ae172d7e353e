"""What is done with many dead letters: what was asked for, as signed text.

A page asks, and what its user confirms comes back signed. From then on it is kept with the
run's entry in the admin's log (:mod:`vtrr_django.admin.bulk_ledger`), and the run has a page of
its own, which goes on where the work stands, whoever comes back to it from wherever.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.contrib.admin.models import CHANGE, DELETION
from django.core import signing

from vtrr_django.admin.history_search import Selection, database_of
from vtrr_django.conf import get_settings
from vtrr_django.exceptions import VTRRError
from vtrr_django.queue import Queue

SALT: Final = "vtrr_django.admin.bulk"

LASTS: Final = 24 * 3600
"""Seconds in which what a page asks can be confirmed."""


class NotOurs(VTRRError):
    """What was sent was not made here, not for this user, or is too old."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Action:
    """Something to do with dead letters.

    Attributes:
        name: as the admin calls it.
        label: what is on its button.
        done: what is said of those it was done with.
        does: does it once, however often it is asked for the same letters of a queue under
            the same name, and returns one id for each letter that was there.
        stays: whether letters are still there when it was done.
        flag: what kind of change the admin's log calls it.
        css: a class for its button.
    """

    name: str
    label: str
    done: str
    explains: str
    does: Callable[[Queue, Sequence[str], str], list[str]]
    stays: bool = False
    flag: int = CHANGE
    css: str = ""


REQUEUE: Final = Action(
    name="requeue",
    label="Requeue",
    done="requeued",
    explains=(
        "They run again, with all their attempts, at the end of the lines of their partitions."
    ),
    does=lambda queue, ids, once: queue.requeue(ids),
)
COPY: Final = Action(
    name="copy",
    label="Requeue as a copy",
    done="copied",
    explains="A new job like each of them is enqueued. They stay here as they are.",
    does=lambda queue, ids, once: queue.copy(ids, once=once),
    stays=True,
)
DISCARD: Final = Action(
    name="discard",
    label="Discard",
    done="discarded",
    explains="They are deleted, will never run, and nothing of them is kept.",
    does=lambda queue, ids, once: queue.discard(ids),
    flag=DELETION,
    css="vtrr-danger",
)
ACTIONS: Final[Mapping[str, Action]] = {one.name: one for one in (REQUEUE, COPY, DISCARD)}


@dataclass(frozen=True, kw_only=True)
class Run:
    """One action on many letters, as its user has asked for it.

    Attributes:
        action: what is done.
        selection: with which letters.
        upto: the number of the last letter there was then: letters that die again meanwhile
            are new ones, and not taken.
        total: how many there were with which it can be done.
        counts: how many those are, by queue.
        left: how many more there were, by queues with which it cannot, which are left alone.
        words: what they are, for people.
        user: who asked, as text.
        logged: the number of the admin's last log entry before.
        back: the query string of the list it was asked from.
        key: tells this run from all others.
    """

    action: Action
    selection: Selection
    upto: int
    total: int
    words: str
    user: str
    logged: int
    counts: Mapping[str, int]
    back: str = ""
    left: Mapping[str, int] = field(default_factory=dict)
    key: str = field(default_factory=lambda: secrets.token_urlsafe(9))

    @property
    def alias(self) -> str:
        """The database of the letters."""
        return database_of(self.selection.queue)

    def signed(self) -> str:
        """Return it as text that only this site can make."""
        values = {name: getattr(self, name) for name in _PLAIN}
        values |= {"action": self.action.name, "selection": self.selection.to_json()}
        return signing.dumps(values, salt=SALT, compress=True)

    @classmethod
    def read(cls, text: str, user: Any) -> Run:
        """Undo :meth:`signed` for what a page has sent.

        Raises:
            NotOurs: it was not made here or not for this user, or is too old.
        """
        run = cls.kept(text, lasts=LASTS)
        if not run.is_of(user):
            raise NotOurs("This was asked for by somebody else; choose the jobs yourself.")
        return run

    def is_of(self, user: Any) -> bool:
        """Return whether this user has asked for it."""
        return self.user == str(user.pk)

    @classmethod
    def kept(cls, text: str, *, lasts: int | None = None) -> Run:
        """Undo :meth:`signed`, whoever it is for; ``lasts`` is how old it may be, in seconds.

        Raises:
            NotOurs: it was not made here, or is too old.
        """
        try:
            values: dict[str, Any] = signing.loads(text, salt=SALT, max_age=lasts)
        except signing.SignatureExpired as error:
            raise NotOurs("This page is more than a day old; choose the jobs again.") from error
        except signing.BadSignature as error:
            raise NotOurs("This was not sent from a page of this site.") from error
        values["action"] = ACTIONS[values["action"]]
        values["selection"] = Selection.from_json(values["selection"])
        return cls(**values)


_PLAIN: Final = ("upto", "total", "words", "user", "logged", "counts", "back", "left", "key")


def why_not(queue: str, alias: str) -> str | None:
    """Return why nothing can be done with a queue's letters in a database; None: it can."""
    config = get_settings().queues.get(queue)
    if config is None:
        return (
            f"settings do not declare queue {queue} any more, so nobody would run its jobs; "
            "declare it in VTRR['QUEUES'] and try again"
        )
    if config.database != alias:
        return (
            f"queue {queue} keeps its dead letters in database {config.database!r} now, and "
            f"these are in {alias!r}; move the rows, or set its DATABASE to {alias!r}"
        )
    return None
