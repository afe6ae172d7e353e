"""Histograms: what they keep of durations, and what comes back from a column."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtrr_django.domain.histogram import BOUNDS, Histogram, bucket_of

durations = st.one_of(
    st.floats(min_value=0.0, max_value=BOUNDS[-1]),
    st.sampled_from([0.0, *BOUNDS, BOUNDS[-1] * 2]),
)
many = st.lists(durations, max_size=60)
some = st.lists(durations, min_size=1, max_size=60)
shares = st.floats(min_value=0.0, max_value=1.0)


def of(seconds: list[float]) -> Histogram:
    histogram = Histogram()
    for one in seconds:
        histogram.add(one)
    return histogram


@given(some, shares)
def test_a_quantile_lies_in_the_bucket_of_the_exact_one(seconds: list[float], q: float) -> None:
    exact = sorted(seconds)[max(0, math.ceil(q * len(seconds)) - 1)]
    found = of(seconds).quantile(q)
    assert found is not None
    bucket = bucket_of(exact)
    lower = BOUNDS[bucket - 1] if bucket else 0.0
    assert min(lower, BOUNDS[-1]) <= found <= BOUNDS[min(bucket, len(BOUNDS) - 1)]


@given(some, shares, shares)
def test_quantiles_grow_with_their_share(seconds: list[float], a: float, b: float) -> None:
    histogram = of(seconds)
    low, high = histogram.quantile(min(a, b)), histogram.quantile(max(a, b))
    assert low is not None
    assert high is not None
    assert low <= high


@pytest.mark.parametrize(
    ("seconds", "q", "expected"),
    [
        ([], 0.5, None),
        ([0.005] * 4, 1.0, 0.005),
        ([0.005] * 4, 0.5, 0.0025),
        ([0.02, 0.02], 1.0, 0.02),
        ([0.02, 0.02], 0.5, 0.015),
        ([0.001] * 9 + [5.0], 0.9, 0.005),
        ([1e9], 0.5, BOUNDS[-1]),
        ([-3.0], 1.0, 0.005),
    ],
)
def test_quantile_of(seconds: list[float], q: float, expected: float | None) -> None:
    assert of(seconds).quantile(q) == expected


@given(many)
def test_what_was_dumped_comes_back(seconds: list[float]) -> None:
    histogram = of(seconds)
    loaded = Histogram.load(histogram.dump())
    assert loaded.counts == histogram.counts
    assert loaded.total == round(histogram.total, 6)
    assert Histogram.load(loaded.dump()) == loaded


@given(many, many)
def test_a_merge_holds_what_both_held(a: list[float], b: list[float]) -> None:
    both = of(a + b)
    merged, from_text = of(a), of(a)
    merged.merge(of(b))
    from_text.merge_dump(of(b).dump())
    for one in (merged, from_text):
        assert one.counts == both.counts
        assert one.total == pytest.approx(both.total, abs=1e-6)
        assert one.count == len(a) + len(b)
        assert bool(one) == bool(a + b)


def test_a_large_sum_still_grows_when_little_is_added_each_time() -> None:
    """As that of a queue that has run for years, to which ten seconds of work are added."""
    text = Histogram([10_000_000], 123_456_789.0).dump()
    for _ in range(100):
        histogram = Histogram.load(text)
        histogram.merge(of([0.03]))
        text = histogram.dump()
    assert Histogram.load(text).total == pytest.approx(123_456_792.0, abs=1e-4)


def test_a_text_is_short() -> None:
    assert Histogram().dump() == ""
    assert of([0.1, 0.1, 0.2]).dump() == "0.4 0,0,0,0,0,2,1"


def test_it_cannot_be_hashed_and_equals_only_its_like() -> None:
    with pytest.raises(TypeError):
        hash(Histogram())
    assert Histogram() == Histogram()
    assert of([1.0]) != Histogram()
    assert Histogram() != 0
    assert repr(of([1.5])) == "<Histogram of 1, 1.500 s>"
