"""The named values of a request, each within its limits; whatever is not is a 400."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from vtrr_django.domain import values as checks
from vtrr_django.domain.transport import time_from_text
from vtrr_django.exceptions import ValidationError

LONGEST_TEXT: Final = 1_000_000

_SURROGATE = re.compile("[\ud800-\udfff]")
_WHOLE = re.compile(r"-?[0-9]{1,15}")
_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?")


@dataclass(frozen=True, kw_only=True)
class Fields:
    """A JSON object, or a query. ``null`` and what is left out are the same.

    Every getter raises ``ValidationError`` with the path of what is wrong.

    Attributes:
        values: by name.
        where: path of the object; "": the whole body.
        typed: False: all values are text, as in a query, and numbers are read from it.
    """

    values: Mapping[str, Any]
    where: str = ""
    typed: bool = True

    def path(self, name: str) -> str:
        """Return the path of a field, for messages."""
        return checks.child_path(self.where, name)

    def only(self, *names: str) -> None:
        """Refuse fields of other names."""
        for name in self.values:
            if name not in names:
                close = difflib.get_close_matches(name[:100].lower(), names, n=1)
                cure = f"; did you mean {close[0]!r}?" if close else ""
                expected = f"one of {', '.join(names)}" if names else "none"
                raise ValidationError(
                    self.path(name), f"expected {expected}, got an unknown key{cure}"
                )

    def has(self, name: str) -> bool:
        """Return whether a field is there, and not ``null``."""
        return self.values.get(name) is not None

    def text(
        self,
        name: str,
        *,
        required: bool = False,
        default: str = "",
        longest: int = LONGEST_TEXT,
    ) -> str:
        """Return a text of at most ``longest`` characters, valid Unicode.

        Where it is required it is also not empty.
        """
        value = self.values.get(name)
        if value is None and not required:
            return default
        least = 1 if required else 0
        if not isinstance(value, str) or not least <= len(value) <= longest:
            got = f"{len(value):,} characters" if isinstance(value, str) else self._got(name)
            raise ValidationError(
                self.path(name),
                f"expected a string of {least} to {longest:,} characters, got {got}",
            )
        bad = _SURROGATE.search(value)
        if bad:
            raise ValidationError(
                self.path(name),
                f"expected valid Unicode, got {bad[0]!r} at character {bad.start()}",
            )
        return value

    def text_or_none(self, name: str, *, longest: int = LONGEST_TEXT) -> str | None:
        """Return a text, or None if there is none."""
        return self.text(name, longest=longest) if self.has(name) else None

    def choice(self, name: str, options: Sequence[str], *, default: str | None = None) -> str:
        """Return one of several texts; without a default it is required."""
        value = self.values.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or value not in options:
            raise ValidationError(
                self.path(name), f"expected one of {', '.join(options)}, got {self._got(name)}"
            )
        return value

    def whole(self, name: str, least: int, most: int, *, default: int | None = None) -> int:
        """Return a whole number; without a default it is required."""
        if default is not None and not self.has(name):
            return default
        self._demand(name, f"a whole number from {least:,} to {most:,}")
        number = self._number(name)
        if isinstance(number, float) and number.is_integer():
            number = int(number)  # to JSON they are the same
        return checks.check_whole(number, self.path(name), least, most)

    def seconds(
        self,
        name: str,
        least: float = 0,
        most: float = checks.MAX_DELAY,
        *,
        default: float | None = None,
    ) -> float:
        """Return a number of seconds; without a default it is required."""
        if default is not None and not self.has(name):
            return default
        self._demand(name, f"a finite number from {least:,} to {most:,}")
        return checks.check_number(self._number(name), self.path(name), least, most)

    def seconds_or_none(
        self, name: str, least: float = 0, most: float = checks.MAX_DELAY
    ) -> float | None:
        """Return a number of seconds, or None if there is none."""
        return self.seconds(name, least, most) if self.has(name) else None

    def moment(self, name: str) -> datetime | None:
        """Return a moment in UTC, or None if there is none."""
        text = self.text_or_none(name, longest=100)
        if text is None:
            return None
        try:
            moment = time_from_text(text)
        except (ValueError, OverflowError):
            raise ValidationError(
                self.path(name),
                "expected a time with an offset, such as 2026-11-30T12:00:00Z, "
                f"got {checks.describe(text)}",
            ) from None
        return checks.check_due_at(moment, self.path(name))

    def object_or_none(self, name: str) -> Fields | None:
        """Return an object within this one, or None if there is none."""
        value = self.values.get(name)
        return None if value is None else _object(value, self.path(name))

    def objects(self, name: str, least: int, most: int) -> list[Fields]:
        """Return the objects of a list of ``least`` to ``most``; it is required."""
        found = self.items(name, least, most, "objects")
        return [_object(one, f"{self.path(name)}[{index}]") for index, one in enumerate(found)]

    def ids(self, name: str, least: int, most: int) -> list[str]:
        """Return the job ids of a list of ``least`` to ``most``; it is required."""
        found = self.items(name, least, most, "job ids")
        return [
            checks.check_job_id(one, f"{self.path(name)}[{index}]")
            for index, one in enumerate(found)
        ]

    def items(self, name: str, least: int, most: int, what: str) -> list[Any]:
        """Return a list of ``least`` to ``most`` of something; it is required."""
        value = self.values.get(name)
        if not isinstance(value, list) or not least <= len(value) <= most:
            got = f"{len(value):,}" if isinstance(value, list) else self._got(name)
            raise ValidationError(
                self.path(name), f"expected a list of {least:,} to {most:,} {what}, got {got}"
            )
        return value

    def _demand(self, name: str, what: str) -> None:
        if name not in self.values:
            raise ValidationError(self.path(name), f"expected {what}, got nothing")

    def _got(self, name: str) -> str:
        return checks.describe(self.values[name]) if name in self.values else "nothing"

    def _number(self, name: str) -> Any:
        value = self.values[name]
        if self.typed:
            return value
        if _WHOLE.fullmatch(value):
            return int(value)
        return float(value) if _NUMBER.fullmatch(value) else value


def _object(value: object, path: str) -> Fields:
    if not isinstance(value, dict):
        raise ValidationError(path, f"expected an object, got {checks.describe(value)}")
    return Fields(values=value, where=path)
