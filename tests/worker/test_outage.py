"""How long one activity pauses that fails."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.clock import Clock
from vtrr_django.exceptions import StoreUnavailable
from vtrr_django.worker import logs

DOWN = StoreUnavailable("down")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(logs, "time", clock)
    # Else a pause may be of any length between the half of it and the whole.
    monkeypatch.setattr(logs, "random", SimpleNamespace(uniform=lambda least, most: most))
    return clock


def test_pauses_grow(clock: Clock) -> None:
    outage, pauses = logs.Outage("it", {}), []
    for _ in range(8):
        pauses.append(outage.failed(DOWN))
        clock.now += pauses[-1]
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30]
    outage.recovered()
    assert outage.failed(DOWN) == 0.5


def test_threads_that_fail_at_once_make_no_longer_pause(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    outage = logs.Outage("it", {})
    assert {outage.failed(DOWN) for _ in range(8)} == {0.5}
    assert caplog.text.count("it does not work") == 1
    clock.now += 0.5
    assert [outage.failed(DOWN) for _ in range(3)] == [1, 1, 1]
    caplog.set_level("INFO")
    outage.recovered()
    outage.recovered()
    assert caplog.text.count("it works again after 0.5 s and 11 failures") == 1
