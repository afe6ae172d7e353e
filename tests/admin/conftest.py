"""Queues in each store, and people with and without permissions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from tests.contract.stores import STORES
from vtrr_django import Queue, get_queue


def declare(settings: Any, store: str, **more: Any) -> Queue:
    """Declare one queue, which nobody has used, in a store; return it."""
    made = STORES[store]()
    name = made.new_name()
    settings.VTRR = {"QUEUES": {name: made.settings(LEASE_SECONDS=30, **more)}}
    return get_queue(name)


@pytest.fixture(autouse=True)
def _urls(settings: Any) -> None:
    settings.ROOT_URLCONF = "tests.admin.urls"


@pytest.fixture(
    params=[
        pytest.param("sqlite", marks=pytest.mark.django_db),
        # In a test's own transaction nothing would leave the outbox.
        pytest.param("fakeredis", marks=pytest.mark.django_db(transaction=True)),
    ]
)
def queue(request: pytest.FixtureRequest, settings: Any, db: None) -> Queue:
    """A queue in each store."""
    return declare(settings, request.param)


@pytest.fixture
def staff(db: None) -> Callable[..., Client]:
    """Return a browser of a member of staff who has these permissions of this app."""

    def signed_in(*permissions: str, **user: Any) -> Client:
        person = User.objects.create_user(f"p{User.objects.count()}", **{"is_staff": True} | user)
        chosen = Permission.objects.filter(
            content_type__app_label="vtrr_django", codename__in=permissions
        )
        assert len(chosen) == len(permissions)
        person.user_permissions.set(chosen)
        client = Client()
        client.force_login(person)
        return client

    return signed_in


@pytest.fixture
def root(db: None) -> Client:
    """A superuser's browser."""
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client
