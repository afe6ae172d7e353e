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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, NoReturn, TypeVar, Union

from vtrr_django.domain.codecs import (
    KINDS,
    SCALARS,
    Codec,
    OnUnknown,
    Path,
    array_of,
    decode_value,
    dict_of,
    encode_value,
    kind_of,
    path_text,
    plain,
    tuple_of,
)
from vtrr_django.domain.values import check_task_name, child_path, with_article
from vtrr_django.exceptions import ValidationError

T = TypeVar("T")

TAG: Final = "$message"
"""The key that names the class where a union has several dataclasses."""

_NOT_A_TYPE = (
    "expected an annotation made of str, int, float, bool, None, Any, Literal, date, time, "
    "datetime, timedelta, Decimal, UUID, Enums, dataclasses, list, tuple, set, frozenset, "
    "dict[str, ...] and unions of these"
)


@dataclass(frozen=True, slots=True)
class _Shape:
    """One message class: its name, its fields that travel, the classes these mention."""

    name: str
    fields: list[tuple[dataclasses.Field[Any], Codec]]
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
        message: T = decode_value(_dataclass_codec(cls), data, shape.name, on_unknown)
    except RecursionError:
        raise ValidationError(shape.name, "expected less nesting, got too much") from None
    return message


# -- fields -----------------------------------------------------------------------------


def _encode_fields(shape: _Shape, message: object, path: Path) -> dict[str, Any]:
    # A field with init=False need not have been set at all.
    present = (pair for pair in shape.fields if pair[0].init or hasattr(message, pair[0].name))
    return {
        field.name: encode_value(codec, getattr(message, field.name), (path, field.name))
        for field, codec in present
    }


def _decode_fields(cls: type, data: dict[str, Any], path: Path, unknown: OnUnknown) -> Any:
    shape = _shape(cls)
    given: dict[str, Any] = {}
    later: dict[str, Any] = {}
    for field, codec in shape.fields:
        if field.name in data:
            value = decode_value(codec, data[field.name], (path, field.name), unknown)
            (given if field.init else later)[field.name] = value
        elif field.init and field.default is field.default_factory is dataclasses.MISSING:
            problem = f"expected {codec.expected}, got nothing; {shape.name} has no default for it"
            raise ValidationError(path_text((path, field.name)), problem)
    for key in data.keys() - given.keys() - later.keys():
        unknown(path_text((path, key)))
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


def _codec(hint: Any, place: _Place) -> Codec:
    hint = _unwrap(hint)
    known = SCALARS.get(hint)
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


def _enum_codec(cls: type[enum.Enum], place: _Place) -> Codec:
    kinds = {kind_of(member.value) for member in cls}
    if not kinds <= {"null", "bool", "number", "string"}:
        raise place.refusal(
            f"expected {cls.__name__} to have values JSON can carry (str, int, ...)"
        )
    return Codec(
        with_article(cls.__name__),
        frozenset(kinds),
        lambda v: isinstance(v, cls),
        lambda v, _: v.value,
        lambda v, _p, _u: cls(v),
    )


def _literal_codec(hint: Any, place: _Place) -> Codec:
    values = typing.get_args(hint)
    for value in values:
        if isinstance(value, (enum.Enum, bytes)):
            raise place.refusal(f"{_NOT_A_TYPE}, got {_show(hint)}; annotate with the Enum, or str")
    return plain(
        f"one of {', '.join(map(repr, values))}",
        {kind_of(value) for value in values},
        # Equal is not enough: True == 1.
        lambda v: any(v == value and kind_of(v) == kind_of(value) for value in values),
    )


def _dataclass_codec(cls: type) -> Codec:
    # The shape is looked up late, for a class may hold itself. No subclass is accepted:
    # its own fields would be lost.
    return Codec(
        with_article(cls.__name__),
        frozenset({"object"}),
        lambda v: type(v) is cls,
        lambda v, path: _encode_fields(_shape(cls), v, path),
        lambda v, path, unknown: _decode_fields(cls, v, path, unknown),
        cls=cls,
    )


def _array_codec(hint: Any, place: _Place) -> Codec:
    args = typing.get_args(hint)
    return array_of(typing.get_origin(hint) or hint, _codec(args[0] if args else Any, place))


def _tuple_codec(hint: Any, place: _Place) -> Codec:
    args = typing.get_args(hint)
    if not args or args[1:] == (...,):
        return array_of(tuple, _codec(args[0] if args else Any, place))
    return tuple_of([_codec(arg, place) for arg in args])


def _dict_codec(hint: Any, place: _Place) -> Codec:
    key, item_hint = typing.get_args(hint) or (str, Any)
    if key not in (str, Any):
        raise place.refusal(f"expected dict[str, ...], got {_show(hint)}: JSON has no other keys")
    return dict_of(_codec(item_hint, place))


def _union_codec(hint: Any, place: _Place) -> Codec:
    members = [_codec(arg, place) for arg in _members(hint)]
    classes = [member for member in members if member.cls is not None]
    if len(classes) > 1:
        members = [member for member in members if member.cls is None]
        members.append(_tagged_codec(classes, place))
    by_kind = {kind: [m for m in members if kind in m.kinds] for kind in KINDS.values()}
    for kind, same in by_kind.items():
        if len(same) > 1 and not all(member.plain for member in same):
            both = " and ".join(member.expected for member in same)
            raise place.refusal(
                f"expected a union whose members differ in JSON; {both} are both of kind {kind}"
            )

    def decode(value: Any, path: Path, unknown: OnUnknown) -> Any:
        same = by_kind[kind_of(value)]
        member = next((m for m in same if m.accepts(value)), same[0])
        return decode_value(member, value, path, unknown)

    return Codec(
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


def _tagged_codec(classes: list[Codec], place: _Place) -> Codec:
    by_class: dict[Any, str] = {c.cls: message_name(c.cls) for c in classes if c.cls}
    by_name = {by_class[codec.cls]: codec for codec in classes}
    if len(by_name) < len(by_class):
        raise place.refusal(
            f"expected classes of different names, got {', '.join(by_class.values())}"
        )

    def decode(value: dict[str, Any], path: Path, unknown: OnUnknown) -> Any:
        name = value.get(TAG, next(iter(by_name)))
        if not isinstance(name, str) or name not in by_name:
            problem = f"expected one of {', '.join(by_name)}, got another name"
            raise ValidationError(path_text((path, TAG)), problem)
        rest = {key: item for key, item in value.items() if key != TAG}
        return by_name[name].decode(rest, path, unknown)

    return Codec(
        " or ".join(codec.expected for codec in classes),
        frozenset({"object"}),
        lambda v: type(v) in by_class,
        lambda v, path: {TAG: by_class[type(v)], **_encode_fields(_shape(type(v)), v, path)},
        decode,
    )


_BUILDERS: dict[Any, Callable[[Any, _Place], Codec]] = {
    Union: _union_codec,
    types.UnionType: _union_codec,
    Literal: _literal_codec,
    list: _array_codec,
    set: _array_codec,
    frozenset: _array_codec,
    tuple: _tuple_codec,
    dict: _dict_codec,
}
