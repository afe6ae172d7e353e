"""The commands that look at queues and steer them."""

from __future__ import annotations

import builtins
import json
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from django.test import override_settings

from tests.aging import age_history
from tests.commands.conftest import Shop
from tests.commands.manage import call
from vtrr_django.domain.job import LeasedJob
from vtrr_django.engines.sql.models import CompletedJob, FailedJob, Job
from vtrr_django.exceptions import StoreUnavailable
from vtrr_django.queue import Queue


def put(shop: Shop, number: int = 1, partition: str = "acme", **fields: Any) -> list[str]:
    return shop.send.queue(partition_key=partition, tasks=[fields] * number)


def bury(shop: Shop, number: int, reason: str = "broken") -> list[str]:
    """Make dead letters."""
    ids = put(shop, number)
    for job in shop.mails.lease(number):
        shop.mails.fail(job, reason)
    return ids


def expire(jobs: list[LeasedJob]) -> None:
    """Let leases have run out an hour ago."""
    for row in Job.objects.filter(id__in=[job.id for job in jobs]):
        Job.objects.filter(pk=row.pk).update(lease_expires_at=1)


def counts(queue: Queue, *keys: str) -> list[int]:
    stats = queue.stats()
    return [stats[key] for key in keys]


# -- which queue -------------------------------------------------------------------------

ONE_QUEUE = [
    ("vtrr_pause",),
    ("vtrr_resume",),
    ("vtrr_share", "--partition=acme"),
    ("vtrr_requeue", "--all"),
    ("vtrr_cancel", "some-id"),
    ("vtrr_purge", "--no-input"),
]
ANY_QUEUES = [("vtrr_stats",), ("vtrr_reclaim",), ("vtrr_prune",)]


@pytest.mark.parametrize("command", ONE_QUEUE, ids=lambda command: command[0])
def test_a_queue_must_be_named_where_several_are_declared(
    shop: Shop, command: tuple[str, ...]
) -> None:
    with pytest.raises(CommandError, match=r"expected --queue NAME, .* mails, uploads"):
        call(*command)


@pytest.mark.parametrize("command", [*ONE_QUEUE, *ANY_QUEUES], ids=lambda command: command[0])
def test_an_unknown_queue_is_refused_with_the_nearest_name(
    shop: Shop, command: tuple[str, ...]
) -> None:
    with pytest.raises(CommandError, match="got 'uplods'; did you mean 'uploads'"):
        call(*command, "--queue=uplods")


@pytest.mark.parametrize("command", ["vtrr_pause", "vtrr_resume", "vtrr_purge", "vtrr_share"])
def test_a_partition_key_that_cannot_be_is_refused(shop: Shop, command: str) -> None:
    more = {"interactive": False} if command == "vtrr_purge" else {}
    with pytest.raises(CommandError, match="partition_key: expected"):
        call(command, queue="mails", partition="x" * 256, **more)


def test_quiet(only_mails: Shop) -> None:
    assert call("vtrr_pause", verbosity=0) == ""
    assert only_mails.mails.stats()["paused"]


# -- stats -------------------------------------------------------------------------------


def test_stats_prints_a_table_with_a_line_for_each_queue(shop: Shop) -> None:
    put(shop, 1200)
    put(shop, 1, "other", delay=60)
    shop.mails.lease(3)
    bury(shop, 1)
    shop.uploads.pause()
    heads, mails, uploads = call("vtrr_stats").splitlines()
    assert heads.split()[:6] == ["queue", "ready", "scheduled", "leased", "failed", "completed"]
    assert mails.split()[:6] == ["mails", "1,197", "1", "3", "1", "0"]
    assert uploads.split() == ["uploads", "0", "0", "0", "0", "0", "0", "-", "paused"]
    column = slice(heads.index("scheduled"), heads.index("scheduled") + len("scheduled"))
    assert mails[column] == "1".rjust(len("scheduled")), "numbers are aligned to the right"


def test_stats_of_one_queue(shop: Shop) -> None:
    assert "uploads" not in call("vtrr_stats", "--queue=mails")
    assert call("vtrr_stats", queue="mails") == call("vtrr_stats", queue=["mails"])


def test_stats_tell_of_jobs_that_a_rename_left_behind(shop: Shop, settings: Any) -> None:
    put(shop, 2)
    queues = settings.VTRR["QUEUES"]
    settings.VTRR = {**settings.VTRR, "QUEUES": {"uploads": queues["uploads"]}}
    assert "\nLeft behind in queue mails, in database 'default': 2 ready." in call("vtrr_stats")
    assert "mails" not in call("vtrr_stats", "--queue=uploads")


def test_stats_with_partitions(shop: Shop) -> None:
    put(shop, 3)
    put(shop, 1, "p" * 100)
    shop.mails.set_partition("acme", share=2.5, limit=4)
    shop.mails.pause("acme")
    out = call("vtrr_stats", "--partitions", "--queue", "mails", "uploads")
    assert "Queue mails\npartition" in out
    acme = next(line for line in out.splitlines() if line.startswith("acme "))
    assert acme.split()[:6] == ["acme", "3", "0", "0", "2.5", "4"]
    assert acme.split()[-1] == "paused"
    assert "ppp...ppp" in out
    assert "p" * 50 not in out
    assert "Queue uploads has no partitions" in out


def test_the_partition_of_jobs_without_a_key_can_be_seen_and_typed(shop: Shop) -> None:
    shop.mails.pause("")
    assert '\n""  ' in call("vtrr_stats", "--partitions", "--queue=mails")


@pytest.fixture
def half_away(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """The store of uploads' history does not answer."""

    def away() -> None:
        raise StoreUnavailable("database 'history' did not answer: it is away")

    put(shop, 2)
    shop.uploads.pause()
    monkeypatch.setattr(shop.uploads.engine, "stats", away)
    return shop


def test_a_store_that_is_away_hides_no_other(half_away: Shop, capsys: Any) -> None:
    with pytest.raises(CommandError, match=r"^queue uploads: database 'history' did not answer"):
        call_command("vtrr_stats", "--partitions")
    out = capsys.readouterr().out
    _, mails, uploads = out.split("\n\n")[0].splitlines()
    assert mails.split()[:4] == ["mails", "2", "0", "0"]
    assert uploads.split()[:6] == ["uploads", "0", "0", "0", "-", "-"]
    assert uploads.endswith("paused, its history does not answer")
    assert "acme" in out


def test_a_queue_of_which_nothing_can_be_told(
    half_away: Shop, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(half_away.uploads.engine, "depth", half_away.uploads.engine.stats)
    with pytest.raises(CommandError, match=r"^queue uploads: "):
        call_command("vtrr_stats", "--json", "--partitions")
    mails, uploads = json.loads(capsys.readouterr().out)
    assert mails["ready"] == 2
    assert "error" not in mails
    assert uploads == {
        "queue": "uploads",
        "error": "database 'history' did not answer: it is away",
    }
    with pytest.raises(CommandError, match=r"^database 'history' did not answer"):
        call_command("vtrr_stats", "--queue=uploads")


def test_stats_as_json(shop: Shop) -> None:
    put(shop, 2)
    mails, uploads = json.loads(call("vtrr_stats", "--json", "--partitions"))
    assert (mails["queue"], mails["ready"], uploads["ready"]) == ("mails", 2, 0)
    assert mails["oldest_ready_at"].endswith("Z")
    (acme,) = mails["partitions"]
    assert (acme["partition_key"], acme["ready"], acme["limit"]) == ("acme", 2, 7)
    assert uploads["partitions"] == []
    assert "partitions" not in json.loads(call("vtrr_stats", "--json"))[0]


def test_watching_goes_on_until_ctrl_c(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    naps: list[float] = []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            raise KeyboardInterrupt
        put(shop)

    monkeypatch.setattr("vtrr_django.management.commands.vtrr_stats.time.sleep", sleep)
    out = call("vtrr_stats", "--watch", "--queue=mails")
    assert naps == [2.0] * 3
    seen = [line.split()[1] for line in out.splitlines() if line.startswith("mails")]
    assert seen == ["0", "1", "2"]
    assert "\x1b" not in out, "not to a file"


@pytest.mark.service("postgres")
@pytest.mark.django_db(transaction=True, databases=["default", "postgres"])
def test_watching_survives_a_connection_that_breaks(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.VTRR = {"QUEUES": {"mails": {"DATABASE": "postgres"}}}
    naps: list[float] = []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 2:
            raise KeyboardInterrupt
        connections["postgres"].connection.close()

    monkeypatch.setattr("vtrr_django.management.commands.vtrr_stats.time.sleep", sleep)
    assert call("vtrr_stats", "--watch=0.1").count("mails") == 2


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "1e9"])
def test_watching_needs_a_time(shop: Shop, seconds: str) -> None:
    with pytest.raises(CommandError, match="--watch: expected"):
        call("vtrr_stats", f"--watch={seconds}")


def test_stats_either_as_json_or_watched(shop: Shop) -> None:
    with pytest.raises(CommandError, match="not allowed with"):
        call("vtrr_stats", "--json", "--watch")


# -- reclaim, prune ------------------------------------------------------------------------


def test_reclaim_brings_back_every_lease_that_ran_out(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.mails.set_partition("acme", limit=100)
    put(shop, 5)
    expire(shop.mails.lease(5))
    reclaim = shop.mails.engine.reclaim
    monkeypatch.setattr(shop.mails.engine, "reclaim", lambda: reclaim(2))
    assert call("vtrr_reclaim") == (
        "Queue mails: 5 leases reclaimed.\nQueue uploads: 0 leases reclaimed.\n"
    )
    assert counts(shop.mails, "ready", "claimed") == [5, 0]


def test_prune_trims_the_history(shop: Shop, settings: Any) -> None:
    bury(shop, 3)
    put(shop, 1)
    shop.mails.ack(shop.mails.lease()[0])
    settings.VTRR = {"QUEUES": {"mails": {"FAILED_RETENTION": 1, "COMPLETED_RETENTION": 0}}}
    assert call("vtrr_prune") == "Queue mails: 0 completed jobs and 0 dead letters removed.\n"
    age_history("mails")
    assert call("vtrr_prune") == "Queue mails: 1 completed job and 2 dead letters removed.\n"
    assert (CompletedJob.objects.count(), FailedJob.objects.count()) == (0, 1)


def test_reclaim_prunes_when_told(shop: Shop, settings: Any) -> None:
    bury(shop, 2)
    settings.VTRR = {"QUEUES": {"mails": {"FAILED_RETENTION": 0}}}
    age_history("mails")
    assert "removed" not in call("vtrr_reclaim")
    assert FailedJob.objects.count() == 2
    assert "0 completed jobs and 2 dead letters removed." in call("vtrr_reclaim", "--prune")
    assert FailedJob.objects.count() == 0


# -- pause, resume, share --------------------------------------------------------------------


def test_pause_and_resume_a_queue(only_mails: Shop) -> None:
    put(only_mails, 2)
    put(only_mails, 1, delay=60)
    assert call("vtrr_pause") == "Paused queue mails: 2 jobs ready, 1 scheduled.\n"
    assert only_mails.mails.lease() == []
    assert call("vtrr_resume") == "Resumed queue mails: 2 jobs ready, 1 scheduled.\n"
    assert only_mails.mails.lease() != []


def test_pause_and_resume_a_partition(only_mails: Shop) -> None:
    put(only_mails, 1)
    put(only_mails, 1, "other")
    said = call("vtrr_pause", "--partition=acme")
    assert said == "Paused partition acme of queue mails: 1 job ready, 0 scheduled.\n"
    assert [job.partition_key for job in only_mails.mails.lease(2)] == ["other"]
    call("vtrr_resume", "--partition=acme")
    assert [job.partition_key for job in only_mails.mails.lease(2)] == ["acme"]


def test_resuming_a_partition_of_a_paused_queue_says_so(only_mails: Shop) -> None:
    only_mails.mails.pause()
    assert "Queue mails itself is paused" in call("vtrr_resume", "--partition=acme")


def test_the_partition_without_a_key_is_one_like_others(only_mails: Shop) -> None:
    assert call("vtrr_pause", "--partition=").startswith('Paused partition "" of queue mails')
    assert not only_mails.mails.stats()["paused"]


def test_share_prints_what_is_in_force_and_writes_nothing(only_mails: Shop) -> None:
    assert call("vtrr_share", "--partition=Big One") == (
        "Partition Big One of queue mails: share 1, limit 7; 0 jobs ready, 0 scheduled, 0 leased.\n"
    )
    assert "share 5, limit 7;" in call("vtrr_share", "--partition=big"), "as SHARES says"
    assert only_mails.mails.partitions() == []


def test_share_sets_and_unsets(only_mails: Shop) -> None:
    put(only_mails, 2, "big")
    said = call("vtrr_share", "--partition=big", "--share=2.5", "--limit=3")
    assert "share 2.5, limit 3; 2 jobs ready" in said
    assert "share 2.5, limit 7;" in call("vtrr_share", "--partition=big", "--unset-limit")
    assert "share 5, limit 7;" in call("vtrr_share", "--partition=big", "--unset-share")
    only_mails.mails.pause("big")
    assert "limit 7, paused;" in call("vtrr_share", "--partition=big")


def test_share_without_a_limit(shop: Shop) -> None:
    assert "share 1, no limit;" in call("vtrr_share", "--partition=acme", "--queue=uploads")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--share=0"], "share: expected"),
        (["--share=nan"], "share: expected"),
        (["--limit=0"], "limit: expected"),
        (["--share=1", "--unset-share"], "not allowed with"),
        (["--limit=1", "--unset-limit"], "not allowed with"),
        (["--share=much"], "invalid float value"),
    ],
)
def test_share_refuses(only_mails: Shop, arguments: list[str], why: str) -> None:
    with pytest.raises(CommandError, match=why):
        call("vtrr_share", "--partition=acme", *arguments)
    assert only_mails.mails.partitions() == []


def test_share_needs_a_partition(only_mails: Shop) -> None:
    with pytest.raises(CommandError, match="--partition"):
        call("vtrr_share")


# -- requeue, cancel, purge --------------------------------------------------------------------


def test_requeue_by_id(only_mails: Shop) -> None:
    first, second, _ = bury(only_mails, 3)
    assert call("vtrr_requeue", second, first) == "Requeued 2 jobs of queue mails.\n"
    assert counts(only_mails.mails, "ready", "failed") == [2, 1]


def test_requeue_names_the_ids_that_are_no_dead_letters(only_mails: Shop) -> None:
    (dead,) = bury(only_mails, 1)
    with pytest.raises(CommandError, match="got others too: nobody"):
        call("vtrr_requeue", dead, "nobody")
    assert counts(only_mails.mails, "ready", "failed") == [1, 0], "the others are"


def test_requeue_all_in_batches(only_mails: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vtrr_django.management.commands.vtrr_requeue.BATCH", 2)
    bury(only_mails, 5)
    assert call("vtrr_requeue", "--all") == "Requeued 5 jobs of queue mails.\n"


def test_requeue_all_goes_on_behind_letters_whose_jobs_are_live(
    only_mails: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vtrr_django.management.commands.vtrr_requeue.BATCH", 2)
    dead, live = bury(only_mails, 3), put(only_mails, 5)
    [values] = FailedJob.objects.filter(id=dead[0]).values()
    del values["seq"]
    values["failed_at"] -= timedelta(hours=1)
    FailedJob.objects.bulk_create(FailedJob(**(values | {"id": job_id})) for job_id in live)
    assert call("vtrr_requeue", "--all") == "Requeued 3 jobs of queue mails.\n"
    assert counts(only_mails.mails, "ready", "failed") == [8, 0]


def test_requeue_all_brings_each_back_once(
    only_mails: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vtrr_django.management.commands.vtrr_requeue.BATCH", 1)
    bury(only_mails, 2)
    mails, requeue = only_mails.mails, only_mails.mails.requeue

    def requeue_and_fail_again(*args: Any, **options: Any) -> list[str]:
        done = requeue(*args, **options)
        for job in mails.lease(10):
            mails.fail(job, "again")
        return done

    monkeypatch.setattr(mails, "requeue", requeue_and_fail_again)
    assert call("vtrr_requeue", "--all") == "Requeued 2 jobs of queue mails.\n"


def test_requeue_no_more_than_told(only_mails: Shop) -> None:
    oldest, *_ = bury(only_mails, 3)
    assert call("vtrr_requeue", "--all", "--limit=1") == "Requeued 1 job of queue mails.\n"
    assert [job.id for job in only_mails.mails.lease(5)] == [oldest]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "ids of dead letters or --all"),
        (["some-id", "--all"], "ids of dead letters or --all"),
        (["some-id", "--limit=1"], "--limit: expected"),
        (["--all", "--limit=0"], "--limit: expected"),
        (["no id"], r"ids\[0\]: expected"),
    ],
)
def test_requeue_refuses(only_mails: Shop, arguments: list[str], why: str) -> None:
    bury(only_mails, 1)
    with pytest.raises(CommandError, match=why):
        call("vtrr_requeue", *arguments)
    assert counts(only_mails.mails, "failed") == [1]


def test_cancel(only_mails: Shop) -> None:
    first, second = put(only_mails, 2)
    assert call("vtrr_cancel", second) == "Cancelled 1 job of queue mails.\n"
    assert [job.id for job in only_mails.mails.lease(5)] == [first]
    with pytest.raises(CommandError, match=f"running, ended or unknown.*: {first}"):
        call("vtrr_cancel", first)
    with pytest.raises(CommandError, match="ID"):
        call_command("vtrr_cancel")


def test_purge_asks_and_names_the_number(only_mails: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    put(only_mails, 2)
    put(only_mails, 1, delay=60)
    put(only_mails, 1, "other")
    only_mails.mails.lease(1)
    monkeypatch.setattr(builtins, "input", lambda prompt: "yes")
    out = call("vtrr_purge", "--partition=acme")
    assert "removes 2 jobs (1 ready, 1 scheduled) of partition acme of queue mails" in out
    assert "Removed 2 jobs from partition acme of queue mails." in out
    assert counts(only_mails.mails, "ready", "scheduled", "claimed") == [1, 0, 1]


@pytest.mark.parametrize("answer", ["", "no", "y"])
def test_purge_wants_a_whole_yes(
    only_mails: Shop, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    put(only_mails, 2)
    monkeypatch.setattr(builtins, "input", lambda prompt: answer)
    with pytest.raises(CommandError, match="not purged"):
        call("vtrr_purge")
    assert counts(only_mails.mails, "ready") == [2]


def test_purge_where_nobody_can_answer(only_mails: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    put(only_mails, 2)

    def nobody(prompt: str) -> str:
        raise EOFError

    monkeypatch.setattr(builtins, "input", nobody)
    with pytest.raises(CommandError, match="--no-input"):
        call("vtrr_purge")
    assert counts(only_mails.mails, "ready") == [2]


def test_purge_without_asking(only_mails: Shop) -> None:
    put(only_mails, 2)
    assert call("vtrr_purge", "--no-input") == "Removed 2 jobs from queue mails.\n"
    assert counts(only_mails.mails, "ready") == [0]


def test_purge_of_nothing_asks_nothing(only_mails: Shop) -> None:
    assert call("vtrr_purge") == "Nothing waits in queue mails.\n"


def test_jobs_of_a_queue_that_was_renamed_are_told_of(shop: Shop) -> None:
    put(shop, 3)
    assert "Left behind" not in call("vtrr_stats")
    with override_settings(VTRR={"QUEUES": {"letters": {}}}):
        told = call("vtrr_stats")
        assert "Left behind in queue mails, in database 'default': 3 ready." in told
        assert "put 'mails' back into VTRR['QUEUES']" in told
        assert "Left behind" not in call("vtrr_stats", "--queue=letters")
        assert [one["queue"] for one in json.loads(call("vtrr_stats", "--json"))] == ["letters"]
