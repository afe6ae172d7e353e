from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import enum
import json
import math
import sys
import uuid
from decimal import Decimal
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtrr_django.domain import payload
from vtrr_django.domain.payload import dump_payload, load_payload
from vtrr_django.domain.values import describe
from vtrr_django.exceptions import ValidationError

MIB = 1024 * 1024
BAD_CHARACTERS = st.characters(categories=["Cs"]) | st.just("\0")

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)


def containers(children, keys=texts):
    return st.lists(children, max_size=4) | st.dictionaries(keys, children, max_size=4)


values = st.recursive(scalars, containers, max_leaves=12)


class Colour(enum.StrEnum):
    RED = "red"


class Size(enum.IntEnum):
    BIG = 3


class Plain(enum.Enum):
    ONE = 1


class Safe(str):  # what Django's SafeString is
    __slots__ = ()


class Count(int):
    pass


class Real(float):
    pass


class Rows(list):
    pass


class LastOnly(dict):
    """Like Django's QueryDict: holds lists, shows the last of each."""

    def items(self):
        return [(key, value[-1]) for key, value in super().items()]


def never_equal(base):
    return type("Unequal", (base,), {"__ne__": lambda self, other: True})


@dataclasses.dataclass
class Note:
    text: str


def typed(value):
    """Return ``value`` in a form in which equal means the same types too (1, 1.0 and True)."""
    if isinstance(value, list):
        return [typed(item) for item in value]
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    return type(value), repr(value)


def dump(args, kwargs=None, **options):
    return dump_payload(args, {} if kwargs is None else kwargs, **{"max_bytes": MIB, **options})


def refusal(args, kwargs=None, **options):
    with pytest.raises(ValidationError) as caught:
        dump(args, kwargs, **options)
    str(caught.value).encode()  # can be logged: no lone surrogate in it
    return caught.value.path, caught.value.problem


def nest(depth, kind=list):
    value = kind()
    for _ in range(depth - 1):
        value = [value] if kind is list else {"a": value}
    return value


def cyclic():
    value = []
    value.append({"again": value})
    return value


# -- what comes back equal ------------------------------------------------------------


@given(st.lists(values, max_size=4), st.dictionaries(texts, values, max_size=4))
def test_a_payload_comes_back_equal(args, kwargs):
    text = dump(args, kwargs)
    assert typed(list(load_payload(text))) == typed([args, kwargs])
    assert load_payload(text.encode()) == (args, kwargs)


@pytest.mark.parametrize(
    "value",
    [
        -0.0,
        2**63,
        130775545883395173,
        10**4300 - 1,
        -(10**4300) + 1,
        1e308,
        5e-324,
        {"a": [], "b": {}},
        "\u2028\u2029",
        "\U0001f600",
        "\x01\x1f\x7f\x9f\\ \" '",
        "\\u0000",
        r"\\u0000",
        {"\\u0000": 1},
        {"": {"odd key": None}},
        True,
        1,
        1.0,
    ],
    ids=describe,  # str() of the longest integers is refused by Python
)
def test_hard_values_come_back_equal(value):
    args, kwargs = load_payload(dump([value], {"value": value}))
    assert typed(args) == typed([value])
    assert typed(kwargs) == typed({"value": value})


def test_the_text_is_compact_json():
    assert dump(["é", 1], {"b": None}) == '{"args":["é",1],"kwargs":{"b":null}}'


def test_args_may_be_a_tuple():
    point = collections.namedtuple("point", "x y")
    assert load_payload(dump((1, "a"))) == ([1, "a"], {})
    assert load_payload(dump(point(1, [2]))) == ([1, [2]], {})


@pytest.mark.parametrize(
    "value",
    [
        Safe("<b>"),
        Count(7),
        Real(1.5),
        Rows([1, Rows()]),
        collections.OrderedDict(a=[1]),
        collections.defaultdict(list, a=[1]),
        collections.Counter("aab"),
        {Safe("key"): 1},
    ],
)
def test_a_subclass_that_equals_its_plain_value_is_accepted(value):
    args, _ = load_payload(dump([value]))
    assert args == [value]


def test_kwargs_may_be_a_subclass_of_dict():
    assert load_payload(dump([], collections.OrderedDict(a=1))) == ([], {"a": 1})


@pytest.mark.parametrize("args", [[], ("key",), [nest(30), "é", None], ["x" * 10_000, 1.5]])
def test_an_ordinary_payload_is_not_looked_at_twice(monkeypatch, args):
    # The second look is ten times slower, and 10,000 jobs may come in one call.
    monkeypatch.setattr(payload, "_inspect", None)
    assert dump(args, {"a": {"b": [True]}})


# -- what is refused, and where ---------------------------------------------------------

FINITE = "expected a finite number, got "
AS_STRING = "or use a handler with a dataclass"

REFUSED = [
    (math.nan, "", FINITE + "NaN"),
    (math.inf, "", FINITE + "Infinity"),
    (-math.inf, "", FINITE + "-Infinity"),
    (Real("nan"), "", FINITE + "NaN"),
    ({"rows": [math.nan]}, ".rows[0]", FINITE + "NaN"),
    ([{"a": 1}, {"odd key": [0, math.nan]}], '[1]["odd key"][1]', FINITE + "NaN"),
    ({"x" * 40: math.nan}, "." + "x" * 40, FINITE + "NaN"),
    ({"x" * 50: math.nan}, '["' + "x" * 40 + '..."]', FINITE + "NaN"),
    ({"a": {1: 2}}, ".a", "expected keys to be strings, got 1 (int)"),
    ({None: 2}, "", "expected keys to be strings, got None"),
    ({("a", "b"): 2}, "", "expected keys to be strings, got a tuple"),
    ({Colour.RED: 2}, "", "expected keys to be strings, got Colour.RED"),
    ("ab\0", "", "expected text without NUL, got one at character 2"),
    ({"a\0": 1}, r'["a\u0000"]', "expected text without NUL, got one at character 1"),
    (
        "é\ud800",
        "",
        r"expected valid Unicode, got the lone surrogate '\ud800' at character 1",
    ),
    ({"\udfff": 1}, r'["\udfff"]', "lone surrogate"),
    (Safe("\0"), "", "NUL"),
    ([(1, 2)], "[0]", "got a tuple; JSON would bring it back as a list: pass a list"),
    ({1, 2}, "", "got a set; pass a list"),
    (frozenset(), "", "got a frozenset; pass a list"),
    (b"x", "", "got a bytes; pass base64 text, or store it and pass its key"),
    (Colour.RED, "", "got Colour.RED; pass its .value"),
    (Size.BIG, "", "got Size.BIG; pass its .value"),
    (Plain.ONE, "", "got Plain.ONE; pass its .value"),
    (dt.datetime(2024, 1, 1, tzinfo=dt.UTC), "", "got a datetime; pass it as a string"),
    (dt.date(2024, 1, 1), "", AS_STRING),
    (dt.time(12), "", AS_STRING),
    (dt.timedelta(1), "", "got a timedelta; pass its .total_seconds(), " + AS_STRING),
    (Decimal(1), "", "got a Decimal; pass it as a string, " + AS_STRING),
    (uuid.UUID(int=1), "", "got a UUID; pass it as a string, " + AS_STRING),
    (Note("x"), "", "got a Note; publish it to a handler of its type"),
    (SimpleNamespace(_meta=1, pk=2), "", "pass its primary key and fetch it in the job"),
    (SimpleNamespace(_meta=1), "", "got a SimpleNamespace; pass a str, int"),
    (SimpleNamespace(pk=1), "", "got a SimpleNamespace; pass a str, int"),
    (object(), "", "got an object; pass a str, int, float, bool, None, list or dict"),
    (1j, "", "got a complex; pass a str"),
    (10**4300, "", "expected an integer of at most 4,300 digits, got an int of 14,285 bits"),
    (-(10**4300), "", "pass it as a string"),
    (LastOnly(a=[1, 2]), "", "a dict that comes back equal from JSON, got a LastOnly; copy it"),
    (never_equal(str)("a"), "", "that comes back equal from JSON, got 'a'; pass a plain str"),
    (never_equal(int)(1), "", "that comes back equal from JSON, got 1 (int); pass a plain int"),
    (never_equal(float)(1), "", "got 1.0 (float); pass a plain float"),
    (never_equal(list)(), "", "a list that comes back equal from JSON, got a Unequal; copy it"),
    (cyclic(), "[0].again" * 15, "expected at most 30 levels of nesting, got more"),
]


@pytest.mark.parametrize(("value", "path", "problem"), REFUSED, ids=describe)
def test_a_culprit_is_named(value, path, problem):
    for args, kwargs, root in (
        ([1, "a", value], {}, "args[2]"),
        ((value,), {}, "args[0]"),
        ([Safe("slow path")], {"good": [1], "bad": value}, "kwargs.bad"),
        ([], {"odd key": value}, 'kwargs["odd key"]'),
    ):
        found, said = refusal(args, kwargs)
        assert found == root + path
        assert problem in said
        assert refusal(args, kwargs, path="tasks[3]") == (f"tasks[3].{found}", said)


def test_the_first_culprit_in_reading_order_is_named():
    assert refusal([[1, math.nan], math.inf], {"a": math.nan})[0] == "args[0][1]"


@pytest.mark.parametrize("args", ["abc", None, {"a": 1}, {1}, iter([1]), 5])
def test_args_are_a_list_or_a_tuple(args):
    path, problem = refusal(args)
    assert path == "args"
    assert problem.startswith("expected a list or a tuple, got ")


@pytest.mark.parametrize("kwargs", [[], None, "abc"])
def test_kwargs_are_a_dict(kwargs):
    with pytest.raises(ValidationError, match=r"^tasks\[0\]\.kwargs: expected a dict, got "):
        dump_payload([], kwargs, max_bytes=MIB, path="tasks[0]")


def test_kwargs_have_string_keys():
    assert refusal([], {1: 2}) == ("kwargs", "expected keys to be strings, got 1 (int)")


@pytest.mark.parametrize("kind", [list, dict])
def test_thirty_levels_are_accepted_and_one_more_is_not(kind):
    good = nest(30, kind)
    assert load_payload(dump([good], {"a": good})) == ([good], {"a": good})
    path, problem = refusal([nest(31, kind)])
    assert path == "args[0]" + ("[0]" if kind is list else ".a") * 30
    assert problem == "expected at most 30 levels of nesting, got more"
    assert refusal([], {"a": nest(31, kind)})[0].startswith("kwargs.a")


def test_depth_is_the_same_where_the_slow_path_decides():
    assert dump([Safe(), nest(30)])
    assert refusal([Safe(), nest(31)])[1] == "expected at most 30 levels of nesting, got more"


@pytest.mark.parametrize("kind", [list, dict])
def test_extreme_nesting_is_refused(kind):
    assert "levels of nesting" in refusal([nest(100_000, kind)])[1]


def test_a_structure_that_unfolds_beyond_bounds_is_refused_at_once():
    value = [1, 2]
    for _ in range(28):
        value = [value, value]
    path, problem = refusal([value])
    assert path == "payload"
    assert problem.startswith("expected at most 1,048,576 bytes of JSON (MAX_PAYLOAD_BYTES)")


@pytest.mark.parametrize("item", [[], {}, 1, True, [[]] * 1000, "x" * 10])
def test_what_is_wide_is_refused_without_a_look_at_each(monkeypatch, item):
    monkeypatch.setattr(payload, "_inspect", None)
    value = [item] * 1_000_000
    monkeypatch.setattr(payload, "_encode", None)
    assert refusal([value])[1].startswith("expected at most 1,048,576 bytes of JSON")


@pytest.mark.parametrize("word", ["x", "é", "\U0001f600", Safe("y"), '"'])
def test_the_limit_counts_bytes_of_utf8(word):
    args = [word * 100]
    size = len(dump(args).encode())
    assert dump(args, max_bytes=size)
    path, problem = refusal(args, max_bytes=size - 1)
    assert path == "payload"
    assert problem == (
        f"expected at most {size - 1} bytes of JSON (MAX_PAYLOAD_BYTES), got {size}; "
        "store the data elsewhere and pass its key"
    )
    assert refusal(args, max_bytes=1, path="tasks[7]")[0] == "tasks[7]"


@pytest.fixture
def digits():
    before = sys.get_int_max_str_digits()
    yield sys.set_int_max_str_digits
    sys.set_int_max_str_digits(before)


@pytest.mark.parametrize("limit", [0, 10_000])
def test_the_digits_of_an_integer_are_limited_in_every_process(digits, limit):
    digits(limit)
    good, bad = 10**4299, 10**4300
    assert json.loads(dump([good]))["args"] == [good]
    assert "at most 4,300 digits" in refusal([bad])[1]
    assert "at most 4,300 digits" in refusal([Safe(), bad])[1]


def test_a_process_with_a_lower_limit_of_digits_refuses_earlier(digits):
    digits(700)
    assert dump([10**699])
    assert "at most 700 digits" in refusal([10**700])[1]


def is_good(value, depth=0):
    """Say what the rule says, as simply as can be: the oracle of the test below."""
    if isinstance(value, enum.Enum):
        return False
    if isinstance(value, str):
        return not any(c == "\0" or 0xD800 <= ord(c) <= 0xDFFF for c in value)
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, list):
        return depth <= 30 and all(is_good(item, depth + 1) for item in value)
    if isinstance(value, dict):
        return depth <= 30 and all(
            isinstance(key, str) and is_good(key) and is_good(item, depth + 1)
            for key, item in value.items()
        )
    return value is None or isinstance(value, int)


dirt = (
    st.sampled_from([math.nan, math.inf, Colour.RED, Size.BIG, (), (1,), b"", {1}, 1j])
    | st.sampled_from([Safe("s"), Safe("\0"), Count(1), Real(2), Rows([1]), Rows([math.nan])])
    | st.text(BAD_CHARACTERS | st.characters(), max_size=3)
    | st.integers(28, 33).map(nest)
)
keys = texts | st.sampled_from([1, None, Safe("k"), Colour.RED, "\0", "\udead", "\\u0000"])
dirty = st.recursive(scalars | dirt, lambda below: containers(below, keys), max_leaves=8)


@given(st.lists(dirty, max_size=3), st.dictionaries(texts, dirty, max_size=2))
def test_exactly_what_the_rule_says_is_accepted(args, kwargs):
    if is_good(args) and is_good(kwargs):
        assert load_payload(dump(args, kwargs)) == (args, kwargs)
    else:
        path, _ = refusal(args, kwargs)
        assert path.startswith(("args", "kwargs"))


# -- reading ---------------------------------------------------------------------------


def test_keys_beside_args_and_kwargs_are_ignored():
    assert load_payload('{"task_name": "t", "args": [1], "kwargs": {"a": 2}}') == ([1], {"a": 2})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "[]",
        "null",
        "{}",
        '{"args": []}',
        '{"args": {}, "kwargs": {}}',
        '{"args": [], "kwargs": []}',
        b"\xff\xfe\xfd",
        "[" * 100_000,
        '{"args": [' + "1" * 5000 + '], "kwargs": {}}',
    ],
)
def test_what_is_no_payload_is_refused(text):
    with pytest.raises(ValidationError, match=r"^payload: expected ") as caught:
        load_payload(text)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "text", ['"swordfish"', '["swordfish"]', '{"args": "swordfish"}', "swordfish"]
)
def test_a_spoilt_payload_is_refused_without_a_bit_of_it(text):
    with pytest.raises(ValidationError) as caught:
        load_payload(text)
    assert "swordfish" not in str(caught.value)
