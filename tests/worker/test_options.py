from __future__ import annotations

from typing import Any

import pytest

from tests.worker.fakes import MemorySource
from vtrr_django.exceptions import ConfigurationError, ValidationError
from vtrr_django.worker import JobSource, Runnable, Worker


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("concurrency", 0),
        ("concurrency", 1.5),
        ("concurrency", True),
        ("max_empty", 0),
        ("max_jobs", 0),
        ("poll_interval", 0),
        ("poll_interval", float("nan")),
        ("poll_interval", "soon"),
        ("backoff_interval", -1),
        ("backoff_interval", float("inf")),
        ("replace_grace", True),
    ],
)
def test_a_value_out_of_range_is_named(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"^{name}: expected"):
        Worker([MemorySource()], **{name: value})


@pytest.mark.parametrize("names", [[], ["a", "a"]])
def test_sources_are_named_once(names: list[str]) -> None:
    with pytest.raises(ConfigurationError, match=r"^sources: expected"):
        Worker([MemorySource(name) for name in names])


def test_a_worker_id_is_checked() -> None:
    with pytest.raises(ValidationError, match="worker_id"):
        Worker([MemorySource()], worker_id="w" * 256)


def test_the_doubles_keep_the_protocols() -> None:
    source = MemorySource()
    as_source: JobSource = source
    as_runnable: Runnable = source.task(lambda context: None)
    assert (as_source.name, as_runnable.name) == ("memory", "task")
