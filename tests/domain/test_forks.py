"""What is done at a fork."""

from __future__ import annotations

import os
import threading

import pytest

from vtrr_django.domain.forks import at_fork


def test_what_is_to_be_done_in_a_forked_process_is(monkeypatch: pytest.MonkeyPatch) -> None:
    known: list[object] = []
    monkeypatch.setattr(os, "register_at_fork", lambda **calls: known.append(calls))
    at_fork(before=threading.Lock, after_in_child=dict)
    assert known == [{"before": threading.Lock, "after_in_child": dict}]


def test_nothing_is_done_where_nothing_is_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "register_at_fork")
    at_fork(after_in_child=dict)
