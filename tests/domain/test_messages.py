from __future__ import annotations

import datetime as dt
import enum
import json
import sys
import traceback
import typing
from dataclasses import InitVar, dataclass, field, make_dataclass
from decimal import Decimal
from typing import Any, ClassVar, Literal, NewType, Optional, Union
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtrr_django.domain.messages import (
    check_message,
    decode,
    encode,
    message_name,
    refuse_unknown,
)
from vtrr_django.domain.payload import dump_payload, load_payload
from vtrr_django.exceptions import ValidationError

Address = NewType("Address", str)


class Colour(enum.Enum):
    RED = "red"
    NONE = None
    MANY = 7


class Size(enum.IntEnum):
    SMALL = 1
    BIG = 2


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Moment(enum.Enum):
    START = dt.date(2024, 1, 1)


@dataclass
class SendEmail:
    to: str
    subject: str = "Hi"


@dataclass(frozen=True)
class Card:
    number: str


@dataclass(frozen=True)
class Transfer:
    iban: str
    reference: str | None = None


@dataclass
class Everything:
    text: str
    count: int
    ratio: float
    flag: bool
    nothing: None
    anything: Any
    moment: dt.datetime
    day: dt.date
    clock: dt.time
    length: dt.timedelta
    price: Decimal
    ident: UUID
    colour: Colour
    size: Size
    access: Access
    mode: Literal["fast", "slow", 3, True, None]
    address: Address
    annotated: typing.Annotated[int, "units"]
    card: Card
    perhaps: Card | None
    optional: Optional[int]  # noqa: UP045 - both spellings are supported
    mixed: Union[int, str, list[int], None]  # noqa: UP007
    paid: Card | Transfer | None
    later: dt.datetime | int | dict[str, dt.date]
    rows: list[list[Card]]
    days: dict[str, list[dt.date]]
    pair: tuple[int, dt.date]
    many: tuple[dt.date, ...]
    tags: set[str]
    cards: frozenset[Card]
    bare_list: list
    bare_dict: dict
    bare_tuple: tuple


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)
floats = st.floats(allow_nan=False, allow_infinity=False)
# Whole seconds: datetime.fromisoformat() drops an offset of less.
offsets = st.integers(-86_399, 86_399).map(lambda s: dt.timezone(dt.timedelta(seconds=s)))
moments = st.datetimes(timezones=st.none() | offsets)
durations = st.timedeltas(dt.timedelta(days=-98_000), dt.timedelta(days=98_000))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | floats | texts,
    lambda below: st.lists(below, max_size=2) | st.dictionaries(texts, below, max_size=2),
    max_leaves=4,
)
cards = st.builds(Card, number=texts)
transfers = st.builds(Transfer, iban=texts, reference=st.none() | texts)
everything = st.builds(
    Everything,
    text=texts,
    count=st.integers(),
    ratio=floats | st.integers(),
    flag=st.booleans(),
    nothing=st.none(),
    anything=json_values,
    moment=moments,
    day=st.dates(),
    clock=st.times(timezones=st.none() | offsets),
    length=durations | st.sampled_from([dt.timedelta.min, dt.timedelta(days=10**9 - 1)]),
    price=st.decimals(allow_nan=False),
    ident=st.uuids(),
    colour=st.sampled_from(Colour),
    size=st.sampled_from(Size),
    access=st.sampled_from([Access(0), Access.READ, Access.READ | Access.WRITE]),
    mode=st.sampled_from(["fast", "slow", 3, True, None]),
    address=texts,
    annotated=st.integers(),
    card=cards,
    perhaps=st.none() | cards,
    optional=st.none() | st.integers(),
    mixed=st.none() | st.integers() | texts | st.lists(st.integers(), max_size=2),
    paid=st.none() | cards | transfers,
    later=moments | st.integers() | st.dictionaries(texts, st.dates(), max_size=2),
    rows=st.lists(st.lists(cards, max_size=2), max_size=2),
    days=st.dictionaries(texts, st.lists(st.dates(), max_size=2), max_size=2),
    pair=st.tuples(st.integers(), st.dates()),
    many=st.lists(st.dates(), max_size=2).map(tuple),
    tags=st.sets(texts, max_size=3),
    cards=st.frozensets(cards, max_size=3),
    bare_list=st.lists(json_values, max_size=2),
    bare_dict=st.dictionaries(texts, json_values, max_size=2),
    bare_tuple=st.lists(json_values, max_size=2).map(tuple),
)


def travel(message, cls=None):
    """Return what a worker gets to see of ``message``."""
    args, _ = load_payload(dump_payload([encode(message)], {}, max_bytes=10**6))
    return decode(cls or type(message), args[0])


def refusal(call, *args, **options):
    with pytest.raises(ValidationError) as caught:
        call(*args, **options)
    return str(caught.value)


def message(name, annotation, **options):
    """Return a message class with one field, ``value``."""
    return make_dataclass(name, [("value", annotation)], **options)


# -- what comes back --------------------------------------------------------------------


@given(everything)
def test_a_message_comes_back_equal(sent):
    got = travel(sent)
    assert got == sent
    # 1, 1.0 and True are equal, but not the same.
    assert json.dumps(encode(got)) == json.dumps(encode(sent))


def test_the_json_is_what_the_documentation_says():
    cls = make_dataclass(
        "M",
        [
            ("at", dt.datetime),
            ("length", dt.timedelta),
            ("short", dt.timedelta),
            ("price", Decimal),
            ("size", Size),
            ("tags", set[str]),
            ("card", Card),
            ("paid", Card | Transfer),
        ],
    )
    sent = cls(
        dt.datetime(2024, 7, 1, tzinfo=dt.UTC),
        dt.timedelta(days=1),
        dt.timedelta(milliseconds=250),
        Decimal("1.50"),
        Size.BIG,
        {"b", "a", "c"},
        Card("1"),
        Transfer("2"),
    )
    assert json.dumps(encode(sent)) == json.dumps(
        {
            "at": "2024-07-01T00:00:00+00:00",
            "length": 86400,
            "short": 0.25,
            "price": "1.50",
            "size": 2,
            "tags": ["a", "b", "c"],
            "card": {"number": "1"},
            "paid": {"$message": "Transfer", "iban": "2", "reference": None},
        }
    )


def test_values_may_be_of_a_subclass():
    class Safe(str):
        __slots__ = ()

    sent = SendEmail(Safe("a@b.c"))
    assert travel(sent) == sent
    assert decode(SendEmail, {"to": Safe("a@b.c")}) == sent


def test_annotations_may_be_strings_or_not():
    assert Everything.__annotations__["moment"] == "dt.datetime"
    cls = message("Live", dt.date | None)
    assert travel(cls(dt.date(2024, 1, 1))) == cls(dt.date(2024, 1, 1))


@dataclass
class Tree:
    name: str
    children: list[Tree] = field(default_factory=list)
    parent: Tree | None = None


def test_a_class_may_hold_itself():
    tree = Tree("root", [Tree("leaf"), Tree("branch", [Tree("leaf")])], Tree("seed"))
    check_message(Tree)
    assert travel(tree) == tree


def test_an_instance_may_not_hold_itself():
    tree = Tree("root")
    tree.children.append(tree)
    assert "expected a message that does not hold itself" in refusal(encode, tree)
    data = {}
    data |= {"name": "x", "children": [data]}
    assert "expected less nesting" in refusal(decode, Tree, data)


@pytest.mark.parametrize("options", [{"slots": True}, {"frozen": True}, {"kw_only": True}])
def test_every_kind_of_dataclass_travels(options):
    cls = message("Kind", list[int], **options)
    assert travel(cls(value=[1])) == cls(value=[1])


# -- names ------------------------------------------------------------------------------


def test_a_message_is_named_after_its_class_wherever_that_is_defined():
    assert message_name(SendEmail) == "SendEmail"
    elsewhere = dataclass(type("SendEmail", (), {"__module__": "elsewhere"}))
    assert message_name(elsewhere) == "SendEmail"
    assert check_message(SendEmail) == "SendEmail"


@dataclass
class Renamed:
    message_name: ClassVar[str] = "mail.send"


@dataclass
class Heir(Renamed):
    pass


@dataclass
class Field:
    message_name: str = "not the name, a value"


def test_a_class_attribute_overrides_the_name_of_that_class_alone():
    assert message_name(Renamed) == "mail.send"
    assert message_name(Heir) == "Heir"
    assert message_name(Field) == "Field"


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 256, 5, None])
def test_a_name_follows_the_rules_of_task_names(name):
    cls = make_dataclass("Bad", [], namespace={"message_name": name})
    assert refusal(message_name, cls).startswith("Bad.message_name: expected ")


# -- fields that are not plain arguments ------------------------------------------------


@dataclass
class Odd:
    shared: ClassVar[list[object]] = []
    price: int
    extra: InitVar[int] = 0
    total: int = field(init=False)
    cache: dict[str, object] = field(init=False, compare=False, default_factory=dict)

    def __post_init__(self, extra):
        self.total = self.price + extra


def test_what_post_init_made_comes_back_as_it_was():
    sent = Odd(5, extra=2)
    sent.cache["file"] = object()
    assert encode(sent) == {"price": 5, "total": 7}
    got = travel(sent)
    assert (got, got.total, got.cache) == (sent, 7, {})


def test_a_computed_field_that_was_not_sent_is_computed():
    assert decode(Odd, {"price": 5}).total == 5


@dataclass
class Unset:
    value: int = field(init=False)


def test_a_field_that_was_never_set_does_not_travel():
    assert encode(Unset()) == {}
    assert not hasattr(travel(Unset()), "value")


@dataclass(frozen=True, slots=True)
class FrozenTotal:
    total: int = field(init=False, default=0)


def test_a_computed_field_of_a_frozen_class_is_restored():
    sent = FrozenTotal()
    object.__setattr__(sent, "total", 5)
    assert travel(sent).total == 5


@dataclass
class Lost:
    kept: int
    secret: InitVar[str]


def test_an_init_var_without_a_default_is_refused():
    assert refusal(check_message, Lost).startswith("Lost.secret: expected a default")


class Variadic:
    def __init__(self, *args, **kwargs):
        self.__dict__.update(kwargs)


def test_a_class_may_have_its_own_init():
    cls = make_dataclass("Own", [("value", int)], bases=(Variadic,), init=False)
    assert travel(cls(value=5)) == cls(value=5)


@dataclass
class Even:
    value: int

    def __post_init__(self):
        if self.value % 2:
            raise ValueError("odd")


def test_what_the_class_itself_refuses_is_refused():
    assert refusal(decode, Even, {"value": 3}) == (
        "Even: expected an Even, got one that it refuses: odd"
    )


# -- versions ---------------------------------------------------------------------------


def test_an_unknown_key_is_ignored_and_reported():
    data = {"to": "a@b.c", "added": 1, "odd key": 2}
    assert decode(SendEmail, data) == SendEmail("a@b.c")
    seen = []
    decode(SendEmail, data, on_unknown=seen.append)
    assert sorted(seen) == ["SendEmail.added", 'SendEmail["odd key"]']
    nested = make_dataclass("Outer", [("rows", list[Card]), ("paid", Card | Transfer)])
    decode(
        nested,
        {"rows": [{"number": "1", "x": 0}], "paid": {"$message": "Card", "number": "", "y": 0}},
        on_unknown=seen.append,
    )
    assert seen[2:] == ["Outer.rows[0].x", "Outer.paid.y"]


def test_an_unknown_key_can_be_refused():
    data = {"to": "a@b.c", "subjekt": "Hi"}
    assert refusal(decode, SendEmail, data, on_unknown=refuse_unknown) == (
        "SendEmail.subjekt: expected a field of the message, got an unknown key"
    )


def test_a_missing_key_takes_the_default_or_is_refused():
    cls = make_dataclass("New", [("a", int), ("b", list, field(default_factory=lambda: [1]))])
    assert decode(cls, {"a": 1}).b == [1]
    assert refusal(decode, cls, {"b": []}) == (
        "New.a: expected an integer, got nothing; New has no default for it"
    )


def test_a_union_that_grew_reads_what_was_sent_before():
    before, after = message("Pay", Card), message("Pay", Card | Transfer)
    assert decode(after, encode(before(Card("1")))).value == Card("1")
    assert decode(before, encode(after(Card("1")))).value == Card("1")


# -- values that are not what the annotation says ---------------------------------------


@dataclass(frozen=True)
class Gold(Card):
    limit: int = 0


WRONG = [
    (str, 5, "a string, got 5 (int)"),
    (int, "5", "an integer, got '5'"),
    (int, 1.0, "an integer, got 1.0 (float)"),
    (bool, 1, "True or False, got 1 (int)"),
    (float, "1", "a number, got '1'"),
    (None, 0, "None, got 0 (int)"),
    (Literal["a", 1], True, "one of 'a', 1, got True"),
    (Literal["a", 1], "b", "one of 'a', 1, got 'b'"),
    (Card | None, 5, "a Card or None, got 5 (int)"),
    (Card | Transfer, "x", "a Card or a Transfer, got 'x'"),
    (list[int], "x", "a list, got 'x'"),
    (dict[str, int], [], "a dict with string keys, got a list"),
]
WRONG_TO_ENCODE = [
    (dt.date, dt.datetime(2024, 1, 1), "a date, got a datetime"),  # noqa: DTZ001
    (dt.datetime, dt.date(2024, 1, 1), "a datetime, got a date"),
    (dt.timedelta, dt.timedelta(days=98_001, microseconds=1), "up to 98,000 days"),
    (Decimal, 1.5, "a Decimal, got 1.5 (float)"),
    (Colour, "red", "a Colour, got 'red'"),
    (Card, Gold("1"), "a Card, got a Gold"),
    (Card | Transfer, Gold("1"), "a Card or a Transfer, got a Gold"),
    (list[int], (1,), "a list, got a tuple"),
    (tuple[int, ...], [1], "a tuple, got a list"),
    (tuple[int, int], (1,), "a tuple of 2, got a tuple"),
    (set[int], frozenset(), "a set, got a frozenset"),
    (dict[str, int], {1: 1}, "a dict with string keys, got a dict"),
    (dict[str, int], {Size.BIG: 1}, "a dict with string keys, got a dict"),
]
WRONG_TO_DECODE = [
    (dt.date, "yesterday", "a date, got a string that is not one"),
    (dt.datetime, 5, "a datetime, got a whole number"),
    (dt.timedelta, 1e300, "got a number that is not one"),
    (dt.timedelta, float("nan"), "got a number that is not one"),
    (Decimal, "x", "a Decimal, got a string that is not one"),
    (UUID, "x", "a UUID, got a string that is not one"),
    (Colour, "blue", "a Colour, got a string that is not one"),
    (tuple[int, int], [1], "a tuple of 2, got a list that is not one"),
    (set[Any], [[]], "a set, got a list that is not one"),
    (Card, "x", "a Card, got a string"),
    (str, {}, "a string, got an object"),
    (str, None, "a string, got null"),
]
IDS = {"ids": lambda value: str(value)[:40]}


@pytest.mark.parametrize(("annotation", "value", "problem"), WRONG + WRONG_TO_ENCODE, **IDS)
def test_a_wrong_value_is_refused_before_it_is_stored(annotation, value, problem):
    cls = message("Wrong", annotation)
    found = refusal(encode, cls(value))
    assert found.startswith("Wrong.value: expected ")
    assert problem in found


@pytest.mark.parametrize(("annotation", "value", "problem"), WRONG_TO_DECODE, **IDS)
def test_a_wrong_value_is_refused_when_it_is_read(annotation, value, problem):
    found = refusal(decode, message("Wrong", annotation), {"value": value})
    assert found.startswith("Wrong.value: expected ")
    assert problem in found


@pytest.mark.parametrize(("annotation", "value", "problem"), WRONG, **IDS)
def test_what_cannot_be_stored_cannot_be_read(annotation, value, problem):
    found = refusal(decode, message("Wrong", annotation), {"value": value})
    assert f"Wrong.value: expected {problem.partition(', got ')[0]}, got " in found


@pytest.mark.parametrize("annotation", [int, dt.date, dt.timedelta, Decimal, UUID, Colour, Card])
@pytest.mark.parametrize("value", ["swordfish", ["swordfish"], {"swordfish": 1}])
def test_a_refused_argument_of_a_job_is_told_to_nobody(annotation, value):
    """Neither in the message nor in the traceback: both end in logs and in the history."""
    with pytest.raises(ValidationError) as caught:
        decode(message("Wrong", annotation), {"value": value})
    assert "swordfish" not in "".join(traceback.format_exception(caught.value))


def test_the_path_leads_to_the_culprit():
    cls = message("Deep", dict[str, list[tuple[int, Card]]])
    sent = cls({"ok": [], "odd key": [(1, Card("1")), (2, Card(3))]})
    expected = 'Deep.value["odd key"][1][1].number: expected a string, got 3 (int)'
    assert refusal(encode, sent) == expected
    data = {"value": {"odd key": [[1, {"number": "1"}], [2, {"number": 3}]]}}
    assert refusal(decode, cls, data) == expected.replace("3 (int)", "a whole number")


@pytest.mark.parametrize("name", ["Other", None, 5, [], {}])
def test_an_unknown_class_in_a_union_is_refused(name):
    found = refusal(decode, message("Pay", Card | Transfer), {"value": {"$message": name}})
    assert found.startswith('Pay.value["$message"]: expected one of Card, Transfer, got ')


@pytest.mark.parametrize("data", [None, [], "x", 5])
def test_a_message_is_an_object(data):
    assert refusal(decode, SendEmail, data).startswith("SendEmail: expected a SendEmail, got ")


@pytest.mark.parametrize("thing", [5, "x", SendEmail, {"to": "x"}])
def test_only_instances_of_dataclasses_are_messages(thing):
    assert "expected a dataclass" in refusal(encode, thing)


def test_only_dataclasses_are_messages():
    assert refusal(check_message, int) == "int: expected a dataclass"
    assert refusal(decode, int, {}) == "int: expected a dataclass"


# -- annotations that cannot travel -----------------------------------------------------


@dataclass
class Nested:
    inner: list[Nested2]


@dataclass
class Nested2:
    data: bytes


@dataclass
class Missing:
    value: Nowhere  # noqa: F821


@pytest.mark.parametrize(
    ("annotation", "problem"),
    [
        (bytes, "got bytes"),
        (object, "got object"),
        (complex, "got complex"),
        (list[bytes], "got bytes"),
        (typing.Sequence[int], "got typing.Sequence[int]"),
        (typing.TypeVar("T"), "got ~T"),
        (dict[int, str], "expected dict[str, ...], got dict[int, str]"),
        (Literal[Colour.RED], "annotate with the Enum, or str"),
        (Literal[b"x"], "annotate with the Enum, or str"),
        (Moment, "expected Moment to have values JSON can carry"),
        (str | dt.date, "differ in JSON; a string and a date are both of kind string"),
        (dt.date | dt.datetime, "of kind string"),
        (Size | int, "of kind number"),
        (list[int] | set[int], "a list and a set are both of kind array"),
        (Card | dict, "a Card and a dict with string keys are both of kind object"),
        (Card | make_dataclass("Card", []), "expected classes of different names, got Card, Card"),
    ],
    **IDS,
)
def test_an_annotation_that_cannot_travel_is_refused_at_once(annotation, problem):
    found = refusal(check_message, message("Bad", annotation))
    assert found.startswith("Bad.value: expected ")
    assert problem in found


def test_annotations_of_nested_classes_are_checked_too():
    assert refusal(check_message, Nested).startswith("Nested2.data: expected ")


def test_an_annotation_that_cannot_be_looked_up_is_refused():
    found = refusal(check_message, Missing)
    assert found.startswith("Missing: expected annotations that can be looked up in its module")
    assert "Nowhere" in found


ALIASES = """
from dataclasses import dataclass
from vtrr_django.domain.messages import check_message, decode, encode
from vtrr_django.exceptions import ValidationError

type Payment = Card | Transfer
type Json = int | list[Json]

@dataclass
class Pay:
    by: Payment | None

@dataclass
class Endless:
    value: Json

for sent in (Pay(Card("1")), Pay(Transfer("2")), Pay(None)):
    assert decode(Pay, encode(sent)) == sent
try:
    check_message(Endless)
except ValidationError as exc:
    assert "expected no type alias that mentions itself" in str(exc)
else:
    raise SystemExit("accepted")
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the type statement is new in Python 3.12")
def test_a_type_alias_stands_for_its_value():
    code = compile(ALIASES, "aliases", "exec", dont_inherit=True)
    exec(code, {"__name__": __name__, "Card": Card, "Transfer": Transfer})  # noqa: S102
