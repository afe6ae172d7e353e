"""Exceptions cross process borders: results, pools and logs pickle them."""

from __future__ import annotations

import pickle

import pytest

from vtrr_django import exceptions


@pytest.mark.parametrize(
    "error",
    [
        exceptions.ValidationError("args[2]", "expected a string, got 5"),
        exceptions.Snooze(2.5),
        exceptions.Discard("why"),
        exceptions.Retry(3.0, LookupError("gone")),
        exceptions.UnknownQueueError("no such queue"),
        exceptions.SoftTimeLimitExceeded(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_exception_comes_out_of_a_pickle_as_it_went_in(error: Exception) -> None:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert repr(vars(copy)) == repr(vars(error))


def test_every_error_of_ours_is_one_family() -> None:
    assert issubclass(exceptions.ValidationError, (exceptions.VTRRError, ValueError))
    assert issubclass(exceptions.UnknownQueueError, exceptions.ConfigurationError)
    # What a job raises on purpose is no error, and "except VTRRError" must not catch it.
    assert not issubclass(exceptions.Snooze, exceptions.VTRRError)
