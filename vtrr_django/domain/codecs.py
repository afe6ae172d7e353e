"""Codecs: how one value travels as JSON, and back.

There is one for every scalar in ``SCALARS``; ``array_of``, ``tuple_of`` and ``dict_of`` make
those of containers. Which codec an annotation asks for is
:mod:`~vtrr_django.domain.messages`'s to say.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from vtrr_django.domain.values import child_path, describe, describe_kind, with_article
from vtrr_django.exceptions import ValidationError

OnUnknown = Callable[[str], object]
# A parent and a key; made into text only when there is something to say.
Path = str | tuple["Path", str | int]

KINDS: dict[type, str] = {
    type(None): "null",
    bool: "bool",  # before int, which a bool is too
    int: "number",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


@dataclass(frozen=True, slots=True)
class Codec:
    """How values of one annotation travel.

    Attributes:
        expected: the annotation in words.
        kinds: values of ``KINDS`` that its values may arrive as.
        accepts: whether a value is of this annotation, without looking inside.
        encode: returns an accepted value as JSON types.
        decode: returns what ``encode`` was given.
        plain: whether values travel as they are.
        cls: the dataclass, if it is one.
    """

    expected: str
    kinds: frozenset[str]
    accepts: Callable[[Any], bool]
    encode: Callable[[Any, Path], Any]
    decode: Callable[[Any, Path, OnUnknown], Any]
    plain: bool = False
    cls: type | None = None


# -- running them ------------------------------------------------------------------------


def path_text(path: Path) -> str:
    """Return a path as errors tell it."""
    return path if isinstance(path, str) else child_path(path_text(path[0]), path[1])


def encode_value(codec: Codec, value: Any, path: Path) -> Any:
    """Return a value as JSON types.

    Raises:
        ValidationError: it is not what its annotation says.
    """
    if not codec.accepts(value):
        raise ValidationError(path_text(path), f"expected {codec.expected}, got {describe(value)}")
    return codec.encode(value, path)


def decode_value(codec: Codec, value: Any, path: Path, unknown: OnUnknown) -> Any:
    """Return the value that :func:`encode_value` was given.

    Raises:
        ValidationError: it cannot have been one, or its class refuses it.
    """
    if kind_of(value) not in codec.kinds or (codec.plain and not codec.accepts(value)):
        raise _undecodable(codec, value, path)
    try:
        return codec.decode(value, path, unknown)
    except ValidationError:
        raise
    except (ValueError, TypeError, ArithmeticError) as exc:  # Decimal's are arithmetic
        if codec.cls is not None:  # the class itself refuses it, in its author's words
            problem = f"expected {codec.expected}, got one that it refuses: {exc}"
            raise ValidationError(path_text(path), problem) from exc
        # Without what Python says: it quotes the value, and so would its traceback.
        raise _undecodable(codec, value, path) from None


def _undecodable(codec: Codec, value: Any, path: Path) -> ValidationError:
    """Return the refusal of an argument of a job, of which it tells only the kind."""
    problem = f"expected {codec.expected}, got {describe_kind(value)}"
    if kind_of(value) in codec.kinds:
        problem += " that is not one"
    return ValidationError(path_text(path), problem)


def kind_of(value: object) -> str:
    """Return the kind of a JSON value, one of ``KINDS``; "": it is none."""
    exact = KINDS.get(type(value))
    return exact or next((kind for of, kind in KINDS.items() if isinstance(value, of)), "")


# -- scalars ----------------------------------------------------------------------------


def plain(expected: str, kinds: Iterable[str], accepts: Callable[[Any], bool]) -> Codec:
    """Return the codec of values that travel as they are."""
    return Codec(
        expected, frozenset(kinds), accepts, lambda v, _: v, lambda v, _p, _u: v, plain=True
    )


def _converted(
    expected: str,
    kind: str,
    accepts: Callable[[Any], bool],
    to_json: Callable[[Any], Any],
    from_json: Callable[[Any], Any],
) -> Codec:
    return Codec(
        expected,
        frozenset({kind}),
        accepts,
        lambda v, _: to_json(v),
        lambda v, _p, _u: from_json(v),
    )


def instance(cls: type, *, but: tuple[type, ...] = ()) -> Callable[[Any], bool]:
    """Return what accepts the instances of a class, except those of ``but``."""
    return lambda value: isinstance(value, cls) and not isinstance(value, but)


def _seconds(value: timedelta) -> int | float:
    if not value.microseconds:
        return value.days * 86_400 + value.seconds
    return value.total_seconds()


SCALARS: dict[Any, Codec] = {
    Any: plain("anything", KINDS.values(), lambda _: True),
    type(None): plain("None", ["null"], instance(type(None))),
    bool: plain("True or False", ["bool"], instance(bool)),
    # As in the type system, a bool is an int, and an int will do for a float.
    int: plain("an integer", ["number", "bool"], instance(int)),
    float: plain("a number", ["number", "bool"], lambda v: isinstance(v, (int, float))),
    str: plain("a string", ["string"], instance(str)),
    date: _converted(
        "a date", "string", instance(date, but=(datetime,)), date.isoformat, date.fromisoformat
    ),
    time: _converted("a time", "string", instance(time), time.isoformat, time.fromisoformat),
    datetime: _converted(
        "a datetime", "string", instance(datetime), datetime.isoformat, datetime.fromisoformat
    ),
    timedelta: _converted(
        "a timedelta in seconds (with microseconds: up to 98,000 days)",
        "number",
        # Past that, a float of seconds loses microseconds.
        lambda v: isinstance(v, timedelta) and (not v.microseconds or abs(v.days) <= 98_000),
        _seconds,
        lambda v: timedelta(seconds=v),
    ),
    Decimal: _converted("a Decimal", "string", instance(Decimal), str, Decimal),
    UUID: _converted("a UUID", "string", instance(UUID), str, UUID),
}
SCALARS[None] = SCALARS[type(None)]


# -- containers -------------------------------------------------------------------------


def array_of(of: Any, item: Codec) -> Codec:
    """Return how an array travels, as a ``list``, ``tuple`` or set, whose items have that codec."""

    def encode(values: Iterable[Any], path: Path) -> list[Any]:
        encoded = [encode_value(item, value, (path, i)) for i, value in enumerate(values)]
        # The order of a set differs from process to process; the text should not.
        return encoded if issubclass(of, (list, tuple)) else sorted(encoded, key=repr)

    return Codec(
        with_article(of.__name__),
        frozenset({"array"}),
        instance(of),
        encode,
        lambda v, path, unknown: of(
            decode_value(item, value, (path, i), unknown) for i, value in enumerate(v)
        ),
    )


def tuple_of(items: Sequence[Codec]) -> Codec:
    """Return how a tuple travels that has as many items as there are codecs."""

    def decode(values: list[Any], path: Path, unknown: OnUnknown) -> tuple[Any, ...]:
        pairs = enumerate(zip(items, values, strict=True))
        return tuple(decode_value(item, value, (path, i), unknown) for i, (item, value) in pairs)

    return Codec(
        f"a tuple of {len(items)}",
        frozenset({"array"}),
        lambda v: isinstance(v, tuple) and len(v) == len(items),
        lambda v, path: [
            encode_value(item, value, (path, i))
            for i, (item, value) in enumerate(zip(items, v, strict=True))
        ],
        decode,
    )


def dict_of(item: Codec) -> Codec:
    """Return how a dict with string keys travels whose values have that codec."""
    return Codec(
        "a dict with string keys",
        frozenset({"object"}),
        lambda v: isinstance(v, dict) and all(instance(str, but=(enum.Enum,))(key) for key in v),
        lambda v, path: {key: encode_value(item, value, (path, key)) for key, value in v.items()},
        lambda v, path, unknown: {
            key: decode_value(item, value, (path, key), unknown) for key, value in v.items()
        },
    )
