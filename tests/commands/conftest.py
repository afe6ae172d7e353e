"""Two queues in SQLite, with a task each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from django.test import override_settings

from vtrr_django import Queue, get_queue
from vtrr_django.tasks import Task

VTRR = {"QUEUES": {"mails": {"PARTITION_LIMIT": 7, "SHARES": {"big": 5}}, "uploads": {}}}


class Shop(NamedTuple):
    """A queue of the project, its task, and another queue."""

    mails: Queue
    send: Task
    uploads: Queue


def send(self: Any, number: int = 0) -> None:
    """Do nothing."""


@pytest.fixture
def shop(transactional_db: None) -> Iterator[Shop]:
    with override_settings(VTRR=VTRR):
        mails, uploads = get_queue("mails"), get_queue("uploads")
        yield Shop(mails, mails.task(send), uploads)


@pytest.fixture
def only_mails(shop: Shop) -> Iterator[Shop]:
    with override_settings(VTRR={"QUEUES": {"mails": VTRR["QUEUES"]["mails"]}}):
        yield shop
