"""A queue has a store and, maybe elsewhere, a history: pages tell which of the two is away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from tests.admin.conftest import declare
from tests.admin.looking import address, look, press
from tests.admin.test_history_outage import DOWN, _broken, _database
from tests.admin.test_queues_pages import partition
from tests.contract.jobs import put
from vtrr_django import Queue
from vtrr_django.engines.redis.engine import RedisEngine
from vtrr_django.exceptions import StoreUnavailable

pytestmark = pytest.mark.django_db(transaction=True)

AWAY = "Redis did not answer"
UNSEEN = f"History and figures are not to be seen: {DOWN}"


@pytest.fixture
def queue(settings: Any, tmp_path: Path, db: None) -> Iterator[Queue]:
    """A queue in Redis whose history is in a database that does not answer."""
    queue = declare(settings, "fakeredis", DATABASE="down")
    put(queue.engine, "acme", "acme")
    with _database(**_broken("folder", tmp_path)):
        yield queue


@pytest.fixture
def paths(queue: Queue) -> list[str]:
    return [address("changelist"), address("detail", queue.name), partition(queue, "acme")]


def test_a_history_that_is_away_hides_no_store(
    queue: Queue, paths: list[str], root: Client
) -> None:
    for path in paths:
        page = look(root, path)
        assert UNSEEN in page.text, path
        assert "no answer" not in page.text, path
        assert " 2" in page.text, path
        assert [label for label in page.buttons if label.startswith("Pause")], path
    page = look(root, paths[1])
    assert "workers alive – " in page.text
    assert "No worker was seen" not in page.text
    press(root, paths[0], f"Pause queue {queue.name}")
    assert queue.depth().paused
    assert "paused" in look(root, paths[0]).text
    assert "Set share" in look(root, paths[2]).buttons
    press(root, paths[2], "Set share", share="3")
    assert [one.share for one in queue.partitions("acme")] == [3]


def test_both_are_named_when_both_are_away(
    queue: Queue, paths: list[str], root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(self: RedisEngine) -> None:
        raise StoreUnavailable(AWAY)

    monkeypatch.setattr(RedisEngine, "depth", hang)

    for path in paths:
        page = look(root, path)
        assert AWAY in page.text, path
        assert UNSEEN in page.text, path
        assert not [label for label in page.buttons if label.startswith("Pause")], path
    for path in paths[:2]:
        assert "no answer" in look(root, path).text
    assert "Not known, as the store does not answer." in look(root, paths[1]).text


def test_one_database_that_is_both_is_named_once(
    settings: Any, root: Client, tmp_path: Path, db: None
) -> None:
    queue = declare(settings, "sqlite")
    settings.VTRR = {"QUEUES": {queue.name: {"DATABASE": "down"}}}

    with _database(**_broken("folder", tmp_path)):
        for path in (address("changelist"), address("detail", queue.name)):
            page = look(root, path)
            assert "no answer" in page.text
            assert page.text.count(DOWN) == 1
