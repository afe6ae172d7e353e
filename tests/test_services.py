"""What is missing is skipped, with a reason; in CI it fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests import services
from tests.api.everywhere import on_each_store

MISSING = "no_such_package"


def package() -> None:
    services.need_package(MISSING)


def program() -> None:
    services.need_program("no-such-program")


def server() -> None:
    services.need("redis")


@pytest.fixture(autouse=True)
def _nothing_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "why_missing", lambda alias: f"no {alias}")
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("VTRR_TEST_WITHOUT", raising=False)


@pytest.mark.parametrize("need", [package, program, server])
def test_what_is_missing(need: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(pytest.skip.Exception, match="no "):
        need()
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="CI is set, so this may not be skipped: no "):
        need()


def test_a_package_that_may_be_missing_in_ci_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("VTRR_TEST_WITHOUT", f"another {MISSING}")
    with pytest.raises(pytest.skip.Exception):
        package()


def test_tests_of_all_stores_leave_none_out_in_ci(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [name for name, _ in on_each_store(settings)]
    assert found == ["sqlite", "fakeredis"]
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no postgres"):
        list(on_each_store(settings))


def test_no_test_has_a_way_of_its_own_to_be_skipped(request: pytest.FixtureRequest) -> None:
    """``importorskip`` would leave tests out in CI, and nobody would notice."""
    own = "pytest.import" + "orskip("
    home = request.config.rootpath / "tests"
    assert not [str(path) for path in home.rglob("*.py") if own in path.read_text()]
