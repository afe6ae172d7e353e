"""Short ways to say what most of these tests say."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.management import CommandError

from tests.commands import manage
from tests.commands.importing.files import File
from tests.contract.stores import STORES, Store
from vtrr_django import Queue
from vtrr_django.domain.job import LeasedJob
from vtrr_django.models import ImportedJob

shared = pytest.mark.parametrize(
    "store", [name for name, make in STORES.items() if make().shared], indirect=True
)
"""Processes work on the queue."""

sqlite_only = pytest.mark.parametrize("store", ["sqlite"], indirect=True)
"""What happens before any store is asked."""


def call(file: File | Path | str, *arguments: str) -> str:
    path = file.path if isinstance(file, File) else file
    return manage.call("vtrr_import_liteworks", str(path), *arguments)


def apply(file: File, *arguments: str) -> str:
    return call(file, "--apply", *arguments)


def refusal(file: File | Path | str, *arguments: str) -> str:
    with pytest.raises(CommandError) as error:
        call(file, "--apply", *arguments)
    return str(error.value)


def drain(queue: Queue) -> list[LeasedJob]:
    """Run everything that is ready; return the jobs in order."""
    queue.reclaim()
    done: list[LeasedJob] = []
    while leased := queue.lease(50):
        assert all(queue.ack(job) for job in leased)
        done += leased
    return done


def imported(queue: Queue) -> set[str]:
    rows = ImportedJob.objects.using(queue.config.database).filter(queue=queue.name)
    return set(rows.values_list("job_id", flat=True))


def is_empty(store: Store, queue: Queue) -> bool:
    history = store.history(queue.name)
    return not (store.live(queue.name) or any(history.values()) or imported(queue))
