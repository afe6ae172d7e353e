"""Messages as items of ``put_all``: what names its task, its arguments and its options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from typing import Any

from vtrr_django.domain.messages import encode, message_name
from vtrr_django.domain.values import child_path, describe
from vtrr_django.exceptions import ValidationError

OPTIONS = (
    "partition_key",
    "weight",
    "priority",
    "delay",
    "scheduled_at",
    "msg_id",
    "parent_id",
    "id",
)
"""What may be said about a message, besides what it says itself."""


def message_item(
    message: object, options: Mapping[str, Any], path: str | None = None
) -> dict[str, Any]:
    """Return a message as an item.

    Args:
        message: an instance of a dataclass.
        options: of the message.
        path: what errors call it; None: the name of its class, whose faults are told so anyway.

    Raises:
        ValidationError: it is no message.
    """
    if path is not None and not is_dataclass(type(message)):
        raise ValidationError(
            path, f"expected a message, an instance of a dataclass, got {describe(message)}"
        )
    return {"task": message_name(type(message)), "kwargs": encode(message, path), **options}


def message_items(
    messages: Iterable[object], options: Mapping[str, Any], path: str
) -> list[dict[str, Any]]:
    """Return messages as items.

    Args:
        messages: each a message, or a pair of one and its own options.
        options: of all of them.
        path: of the messages, for errors.

    Raises:
        ValidationError: something is no message, or an option has no such name.
    """
    _refuse_unknown(options, "")
    items = []
    for index, given in enumerate(messages):
        own: object = {}
        where = f"{path}[{index}]"
        message = given
        if isinstance(given, tuple) and len(given) == 2:
            message, own = given
        if not isinstance(own, Mapping):
            raise ValidationError(
                where,
                f"expected a message or a pair of a message and a mapping, got {describe(own)}",
            )
        _refuse_unknown(own, where)
        items.append(message_item(message, {**options, **own}, where))
    return items


def _refuse_unknown(options: Mapping[str, Any], path: str) -> None:
    unknown = min((str(name) for name in options if name not in OPTIONS), default=None)
    if unknown is not None:
        raise ValidationError(
            child_path(path, unknown),
            f"expected one of {', '.join(OPTIONS)}, got an unknown option",
        )
