"""``store`` as in the contract, a queue in it, and whoever asks about that over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.api.asking import Api
from tests.api.signing import SECRET, SignedClient
from tests.contract.conftest import pytest_collection_modifyitems, store
from tests.contract.stores import Store
from vtrr_django import get_queue
from vtrr_django.api import auth
from vtrr_django.queue import Queue

__all__ = ["pytest_collection_modifyitems", "store"]

MakeQueue = Callable[..., Queue]


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Whether this machine gets in without a secret: it does, as where ``vtrr_serve`` serves it."""
    event = threading.Event()
    event.set()
    monkeypatch.setattr(auth, "_this_machine", event)
    monkeypatch.setattr(auth, "_refused_this_machine", threading.Event())
    return event


@pytest.fixture
def make_queue(store: Store, settings: Any) -> MakeQueue:
    """Declare a queue in the store, and return it; the API of the project serves it."""
    settings.ROOT_URLCONF = "vtrr_django.api.urls"
    settings.MIDDLEWARE = []  # a store's tests do without the apps of sessions and users

    def make(**config: Any) -> Queue:
        name = store.new_name()
        settings.VTRR = {"QUEUES": {name: store.settings(**config)}}
        return get_queue(name)

    return make


@pytest.fixture
def queue(make_queue: MakeQueue) -> Queue:
    return make_queue(LEASE_SECONDS=30)


@pytest.fixture
def api(queue: Queue) -> Iterator[Api]:
    """Somebody on this machine, where no secret is set."""
    return Api(queue.name)


# -- endpoints that tell what they got (tests/api/urls.py) ---------------------------


@pytest.fixture
def echoes(settings: Any) -> Any:
    """Settings of a project that serves ``tests.api.urls``, to whoever has the secret."""
    settings.ROOT_URLCONF = "tests.api.urls"
    settings.ALLOWED_HOSTS = ["*"]
    settings.MIDDLEWARE = [
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
    ]
    settings.VTRR = {"SECRET": SECRET, "QUEUES": {"default": {}, "mails": {}}}
    return settings


@pytest.fixture
def signed(echoes: Any) -> SignedClient:
    """Somebody who has the secret."""
    return SignedClient()
