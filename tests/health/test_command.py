"""``vtrr_health``: what it prints, and how it ends."""

from __future__ import annotations

import io
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from tests.commands.manage import call, run
from tests.contract.stores import Store
from tests.health.conftest import findings
from tests.races.conftest import MakeQueue
from tests.races.roles import Note
from vtrr_django.health import STATUSES
from vtrr_django.testing import run_jobs


def check(*arguments: str) -> tuple[int, str]:
    """Run the command; return its exit status and what it printed."""
    out = io.StringIO()
    try:
        call_command("vtrr_health", *arguments, stdout=out)
        status: Any = 0
    except SystemExit as end:
        status = end.code
    return status, out.getvalue()


def test_the_exit_status_says_how_queues_are(
    make_queue: MakeQueue, request: pytest.FixtureRequest
) -> None:
    queue = make_queue()
    assert check()[0] == 0
    queue.publish(Note(), partition_key="acme")
    assert check()[0] == 1
    request.getfixturevalue("patience")
    assert check()[0] == 2
    queue.pause()
    assert check()[0] == 0


def test_each_finding_is_a_line(make_queue: MakeQueue) -> None:
    queue = make_queue()
    queue.publish(Note(), partition_key="acme")
    lines = check()[1].splitlines()
    assert lines[0] == f"queue {queue.name}: warning"
    assert [line.split(None, 2)[:2] for line in lines[1:5]] == [
        ["ok", "store"],
        ["ok", "database"],
        ["warning", "workers"],
        ["ok", "reclaim"],
    ]
    assert lines[1] == ("  ok        store     the store answers: 1 ready, 0 scheduled, 0 leased")


def test_the_same_as_json(make_queue: MakeQueue) -> None:
    queue = make_queue()
    status, out = check("--json", "--queue", queue.name)
    told = json.loads(out)
    assert (status, told["status"]) == (0, "ok")
    [mine] = told["queues"]
    assert mine["queue"] == queue.name
    for finding in mine["findings"]:
        known = findings(queue)[finding["id"]]
        assert (finding["status"], finding["sentence"]) == (known.status, known.sentence)
        assert set(finding["facts"]) == set(known.facts)


def test_numbers_and_moments_are_told_as_such(make_queue: MakeQueue) -> None:
    queue = make_queue(HEALTH_MAX_READY=5, HEALTH_MAX_WAIT=60, CELERY_QUEUE="c")
    queue.publish(Note(), partition_key="acme")
    queue.publish(Note(), partition_key="acme")
    queue.lease(1, "me")
    queue.reclaim()
    queue.measure("me", beat=True)
    [mine] = json.loads(check("--json")[1])["queues"]
    facts = {one["id"]: one["facts"] for one in mine["findings"]}
    assert {name for name, told in facts.items() if told} == set(facts)
    assert (facts["store"]["ready"], facts["store"]["leased"]) == (1, 1)
    assert (facts["backlog"], facts["workers"]["alive"]) == ({"ready": 1, "limit": 5}, 1)
    assert facts["age"]["limit_seconds"] == 60.0
    assert facts["reclaim"]["limit_seconds"] == 180.0
    for name, moment in [("workers", "leased_at"), ("reclaim", "looked_at"), ("beat", "seen_at")]:
        at = datetime.fromisoformat(facts[name][moment])
        assert at.utcoffset() == timedelta(0)
        assert facts[name]["silent_seconds"] >= 0


@pytest.mark.django_db
def test_some_of_the_queues(settings: Any) -> None:
    settings.VTRR = {"QUEUES": {"first": {}, "second": {}, "third": {}}}
    _, out = check("--queue", "third", "first")
    heads = [line for line in out.splitlines() if line.startswith("queue")]
    assert heads == ["queue third: ok", "queue first: ok"]


@pytest.mark.django_db
def test_a_queue_that_is_not_declared_is_no_mere_warning(settings: Any) -> None:
    settings.VTRR = {"QUEUES": {"mails": {}}}
    with pytest.raises(CommandError, match="did you mean 'mails'") as caught:
        check("--queue", "mail")
    assert STATUSES[caught.value.returncode] == "critical"


def test_as_a_process_of_its_own(
    store: Store, make_queue: MakeQueue, tmp_path: Path, settings: Any
) -> None:
    queue = make_queue()
    queue.publish(Note(), partition_key="CANARY")
    ended = run(tmp_path, "vtrr_health", vtrr={**settings.VTRR, "SECRET": "CANARY"})
    assert ended.status == 1
    assert ended.out.startswith(f"queue {queue.name}: warning\n")
    assert ended.err == ""
    assert "CANARY" not in ended.out


def test_settings_that_are_wrong_are_a_finding(transactional_db: None, tmp_path: Path) -> None:
    ended = run(tmp_path, "vtrr_health", "--json", vtrr={"QUEUES": {"q": {"ENGIN": "orm"}}})
    assert ended.status == 2, ended.err
    assert [one["id"] for one in json.loads(ended.out)["findings"]] == ["settings"]


def test_no_argument_and_no_secret_is_told(make_queue: MakeQueue, settings: Any) -> None:
    queue = make_queue(RETRY=None)
    settings.VTRR = {**settings.VTRR, "SECRET": "CANARY"}

    def give_up(self: Any, text: str) -> None:
        raise ValueError("without a word of it")

    task = queue.task(give_up)
    for _ in range(3):
        task.enqueue("CANARY", partition_key="acme")
    run_jobs(queue, max_jobs=1)
    queue.lease(1, "me")
    queue.measure("me")
    queue.archive()
    told = [
        check()[1],
        check("--json")[1],
        call("vtrr_stats", "--partitions"),
        call("vtrr_stats", "--partitions", "--json"),
        json.dumps(queue.stats(), default=str),
    ]
    assert ["acme" in text for text in told] == [False, False, True, True, True]
    assert ["without a word" in text for text in told] == [False, False, False, True, True]
    assert not any("CANARY" in text for text in told)
