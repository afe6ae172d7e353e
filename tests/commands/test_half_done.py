"""What a command tells when a store fails half way, or at a look after the act."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import CommandError, call_command

from tests.admin.test_half_done import fail_at
from tests.aging import age_history
from tests.commands.conftest import Shop
from tests.commands.manage import call
from tests.commands.test_steering import bury, expire, put
from vtrr_django.engines.orm import engine as orm
from vtrr_django.engines.orm.partitions import Partitions
from vtrr_django.engines.sql import history
from vtrr_django.engines.sql.history import History
from vtrr_django.management.commands import vtrr_requeue
from vtrr_django.queue import Queue

WHY = "the store went away"


@pytest.mark.parametrize(
    ("arguments", "method", "told"),
    [
        (["vtrr_requeue", "--all"], "_requeue", "4 jobs requeued; then: "),
        (["vtrr_purge", "--no-input"], "_remove", "2 jobs removed; then: "),
        (["vtrr_cancel"], "_remove", "2 jobs cancelled; then: "),
    ],
)
def test_the_steps_before_one_that_failed_are_told(
    only_mails: Shop,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    method: str,
    told: str,
) -> None:
    monkeypatch.setattr(orm, "_CANCEL_CHUNK", 2)
    monkeypatch.setattr(vtrr_requeue, "BATCH", 2)
    requeues = method == "_requeue"
    ids = bury(only_mails, 6) if requeues else put(only_mails, 6)
    fail_at(monkeypatch, orm.OrmEngine, method, 3 if requeues else 2)

    with pytest.raises(CommandError, match=f"^{told}{WHY}$"):
        call(*arguments, *(ids if arguments == ["vtrr_cancel"] else ()))


def test_leases_that_came_back_are_told(only_mails: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    put(only_mails, 3)
    expire(only_mails.mails.lease(3))
    fail_at(monkeypatch, Queue, "reclaim_and_dispatch", 2)

    with pytest.raises(CommandError, match=f"^3 leases reclaimed; then: {WHY}$"):
        call("vtrr_reclaim")


@pytest.mark.parametrize("command", [["vtrr_prune"], ["vtrr_reclaim", "--prune"]])
def test_what_was_removed_from_the_history_is_told(
    only_mails: Shop, monkeypatch: pytest.MonkeyPatch, settings: Any, command: list[str]
) -> None:
    bury(only_mails, 2)
    put(only_mails, 3)
    for job in only_mails.mails.lease(3):
        only_mails.mails.ack(job)
    age_history("mails")
    retention = {"FAILED_RETENTION": 0, "COMPLETED_RETENTION": 0}
    settings.VTRR = {"QUEUES": {"mails": retention}}
    trim = History._trim
    in_twos = lambda self, *trimmed: trim(self, *trimmed[:-1], 2)  # noqa: E731
    monkeypatch.setattr(History, "_trim", in_twos)
    fail_at(monkeypatch, history, "_delete", 3)  # after two completed jobs and one more

    with pytest.raises(CommandError, match=f"^3 ended jobs removed; then: {WHY}$"):
        call(*command)
    stats = only_mails.mails.stats()
    assert (stats["completed"], stats["failed"]) == (0, 2)


@pytest.mark.parametrize(
    ("command", "verb", "told"),
    [
        (["vtrr_reclaim"], "reclaim_and_dispatch", "Queue uploads: 0 leases reclaimed.\n"),
        (["vtrr_reclaim", "--prune"], "prune", "Queue uploads: 0 completed jobs and 0 dead "),
        (["vtrr_reclaim"], "measure", "Queue uploads: 0 leases reclaimed.\n"),
        (["vtrr_prune"], "prune", "Queue uploads: 0 completed jobs and 0 dead letters removed.\n"),
        (["vtrr_stats", "--partitions"], "partitions", "Queue uploads has no partitions"),
    ],
)
def test_a_queue_whose_store_is_away_keeps_no_other_from_its_turn(
    shop: Shop,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
    verb: str,
    told: str,
) -> None:
    fail_at(monkeypatch, Queue, verb, 1)
    measured: list[str] = []
    if verb != "measure":
        monkeypatch.setattr(Queue, "measure", lambda queue: measured.append(queue.name))

    with pytest.raises(CommandError, match=f"^queue mails: {WHY}$"):
        call_command(*command)

    assert told in capsys.readouterr().out
    assert measured == (["uploads"] if command[0] == "vtrr_reclaim" and verb != "measure" else [])


def test_each_queue_that_failed_is_told(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    put(shop, 3)
    expire(shop.mails.lease(3))
    for verb, call_number in (("reclaim_and_dispatch", 2), ("archive", 1)):
        fail_at(monkeypatch, Queue, verb, call_number)

    with pytest.raises(CommandError) as caught:
        call("vtrr_reclaim")

    assert str(caught.value).splitlines() == [
        f"queue mails: 3 leases reclaimed; then: {WHY}",
        f"queue uploads: {WHY}",
    ]


def test_what_is_done_once_is_told(only_mails: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    put(only_mails)
    for command, told in (("vtrr_pause", "paused"), ("vtrr_resume", "resumed")):
        with monkeypatch.context() as patch:
            fail_at(patch, Partitions, "refresh", 1)
            with pytest.raises(CommandError, match=f"^it was {told}; then: {WHY}$"):
                call(command, "--partition=acme")
    [found] = only_mails.mails.partitions("acme")
    assert not found.paused


@pytest.mark.parametrize("command", ["vtrr_pause", "vtrr_resume"])
@pytest.mark.parametrize("of", [[], ["--partition=acme"]])
def test_a_look_that_fails_afterwards_undoes_no_news(
    only_mails: Shop, monkeypatch: pytest.MonkeyPatch, command: str, of: list[str]
) -> None:
    put(only_mails)
    for look in ("stats", "partitions"):
        fail_at(monkeypatch, Queue, look, 1)

    told = call(command, *of)

    assert told.startswith("Paused " if command == "vtrr_pause" else "Resumed ")
    assert f"what waits could not be seen ({WHY})." in told


def test_a_share_is_set_though_it_cannot_be_seen(
    only_mails: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(only_mails)

    def set_and_look(*arguments: Any) -> str:
        with monkeypatch.context() as patch:
            fail_at(patch, Queue, "partitions", 1)
            with pytest.raises(CommandError) as caught:
                call("vtrr_share", "--partition=acme", *arguments)
        return str(caught.value)

    assert set_and_look("--share=3") == f"it was set; then: {WHY}"
    assert set_and_look() == WHY, "nothing was to be set"
    assert [one.share for one in only_mails.mails.partitions("acme")] == [3]
