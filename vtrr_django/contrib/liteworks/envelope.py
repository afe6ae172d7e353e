"""Payloads: JSON that names its message type somehow, and holds the message's fields."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from vtrr_django.domain.values import describe
from vtrr_django.exceptions import ValidationError

TYPE_KEYS: Final = ("type", "__type__", "message_type", "msg_type", "task")
DATA_KEYS: Final = ("data", "payload", "kwargs", "message", "fields", "body")
INLINE_TYPE_KEY: Final = "__type__"
"""The one that no dataclass has as a field, so that it may stand among them."""

_KEYS_HELP = "say which keys it has with --type-key and --data-key"


class Letter(NamedTuple):
    """What was in an envelope: the name of its message type, if it has one, and the fields."""

    type_name: str | None
    data: dict[str, Any]


def read_object(text: str) -> dict[str, Any]:
    """Return the JSON object that a payload is.

    Raises:
        ValidationError: it is something else.
    """
    try:
        body = json.loads(text)
    except RecursionError:
        raise ValidationError("payload", "expected less nesting, got too much") from None
    except ValueError as error:
        raise ValidationError("payload", f"expected JSON, got an error: {error}") from None
    if not isinstance(body, dict):
        raise ValidationError("payload", f"expected a JSON object, got {describe(body)}")
    return body


@dataclass(frozen=True, slots=True)
class Envelope:
    """How payloads of one file are put.

    Attributes:
        type_key: the key that names the message type; None: one of ``TYPE_KEYS``.
        data_key: the key that holds the fields; None: one of ``DATA_KEYS``, or no key does.
    """

    type_key: str | None = None
    data_key: str | None = None

    def open(self, body: dict[str, Any], own_fields: Collection[str] = ()) -> Letter:
        """Return the type's name and the fields.

        Args:
            body: the payload.
            own_fields: of the message, where it is known which it is: no key of an envelope.

        Raises:
            ValidationError: a key that must be there is not, or holds something else.
        """
        if self.type_key is not None:
            name = body.get(self.type_key)
            if not isinstance(name, str):
                raise _without(body, f"a message type under {self.type_key!r}")
            return Letter(name, self._data_beside(body, self.type_key))
        keys = [key for key in TYPE_KEYS if isinstance(body.get(key), str)]
        keys = [key for key in keys if key not in own_fields]
        if self.data_key is not None:
            return Letter(body[keys[0]] if keys else None, self._data(body))
        if len(keys) == 1 and self._is_envelope(body, keys[0], own_fields):
            return Letter(body[keys[0]], self._data_beside(body, keys[0]))
        return Letter(None, body)

    def _is_envelope(self, body: dict[str, Any], key: str, own_fields: Collection[str]) -> bool:
        return key == INLINE_TYPE_KEY or (_holds_data(body, key) and not own_fields & body.keys())

    def _data_beside(self, body: dict[str, Any], type_key: str) -> dict[str, Any]:
        if self.data_key is not None:
            return self._data(body)
        rest = {key: value for key, value in body.items() if key != type_key}
        return next(iter(rest.values())) if _holds_data(body, type_key) else rest

    def _data(self, body: dict[str, Any]) -> dict[str, Any]:
        data = body.get(self.data_key or "")
        if not isinstance(data, dict):
            raise _without(body, f"an object under {self.data_key!r}")
        return data


def _holds_data(body: dict[str, Any], type_key: str) -> bool:
    """Return whether, besides its type, a payload has one key, and that holds the fields."""
    rest = body.keys() - {type_key}
    return len(body) == 2 and rest <= set(DATA_KEYS) and isinstance(body[rest.pop()], dict)


def _without(body: dict[str, Any], what: str) -> ValidationError:
    return ValidationError("payload", f"expected {what}, got {shown_keys(body)}; {_KEYS_HELP}")


def shown_keys(body: dict[str, Any]) -> str:
    """Return the keys of a payload, for a message."""
    keys = list(body)
    more = f" and {len(keys) - 8} more" if len(keys) > 8 else ""
    shown = ", ".join(describe(key) for key in keys[:8])
    return f"the keys {shown}{more}" if keys else "no keys"
