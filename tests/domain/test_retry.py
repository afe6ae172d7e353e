from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtrr_django.domain.retry import BACKOFFS, RetryPolicy
from vtrr_django.domain.values import MAX_DELAY
from vtrr_django.exceptions import ConfigurationError, ValidationError

delays = st.floats(0, MAX_DELAY) | st.integers(0, MAX_DELAY)
policies = st.builds(
    RetryPolicy,
    max_retries=st.none() | st.integers(0, 100),
    backoff=st.sampled_from(BACKOFFS),
    base_delay=delays,
    max_delay=delays,
    jitter=st.booleans(),
)


def test_the_defaults_are_the_documented_ones():
    assert dataclasses.asdict(RetryPolicy()) == {
        "max_retries": 3,
        "backoff": "exponential",
        "base_delay": 5.0,
        "max_delay": 300.0,
        "jitter": True,
    }


def test_a_policy_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        RetryPolicy().max_retries = 5


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        ("exponential", [5, 10, 20, 40, 80, 100, 100]),
        ("linear", [5, 10, 15, 20, 25, 30, 35]),
        ("constant", [5, 5, 5, 5, 5, 5, 5]),
    ],
)
def test_delays_without_jitter(backoff, expected):
    policy = RetryPolicy(backoff=backoff, base_delay=5, max_delay=100, jitter=False)
    assert [policy.delay(attempt) for attempt in range(7)] == expected


@pytest.mark.parametrize("backoff", BACKOFFS)
def test_full_jitter_goes_from_zero_to_the_whole_delay(backoff):
    policy = RetryPolicy(backoff=backoff)
    whole = RetryPolicy(backoff=backoff, jitter=False).delay(2)
    assert [policy.delay(2, random=lambda x=x: x) for x in (0.0, 0.25, 0.5)] == [
        0.0,
        whole / 4,
        whole / 2,
    ]


def test_jitter_draws_anew_each_time():
    assert len({RetryPolicy().delay(3) for _ in range(20)}) > 1


@pytest.mark.parametrize("base", [5e-324, 1e-9, 5.0, 300.0, 1e6])
@pytest.mark.parametrize("backoff", ["exponential", "linear"])
def test_a_very_late_attempt_waits_for_the_cap(backoff, base):
    policy = RetryPolicy(max_retries=None, backoff=backoff, base_delay=base, jitter=False)
    attempt = 5_000 if backoff == "exponential" else 2**31 - 1
    expected = min(300.0, base * 2**31) if backoff == "linear" else 300.0
    assert policy.delay(attempt) == expected


def test_the_cap_holds_for_the_base_delay_too():
    policy = RetryPolicy(backoff="constant", base_delay=600, max_delay=300, jitter=False)
    assert policy.delay(0) == 300


@pytest.mark.parametrize("nothing", [{"base_delay": 0}, {"max_delay": 0}])
@pytest.mark.parametrize("backoff", BACKOFFS)
def test_no_delay_at_all(backoff, nothing):
    assert RetryPolicy(backoff=backoff, **nothing).delay(10) == 0.0


@given(policies, st.integers(0, 10_000), st.floats(0, 1, exclude_max=True))
def test_a_delay_is_finite_and_within_the_cap(policy, attempt, drawn):
    delay = policy.delay(attempt, random=lambda: drawn)
    assert isinstance(delay, float)
    assert 0 <= delay <= policy.max_delay


@given(policies, st.integers(0, 2_000))
def test_without_jitter_later_attempts_wait_no_shorter(policy, attempt):
    policy = dataclasses.replace(policy, jitter=False)
    assert policy.delay(attempt) <= policy.delay(attempt + 1)


@pytest.mark.parametrize("attempt", [-1, True, 1.5, None, 2**31])
def test_an_attempt_is_a_count(attempt):
    with pytest.raises(ValidationError, match=r"attempt: expected a whole number from 0"):
        RetryPolicy().delay(attempt)


def test_allows():
    policy = RetryPolicy(max_retries=2)
    assert [policy.allows(count) for count in range(4)] == [True, True, False, False]
    assert not RetryPolicy(max_retries=0).allows(0)
    assert RetryPolicy(max_retries=None).allows(10**9)


BAD = [
    ("max_retries", -1, "expected a whole number from 0 to 2,147,483,647, got -1 (int)"),
    ("max_retries", True, "expected a whole number from 0 to 2,147,483,647, got True"),
    ("max_retries", 1.0, "expected a whole number from 0 to 2,147,483,647, got 1.0 (float)"),
    ("max_retries", 2**31, "got 2147483648 (int)"),
    ("backoff", "quadratic", "one of 'exponential', 'linear', 'constant', got 'quadratic'"),
    ("backoff", None, "got None"),
    ("backoff", [], "got a list"),
    ("base_delay", math.nan, "expected a finite number from 0 to 315,576,000, got NaN"),
    ("base_delay", math.inf, "got Infinity"),
    ("base_delay", -1, "got -1 (int)"),
    ("base_delay", True, "got True"),
    ("base_delay", "5", "got '5'"),
    ("max_delay", MAX_DELAY + 1, "got 315576001 (int)"),
    ("max_delay", None, "got None"),
    ("jitter", 1, "expected True or False, got 1 (int)"),
    ("jitter", "no", "expected True or False, got 'no'"),
]


@pytest.mark.parametrize(("name", "value", "problem"), BAD)
def test_a_bad_value_is_refused_by_name(name, value, problem):
    with pytest.raises(ValidationError) as caught:
        RetryPolicy(**{name: value})
    assert isinstance(caught.value, ValueError)
    assert caught.value.path == name
    assert problem in caught.value.problem


@pytest.mark.parametrize(("name", "value", "problem"), BAD)
def test_a_bad_setting_is_refused_by_path(name, value, problem):
    with pytest.raises(ConfigurationError) as caught:
        RetryPolicy.from_mapping({name: value}, "VTRR.QUEUES.default.RETRY")
    assert str(caught.value).startswith(f"VTRR.QUEUES.default.RETRY.{name}: ")
    assert problem in str(caught.value)


def test_a_setting_keeps_the_defaults_of_what_it_leaves_out():
    assert RetryPolicy.from_mapping({}, "RETRY") == RetryPolicy()
    assert RetryPolicy.from_mapping(
        {"max_retries": None, "backoff": "linear"}, "RETRY"
    ) == RetryPolicy(max_retries=None, backoff="linear")


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("max_retry", "RETRY: unknown name 'max_retry'; did you mean 'max_retries'?"),
        ("BASE_DELAY", "RETRY: unknown name 'BASE_DELAY'; did you mean 'base_delay'?"),
        (
            "zzz",
            "RETRY: unknown name 'zzz'; valid are max_retries, backoff, base_delay,",
        ),
        (1, "RETRY: unknown name 1 (int); valid are"),
    ],
)
def test_an_unknown_setting_is_refused_with_the_nearest_name(key, message):
    with pytest.raises(ConfigurationError) as caught:
        RetryPolicy.from_mapping({key: 1}, "RETRY")
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("setting", [None, 5, ["max_retries"], "max_retries"])
def test_a_setting_that_is_no_mapping_is_refused(setting):
    with pytest.raises(ConfigurationError, match="RETRY: expected a mapping, got "):
        RetryPolicy.from_mapping(setting, "RETRY")
