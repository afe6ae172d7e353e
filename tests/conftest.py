"""What every test shares: servers, Hypothesis profiles, databases for child processes."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from django.apps import apps
from django.db import connections
from django.urls import clear_script_prefix
from hypothesis import settings
from pytest_django import DjangoDbBlocker

try:
    from celery import _state as celery_state
except ImportError:
    celery_state = None

from tests import services
from tests.own_redis import PROGRAM, OwnRedis

# No deadlines: the first example of a database test pays for the connection. "quick" is for
# CI's other Pythons and Djangos, after "ci" has looked for the hard examples.
settings.register_profile("quick", deadline=None, max_examples=20, print_blob=True)
settings.register_profile("dev", deadline=None, max_examples=50)
settings.register_profile("ci", deadline=None, max_examples=200, derandomize=False, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if services.in_ci() else "dev"))


# A shell that starts a run in the background has it ignore Ctrl-C, which the processes that
# tests start, and stop that way, would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return how many processes run the tests of ``make test``: most of them wait for others."""
    return min(8, 2 * (os.cpu_count() or 1))


DATABASES = pytest.StashKey[list[str]]()
"""The databases of this run, once there are any."""

LONG = tuple(
    f"tests/{name}"
    for name in (
        *(
            "api/test_serve",
            "api/test_schemathesis",
            "beat",
            "browser",
            "celery",
            "chaos",
            "client",
        ),
        *("commands/importing", "example", "races", "test_readme"),
    )
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long, so that no process is left with it at the end."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))


def pytest_report_header() -> list[str]:
    missing = [services.why_missing(alias) for alias in services.SERVICES]
    return [
        f"databases: {', '.join(connections)}",
        *(reason for reason in missing if reason),
    ]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("service"):
        services.need(mark.args[0])


@pytest.fixture(scope="session")
def _names_before() -> dict[str, str]:
    """The databases that settings name, before those of this run stand in for them."""
    return {alias: str(connections[alias].settings_dict["NAME"]) for alias in connections}


@pytest.fixture(scope="session")
def django_db_setup(
    request: pytest.FixtureRequest, _names_before: dict[str, str], django_db_setup: None
) -> Iterator[None]:
    """Let the processes that tests start work in the databases of this run."""
    names = {alias: str(connections[alias].settings_dict["NAME"]) for alias in connections}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VTRR_TEST_DATABASES", json.dumps(names))
        # Not one that no test needs, and that is still the one that settings name.
        made = [alias for alias, name in names.items() if name != _names_before[alias]]
        request.config.stash[DATABASES] = made
        yield
        request.config.stash[DATABASES] = []


@pytest.fixture(autouse=True, scope="module")
def _no_rows_left(
    request: pytest.FixtureRequest, django_db_blocker: DjangoDbBlocker
) -> Iterator[None]:
    """Leave no rows: what other processes have written is undone by no test's rollback."""
    yield
    with django_db_blocker.unblock():
        for alias in request.config.stash.get(DATABASES, []):
            for model in apps.get_app_config("vtrr_django").get_models():
                model._default_manager.using(alias).all().delete()


@pytest.fixture(autouse=True)
def _no_script_prefix() -> Iterator[None]:
    """Leave no prefix: a request by WSGI lets all addresses of its thread begin with its own."""
    yield
    clear_script_prefix()


@pytest.fixture(autouse=True)
def _current_celery_app() -> Iterator[None]:
    """Leave the Celery app that was current: a closed one stays it, with all its settings."""
    if celery_state is None:
        yield
        return
    current = celery_state._tls.current_app
    yield
    celery_state._tls.current_app = current


@pytest.fixture
def own_redis() -> Iterator[Callable[..., OwnRedis]]:
    """Return what starts Redis servers, to be stopped and killed; they end with the test."""
    services.need_program(PROGRAM)
    servers: list[OwnRedis] = []

    def start(config: Mapping[str, Any] | None = None, **options: Any) -> OwnRedis:
        servers.append(OwnRedis(config, **options))
        return servers[-1]

    yield start
    for server in servers:
        server.close()
