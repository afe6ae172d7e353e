"""From the name of a liteworks message type to a task of ours, and whether its fields fit."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from vtrr_django.domain.messages import decode
from vtrr_django.domain.values import check_task_name, describe, with_article
from vtrr_django.exceptions import ValidationError
from vtrr_django.tasks import Handler, Runnable, Task


class Target(NamedTuple):
    """What is to run jobs: its task name, and itself where this process knows it."""

    name: str
    runnable: Runnable | None = None

    @property
    def fields(self) -> frozenset[str]:
        """Names of a message's fields, as far as they are known."""
        if not isinstance(self.runnable, Handler):
            return frozenset()
        kind: Any = self.runnable.message_type
        return frozenset(field.name for field in fields(kind))


class Names:
    """The tasks and messages of one queue, and what the command line says about them.

    Args:
        queue: its name.
        runnables: the tasks and handlers this process knows, by task name.
        task: what all jobs are of; None: as their payloads say.
        mapping: message types of the file, each with a task or message.

    Raises:
        ValidationError: ``task`` or ``mapping`` names something the queue does not have.
    """

    def __init__(
        self,
        queue: str,
        runnables: Mapping[str, Runnable],
        *,
        task: str | None = None,
        mapping: Mapping[str, str] | None = None,
    ) -> None:
        self._queue = queue
        self._runnables = runnables
        self._by_alias: dict[str, set[str]] = {}
        for name, runnable in runnables.items():
            for alias in _aliases(name, runnable):
                self._by_alias.setdefault(alias, set()).add(name)
        self.unknown_fields: Counter[tuple[str, str]] = Counter()
        self.only = None if task is None else self._named(task, "--task")
        self._mapping = {
            alias: self._named(name, f"--map {alias}") for alias, name in (mapping or {}).items()
        }

    def of(self, type_name: str) -> Target:
        """Return what runs a message type.

        Raises:
            ValidationError: nothing does, or it cannot be told what.
        """
        known = self._mapping.get(type_name)
        if known is None:
            known = self._find(type_name, "payload", f"--map {_quoted(type_name)}=NAME")
        if known is None:
            have = ", ".join(self._runnables) or "this process knows none"
            raise ValidationError(
                "payload",
                f"expected a message or task of queue {self._queue!r} ({have}), got the type "
                f"{describe(type_name)}{_nearest(type_name, self._by_alias)}; declare a handler, "
                f"or say which it is with --map {_quoted(type_name)}=NAME",
            )
        return known

    @staticmethod
    def is_of(type_name: str, target: Target) -> bool:
        """Return whether a type is that of ``target``, as far as its name tells."""
        aliases = {target.name, _last(target.name)}
        if target.runnable is not None:
            aliases |= set(_aliases(target.name, target.runnable))
        return bool({type_name, _last(type_name)} & aliases)

    def check(self, target: Target, data: dict[str, Any]) -> None:
        """Refuse fields that ``target`` could not be run with.

        Raises:
            ValidationError: it could not.
        """
        if isinstance(target.runnable, Task):
            target.runnable.check_call([], data, "payload")
        elif isinstance(target.runnable, Handler):
            self._check_message(target, target.runnable.message_type, data)

    def _check_message(self, target: Target, message_type: type, data: dict[str, Any]) -> None:
        unknown: list[str] = []
        try:
            decode(message_type, data, on_unknown=unknown.append)
        except ValidationError:
            raise
        except Exception as error:  # of the project's own __post_init__
            raise ValidationError(
                "payload",
                f"expected the fields of {with_article(target.name)}, got an error: {error!r}",
            ) from error
        if data and not target.fields & data.keys():
            raise ValidationError(
                "payload",
                f"expected fields of {target.name} ({', '.join(sorted(target.fields))}), got none "
                "of them; say where they are with --data-key",
            )
        self.unknown_fields.update((target.name, path) for path in unknown[:20])

    def _named(self, given: str, option: str) -> Target:
        """Return what an option names; that need not be known where nothing is."""
        found = self._find(given, option, option)
        if found is not None:
            return found
        if self._runnables:
            raise ValidationError(
                option,
                f"expected a message or task of queue {self._queue!r} "
                f"({', '.join(self._runnables)}), got {describe(given)}"
                f"{_nearest(given, self._by_alias)}",
            )
        return Target(check_task_name(given, option))

    def _find(self, given: str, path: str, option: str) -> Target | None:
        if given in self._runnables:
            return Target(given, self._runnables[given])
        names = self._by_alias.get(given) or self._by_alias.get(_last(given)) or set()
        if len(names) > 1:
            raise ValidationError(
                path,
                f"expected one of {', '.join(sorted(names))}, got {describe(given)}; say which "
                f"it is with {option}",
            )
        for name in names:
            return Target(name, self._runnables[name])
        return None


def _aliases(name: str, runnable: Runnable) -> Iterable[str]:
    yield from (name, _last(name))
    if isinstance(runnable, Handler):
        kind = runnable.message_type
        yield from (kind.__name__, f"{kind.__module__}.{kind.__qualname__}")


def _last(name: str) -> str:
    """Return the last part of a dotted name."""
    return re.split("[.:]", name)[-1]


def _nearest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _quoted(type_name: str) -> str:
    return type_name if type_name.isprintable() and len(type_name) <= 100 else "TYPE"
