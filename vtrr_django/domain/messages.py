"""Messages: dataclasses that are published, stored as JSON and handled elsewhere.

The annotations of a class say how its values travel:

=================================================  ======================================
annotation                                         JSON
=================================================  ======================================
``str int float bool None``, ``Literal``, ``Any``  as they are
``date time datetime``                             ISO 8601 text; a zone becomes its offset
``timedelta``                                      seconds
``Decimal UUID``                                   text
an ``Enum``                                        its member's value
a dataclass                                        an object
``list tuple set frozenset`` (of a type)           an array
``dict[str, T]``                                   an object
``T | None``, ``A | B``                            as its member; see below
=================================================  ======================================

The members of a union must be told apart in JSON: ``str | int`` can be, ``str |
datetime`` cannot and is refused. Dataclasses can: where a union has several, each is
sent with its name under the key ``$message``; one without it (sent when the union had
one class only) is the first.

**What comes back is equal.** A value that its annotation does not describe is refused
before it is stored. ``decode`` calls the class, so ``__post_init__`` runs again: it must
bear that. Fields with ``init=False`` are set to what was sent afterwards; those with
``compare=False`` too are not part of the value and do not travel, nor does a
``ClassVar``. An ``InitVar`` is gone once the instance exists and must have a default.

**Two versions of a class at once**, as in a rolling deploy, or with jobs that waited
through one: a key that the class does not know is ignored, so that old workers go on
working, and a key that is missing takes the field's default, so give new fields one.
A change that old workers must not miss (``dry_run``) is another message, under another
name: they put back what they do not know.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, Literal, NoReturn, TypeVar, Union
from uuid import UUID

from vtrr_django.domain.values import (
    check_task_name,
    child_path,
    describe,
    describe_kind,
    with_article,
)
from vtrr_django.exceptions import ValidationError

T = TypeVar("T")

TAG: Final = "$message"
"""The key that names the class where a union has several dataclasses."""

OnUnknown = Callable[[str], object]
# A parent and a key; made into text only when there is something to say.
_Path = str | tuple["_Path", str | int]

_KINDS: dict[type, str] = {
    type(None): "null",
    bool: "bool",  # before int, which a bool is too
    int: "number",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}
_NOT_A_TYPE = (
    "expected an annotation made of str, int, float, bool, None, Any, Literal, date, time, "
    "datetime, timedelta, Decimal, UUID, Enums, dataclasses, list, tuple, set, frozenset, "
    "dict[str, ...] and unions of these"
)


@dataclass(frozen=True, slots=True)
class _Codec:
    """How values of one annotation travel.

    Attributes:
        expected: the annotation in words.
        kinds: values of ``_KINDS`` that its values may arrive as.
        accepts: whether a value is of this annotation, without looking inside.
        encode: returns an accepted value as JSON types.
        decode: returns what ``encode`` was given.
        plain: whether values travel as they are.
        cls: the dataclass, if it is one.
    """

    expected: str
    kinds: frozenset[str]
    accepts: Callable[[Any], bool]
    encode: Callable[[Any, _Path], Any]
    decode: Callable[[Any, _Path, OnUnknown], Any]
    plain: bool = False
    cls: type | None = None


@dataclass(frozen=True, slots=True)
class _Shape:
    """One message class: its name, its fields that travel, the classes these mention."""

    name: str
    fields: list[tuple[dataclasses.Field[Any], _Codec]]
    nested: list[type]


@dataclass(frozen=True, slots=True)
class _Place:
    """The field whose annotation is read, for messages; collects the classes it mentions."""

    path: str
    nested: list[type]

    def refusal(self, problem: str) -> ValidationError:
        return ValidationError(self.path, problem)


# -- what the rest of the app calls -----------------------------------------------------


def message_name(cls: type) -> str:
    """Return the name a message class is published under, at most 255 characters.

    It is the class's ``__name__``, so that processes which define or import the class
    elsewhere agree, or the string attribute ``message_name`` of the class itself. A base
    class's is not inherited: two classes would have one name.
    """
    own = cls.__dict__.get("message_name", cls.__name__)
    if dataclasses.is_dataclass(cls) and any(f.name == "message_name" for f in fields(cls)):
        own = cls.__name__
    return check_task_name(own, f"{cls.__name__}.message_name")


def check_message(cls: type) -> str:
    """Return the name of ``cls`` after reading all its annotations, nested classes' too.

    Raises:
        ValidationError: when ``cls`` is no dataclass, or a field has an annotation that
            cannot travel; the path is ``Class.field``.
    """
    seen = {cls}
    waiting = [cls]
    while waiting:
        nested = set(_shape(waiting.pop()).nested) - seen
        seen |= nested
        waiting.extend(nested)
    return message_name(cls)


def encode(message: object, path: str | None = None) -> dict[str, Any]:
    """Return a message as JSON types, which ``payload.dump_payload`` accepts.

    Args:
        message: an instance of a dataclass.
        path: what errors call it, such as ``messages[3]``; None: the name of its class.

    Raises:
        ValidationError: when a value is not what its annotation says, or
            :func:`check_message` refuses the class.
    """
    shape = _shape(type(message))
    path = shape.name if path is None else path
    try:
        return _encode_fields(shape, message, path)
    except RecursionError:
        raise ValidationError(path, "expected a message that does not hold itself") from None


def ignore_unknown(path: str) -> None:
    """Do nothing: what :func:`decode` does about an unknown key unless told otherwise."""


def refuse_unknown(path: str) -> NoReturn:
    """Raise ValidationError: for checking a message that somebody hands in by HTTP."""
    raise ValidationError(path, "expected a field of the message, got an unknown key")


def decode(cls: type[T], data: Any, *, on_unknown: OnUnknown = ignore_unknown) -> T:
    """Return the message that :func:`encode` was given.

    Args:
        cls: the message's class.
        data: what ``encode`` returned, perhaps in a process with another version of it.
        on_unknown: called with the path of every key that the class does not know.

    Raises:
        ValidationError: when ``data`` is not such a message, or the class refuses it.
    """
    shape = _shape(cls)
    try:
        message: T = _decode(_dataclass_codec(cls), data, shape.name, on_unknown)
    except RecursionError:
        raise ValidationError(shape.name, "expected less nesting, got too much") from None
    return message


# -- running codecs ---------------------------------------------------------------------


def _text(path: _Path) -> str:
    return path if isinstance(path, str) else child_path(_text(path[0]), path[1])


def _encode(codec: _Codec, value: Any, path: _Path) -> Any:
    if not codec.accepts(value):
        raise ValidationError(_text(path), f"expected {codec.expected}, got {describe(value)}")
    return codec.encode(value, path)


def _decode(codec: _Codec, value: Any, path: _Path, unknown: OnUnknown) -> Any:
    if _kind(value) not in codec.kinds or (codec.plain and not codec.accepts(value)):
        raise _undecodable(codec, value, path)
    try:
        return codec.decode(value, path, unknown)
    except ValidationError:
        raise
    except (ValueError, TypeError, ArithmeticError) as exc:  # Decimal's are arithmetic
        if codec.cls is not None:  # the class itself refuses it, in its author's words
            problem = f"expected {codec.expected}, got one that it refuses: {exc}"
            raise ValidationError(_text(path), problem) from exc
        # Without what Python says: it quotes the value, and so would its traceback.
        raise _undecodable(codec, value, path) from None


def _undecodable(codec: _Codec, value: Any, path: _Path) -> ValidationError:
    """Return the refusal of an argument of a job, of which it tells only the kind."""
    problem = f"expected {codec.expected}, got {describe_kind(value)}"
    if _kind(value) in codec.kinds:
        problem += " that is not one"
    return ValidationError(_text(path), problem)


def _kind(value: object) -> str:
    exact = _KINDS.get(type(value))
    return exact or next((kind for of, kind in _KINDS.items() if isinstance(value, of)), "")


def _encode_fields(shape: _Shape, message: object, path: _Path) -> dict[str, Any]:
    # A field with init=False need not have been set at all.
    present = (pair for pair in shape.fields if pair[0].init or hasattr(message, pair[0].name))
    return {
        field.name: _encode(codec, getattr(message, field.name), (path, field.name))
        for field, codec in present
    }


def _decode_fields(cls: type, data: dict[str, Any], path: _Path, unknown: OnUnknown) -> Any:
    shape = _shape(cls)
    given: dict[str, Any] = {}
    later: dict[str, Any] = {}
    for field, codec in shape.fields:
        if field.name in data:
            value = _decode(codec, data[field.name], (path, field.name), unknown)
            (given if field.init else later)[field.name] = value
        elif field.init and field.default is field.default_factory is dataclasses.MISSING:
            problem = f"expected {codec.expected}, got nothing; {shape.name} has no default for it"
            raise ValidationError(_text((path, field.name)), problem)
    for key in data.keys() - given.keys() - later.keys():
        unknown(_text((path, key)))
    message = cls(**given)
    for name, value in later.items():
        object.__setattr__(message, name, value)  # the class may be frozen
    return message


# -- reading annotations ----------------------------------------------------------------


_SHAPES: dict[type, _Shape] = {}


def _shape(cls: type) -> _Shape:
    shape = _SHAPES.get(cls)
    if shape is None:
        shape = _SHAPES[cls] = _read_shape(cls)
    return shape


def _read_shape(cls: type) -> _Shape:
    if not dataclasses.is_dataclass(cls):
        raise ValidationError(cls.__name__, "expected a dataclass")
    try:
        hints = typing.get_type_hints(cls)
    except (NameError, AttributeError, TypeError, SyntaxError) as exc:
        problem = f"expected annotations that can be looked up in its module, got: {exc}"
        raise ValidationError(cls.__name__, problem) from exc
    _check_signature(cls)
    nested: list[type] = []
    try:
        codecs = [
            (field, _codec(hints[field.name], _Place(f"{cls.__name__}.{field.name}", nested)))
            for field in fields(cls)
            if field.init or field.compare
        ]
    except RecursionError:
        problem = "expected no type alias that mentions itself; use Any"
        raise ValidationError(cls.__name__, problem) from None
    return _Shape(message_name(cls), codecs, nested)


def _check_signature(cls: Any) -> None:
    names = {field.name for field in fields(cls)}
    for name, parameter in inspect.signature(cls).parameters.items():
        optional = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if name not in names and not optional and parameter.default is parameter.empty:
            raise ValidationError(
                child_path(cls.__name__, name),
                "expected a default, for no field keeps what this argument (an InitVar?) was",
            )


def _codec(hint: Any, place: _Place) -> _Codec:
    hint = _unwrap(hint)
    known = _SCALARS.get(hint)
    if known is not None:
        return known
    build = _BUILDERS.get(typing.get_origin(hint) or hint)
    if build is not None:
        return build(hint, place)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _enum_codec(hint, place)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        place.nested.append(hint)
        return _dataclass_codec(hint)
    raise place.refusal(f"{_NOT_A_TYPE}, got {_show(hint)}")


_TypeAlias: Any = getattr(typing, "TypeAliasType", ())


def _unwrap(hint: Any) -> Any:
    """Return what a NewType or a ``type X = ...`` (Python 3.12) stands for."""
    while True:
        if isinstance(hint, typing.NewType):
            hint = hint.__supertype__
        elif isinstance(hint, _TypeAlias):
            hint = hint.__value__
        else:
            return hint


def _show(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint)


def _plain(expected: str, kinds: Iterable[str], accepts: Callable[[Any], bool]) -> _Codec:
    return _Codec(
        expected, frozenset(kinds), accepts, lambda v, _: v, lambda v, _p, _u: v, plain=True
    )


def _converted(
    expected: str,
    kind: str,
    accepts: Callable[[Any], bool],
    to_json: Callable[[Any], Any],
    from_json: Callable[[Any], Any],
) -> _Codec:
    return _Codec(
        expected,
        frozenset({kind}),
        accepts,
        lambda v, _: to_json(v),
        lambda v, _p, _u: from_json(v),
    )


def _instance(cls: type, *, but: tuple[type, ...] = ()) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, cls) and not isinstance(value, but)


def _seconds(value: timedelta) -> int | float:
    if not value.microseconds:
        return value.days * 86_400 + value.seconds
    return value.total_seconds()


_SCALARS: dict[Any, _Codec] = {
    Any: _plain("anything", _KINDS.values(), lambda _: True),
    type(None): _plain("None", ["null"], _instance(type(None))),
    bool: _plain("True or False", ["bool"], _instance(bool)),
    # As in the type system, a bool is an int, and an int will do for a float.
    int: _plain("an integer", ["number", "bool"], _instance(int)),
    float: _plain("a number", ["number", "bool"], lambda v: isinstance(v, (int, float))),
    str: _plain("a string", ["string"], _instance(str)),
    date: _converted(
        "a date", "string", _instance(date, but=(datetime,)), date.isoformat, date.fromisoformat
    ),
    time: _converted("a time", "string", _instance(time), time.isoformat, time.fromisoformat),
    datetime: _converted(
        "a datetime", "string", _instance(datetime), datetime.isoformat, datetime.fromisoformat
    ),
    timedelta: _converted(
        "a timedelta in seconds (with microseconds: up to 98,000 days)",
        "number",
        # Past that, a float of seconds loses microseconds.
        lambda v: isinstance(v, timedelta) and (not v.microseconds or abs(v.days) <= 98_000),
        _seconds,
        lambda v: timedelta(seconds=v),
    ),
    Decimal: _converted("a Decimal", "string", _instance(Decimal), str, Decimal),
    UUID: _converted("a UUID", "string", _instance(UUID), str, UUID),
}
_SCALARS[None] = _SCALARS[type(None)]


def _enum_codec(cls: type[enum.Enum], place: _Place) -> _Codec:
    kinds = {_kind(member.value) for member in cls}
    if not kinds <= {"null", "bool", "number", "string"}:
        raise place.refusal(
            f"expected {cls.__name__} to have values JSON can carry (str, int, ...)"
        )
    return _Codec(
        with_article(cls.__name__),
        frozenset(kinds),
        lambda v: isinstance(v, cls),
        lambda v, _: v.value,
        lambda v, _p, _u: cls(v),
    )


def _literal_codec(hint: Any, place: _Place) -> _Codec:
    values = typing.get_args(hint)
    for value in values:
        if isinstance(value, (enum.Enum, bytes)):
            raise place.refusal(f"{_NOT_A_TYPE}, got {_show(hint)}; annotate with the Enum, or str")
    return _plain(
        f"one of {', '.join(map(repr, values))}",
        {_kind(value) for value in values},
        # Equal is not enough: True == 1.
        lambda v: any(v == value and _kind(v) == _kind(value) for value in values),
    )


def _dataclass_codec(cls: type) -> _Codec:
    # The shape is looked up late, for a class may hold itself. No subclass is accepted:
    # its own fields would be lost.
    return _Codec(
        with_article(cls.__name__),
        frozenset({"object"}),
        lambda v: type(v) is cls,
        lambda v, path: _encode_fields(_shape(cls), v, path),
        lambda v, path, unknown: _decode_fields(cls, v, path, unknown),
        cls=cls,
    )


def _array_codec(hint: Any, place: _Place) -> _Codec:
    args = typing.get_args(hint)
    return _array_of(typing.get_origin(hint) or hint, _codec(args[0] if args else Any, place))


def _array_of(of: Any, item: _Codec) -> _Codec:
    def encode(values: Iterable[Any], path: _Path) -> list[Any]:
        encoded = [_encode(item, value, (path, i)) for i, value in enumerate(values)]
        # The order of a set differs from process to process; the text should not.
        return encoded if issubclass(of, (list, tuple)) else sorted(encoded, key=repr)

    return _Codec(
        with_article(of.__name__),
        frozenset({"array"}),
        _instance(of),
        encode,
        lambda v, path, unknown: of(
            _decode(item, value, (path, i), unknown) for i, value in enumerate(v)
        ),
    )


def _tuple_codec(hint: Any, place: _Place) -> _Codec:
    args = typing.get_args(hint)
    if not args or args[1:] == (...,):
        return _array_of(tuple, _codec(args[0] if args else Any, place))
    items = [_codec(arg, place) for arg in args]

    def decode(values: list[Any], path: _Path, unknown: OnUnknown) -> tuple[Any, ...]:
        pairs = enumerate(zip(items, values, strict=True))
        return tuple(_decode(item, value, (path, i), unknown) for i, (item, value) in pairs)

    return _Codec(
        f"a tuple of {len(items)}",
        frozenset({"array"}),
        lambda v: isinstance(v, tuple) and len(v) == len(items),
        lambda v, path: [
            _encode(item, value, (path, i))
            for i, (item, value) in enumerate(zip(items, v, strict=True))
        ],
        decode,
    )


def _dict_codec(hint: Any, place: _Place) -> _Codec:
    key, item_hint = typing.get_args(hint) or (str, Any)
    if key not in (str, Any):
        raise place.refusal(f"expected dict[str, ...], got {_show(hint)}: JSON has no other keys")
    item = _codec(item_hint, place)
    return _Codec(
        "a dict with string keys",
        frozenset({"object"}),
        lambda v: isinstance(v, dict) and all(_instance(str, but=(enum.Enum,))(key) for key in v),
        lambda v, path: {key: _encode(item, value, (path, key)) for key, value in v.items()},
        lambda v, path, unknown: {
            key: _decode(item, value, (path, key), unknown) for key, value in v.items()
        },
    )


def _union_codec(hint: Any, place: _Place) -> _Codec:
    members = [_codec(arg, place) for arg in _members(hint)]
    classes = [member for member in members if member.cls is not None]
    if len(classes) > 1:
        members = [member for member in members if member.cls is None]
        members.append(_tagged_codec(classes, place))
    by_kind = {kind: [m for m in members if kind in m.kinds] for kind in _KINDS.values()}
    for kind, same in by_kind.items():
        if len(same) > 1 and not all(member.plain for member in same):
            both = " and ".join(member.expected for member in same)
            raise place.refusal(
                f"expected a union whose members differ in JSON; {both} are both of kind {kind}"
            )

    def decode(value: Any, path: _Path, unknown: OnUnknown) -> Any:
        same = by_kind[_kind(value)]
        member = next((m for m in same if m.accepts(value)), same[0])
        return _decode(member, value, path, unknown)

    return _Codec(
        " or ".join(member.expected for member in members),
        frozenset().union(*(member.kinds for member in members)),
        lambda v: any(member.accepts(v) for member in members),
        lambda v, path: next(m for m in members if m.accepts(v)).encode(v, path),
        decode,
        plain=all(member.plain for member in members),
    )


def _members(hint: Any) -> Iterator[Any]:
    hint = _unwrap(hint)
    if typing.get_origin(hint) in (Union, types.UnionType):
        for arg in typing.get_args(hint):
            yield from _members(arg)
    else:
        yield hint


def _tagged_codec(classes: list[_Codec], place: _Place) -> _Codec:
    by_class: dict[Any, str] = {c.cls: message_name(c.cls) for c in classes if c.cls}
    by_name = {by_class[codec.cls]: codec for codec in classes}
    if len(by_name) < len(by_class):
        raise place.refusal(
            f"expected classes of different names, got {', '.join(by_class.values())}"
        )

    def decode(value: dict[str, Any], path: _Path, unknown: OnUnknown) -> Any:
        name = value.get(TAG, next(iter(by_name)))
        if not isinstance(name, str) or name not in by_name:
            problem = f"expected one of {', '.join(by_name)}, got another name"
            raise ValidationError(_text((path, TAG)), problem)
        rest = {key: item for key, item in value.items() if key != TAG}
        return by_name[name].decode(rest, path, unknown)

    return _Codec(
        " or ".join(codec.expected for codec in classes),
        frozenset({"object"}),
        lambda v: type(v) in by_class,
        lambda v, path: {TAG: by_class[type(v)], **_encode_fields(_shape(type(v)), v, path)},
        decode,
    )


_BUILDERS: dict[Any, Callable[[Any, _Place], _Codec]] = {
    Union: _union_codec,
    types.UnionType: _union_codec,
    Literal: _literal_codec,
    list: _array_codec,
    set: _array_codec,
    frozenset: _array_codec,
    tuple: _tuple_codec,
    dict: _dict_codec,
}
