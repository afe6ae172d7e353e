"""What the buttons of the queue pages do, who may press them, and what is written down."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client

from tests.admin.conftest import declare
from tests.admin.looking import address, look, messages, press
from tests.admin.test_queues_pages import VIEW, partition
from tests.contract.jobs import end, put, take
from vtrr_django import Queue
from vtrr_django.admin import queue_actions
from vtrr_django.domain.job import OutcomeKind, PartitionStats
from vtrr_django.models import FailedJob


def logged() -> list[str]:
    """Return what was written into the admin's log, the oldest first."""
    entries = LogEntry.objects.order_by("pk").values_list("change_message", flat=True)
    return [text.replace("\u2068", "").replace("\u2069", "") for text in entries]


def dead(queue: Queue, n: int) -> None:
    """Make dead letters."""
    put(queue.engine, *["acme"] * n)
    for leased in take(queue.engine, n):
        end(queue.engine, leased, OutcomeKind.FAIL, reason="no such file")
    queue.archive()


def of(queue: Queue, key: str) -> PartitionStats:
    [found] = queue.partitions(key)
    return found


def test_what_was_done_stays_to_be_read_without_the_queue(
    queue: Queue, root: Client, settings: Any
) -> None:
    root.post(address("do", queue.name, "pause"))
    settings.VTRR = {"QUEUES": {"another": {}}}

    assert "Paused." in root.get(address("history", queue.name)).text
    assert root.get(address("history", "never-there")).status_code == 404


# -- what they do ------------------------------------------------------------------


@pytest.mark.parametrize("page", ["changelist", "detail"])
def test_a_queue_is_paused_and_resumed(queue: Queue, root: Client, page: str) -> None:
    path = address(page, *([] if page == "changelist" else [queue.name]))

    told = press(root, path, "Pause")

    assert f"Queue {queue.name} is paused" in told.text
    assert queue.depth().paused
    assert "Pause" not in " ".join(told.buttons)
    told = press(root, path, "Resume")
    assert f"Queue {queue.name} is resumed." in told.text
    assert not queue.depth().paused
    assert logged() == ["Paused.", "Resumed."]


def test_a_second_click_changes_nothing_and_says_so(queue: Queue, root: Client) -> None:
    def click(verb: str, **fields: str) -> str:
        response = root.post(address("do", queue.name, verb), fields)
        return messages(look(root, response.headers["Location"]))

    assert f"Queue {queue.name} was not paused." in click("resume")
    click("pause")
    assert f"Queue {queue.name} was paused already." in click("pause")
    click("pause", partition="acme")
    told = click("pause", partition="acme")
    assert f"Partition acme of queue {queue.name} was paused already." in told
    for verb, value in (("share", "2.5"), ("limit", "3"), ("share", ""), ("limit", "")):
        assert "already" not in click(verb, partition="acme", **{verb: value})
        entries = len(logged())
        assert "already" in click(verb, partition="acme", **{verb: value})
        assert len(logged()) == entries
    assert "no lease had run out" in click("reclaim")
    assert "has no dead letters to requeue" in click("requeue")
    assert "no dead letter any more" in click("requeue", id="no-such-job")
    assert "No job was cancelled; 1 did not wait any more" in click("cancel", id="no-such-job")
    assert "Choose the jobs to cancel first." in click("cancel")
    root.post(address("purge", queue.name))
    told = messages(look(root, address("detail", queue.name)))
    assert "no job waited; nothing was purged" in told
    assert [text.split()[0] for text in logged()] == ["Paused.", "Paused", *["Gave"] * 4]


def test_leases_that_ran_out_are_reclaimed_at_once(settings: Any, root: Client) -> None:
    queue = declare(settings, "sqlite")
    put(queue.engine, "acme")
    queue.engine.lease(1, worker_id="w", lease_seconds=0.0)

    page = press(root, address("detail", queue.name), "Reclaim now")

    assert "1 lease that had run out came back." in page.text
    assert queue.depth().ready == 1
    assert logged() == ["Reclaimed: 1 lease that had run out came back."]


def test_all_dead_letters_are_requeued(queue: Queue, root: Client) -> None:
    dead(queue, 3)

    page = press(root, address("changelist"), "Requeue all failed (3)")

    assert f"Queue {queue.name}: 3 dead letters requeued." in page.text
    assert queue.depth().ready == 3
    assert logged() == ["Requeued 3 dead letters."]


def test_requeueing_ends_in_time_and_says_what_is_left(
    queue: Queue, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead(queue, 5)
    monkeypatch.setattr(queue_actions, "REQUEUE_BATCH", 2)
    ticks = iter([0.0, 1.0, 2.0, queue_actions.REQUEUE_SECONDS])
    monkeypatch.setattr(queue_actions, "monotonic", lambda: next(ticks))

    page = press(root, address("detail", queue.name), "Requeue all failed")

    assert "4 dead letters requeued; 1 is left." in page.text
    assert FailedJob.objects.count() == 1


def test_what_fails_again_meanwhile_is_not_requeued_again(
    queue: Queue, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead(queue, 3)
    requeue = Queue.requeue

    def requeue_and_fail(self: Queue, ids: Any = None, *, limit: int = 1000) -> list[str]:
        back = requeue(self, ids, limit=limit)
        for leased in take(self.engine, len(back)):
            end(self.engine, leased, OutcomeKind.FAIL, reason="again")
        self.archive()
        return back

    monkeypatch.setattr(queue_actions, "REQUEUE_BATCH", 2)
    monkeypatch.setattr(Queue, "requeue", requeue_and_fail)

    page = press(root, address("detail", queue.name), "Requeue all failed")

    assert "3 dead letters requeued; 3 are left." in page.text


# -- partitions --------------------------------------------------------------------


def test_a_partition_can_be_paused_though_shares_cannot_be_asked(
    settings: Any, staff: Callable[..., Client]
) -> None:
    def share_of(partition_key: str) -> float:
        raise ValueError("CANARY")

    queue = declare(settings, "sqlite", SHARES=share_of)
    client = staff("view_queuestate", "steer_queues")
    path = address("partition", queue.name) + "?key=acme"

    page = look(client, path)
    assert "SHARES did not tell its share" in page.text
    assert "CANARY" not in page.text
    page = press(client, path, "Pause")

    assert "is paused" in page.text
    assert "CANARY" not in page.text
    assert [one.paused for one in queue.partitions("acme")] == [True]


@pytest.mark.parametrize("share", [123456.75, 0.1234567, 1_000_000, 0.000001, 3])
def test_a_share_is_shown_as_it_was_set(queue: Queue, root: Client, share: float) -> None:
    put(queue.engine, "acme")
    queue.set_partition("acme", share=share)
    path = address("partition", queue.name) + "?key=acme"

    press(root, path, "Set share")
    assert [one.share for one in queue.partitions("acme")] == [share]
    assert "1e+06" not in look(root, path).text


@pytest.mark.parametrize(
    "entered", ["1_000", "\u0663", "1,5", "1.5.1", "0x1", "\0", "nan", "9" * 500]
)
@pytest.mark.parametrize("verb", ["share", "limit"])
def test_what_is_no_number_is_refused(queue: Queue, root: Client, verb: str, entered: str) -> None:
    put(queue.engine, "acme")
    before = queue.partitions("acme")
    sent = root.post(address("do", queue.name, verb), {"partition": "acme", verb: entered})
    assert "Nothing was done: " in messages(look(root, sent.headers["Location"]))
    after = queue.partitions("acme")
    assert [(one.share, one.limit) for one in after] == [(one.share, one.limit) for one in before]


KEYS = ["acme", "", "a/b?c&d=%", "🚀", '"><img src=x onerror=alert(1)>', "\u202egnp.exe", "x" * 255]


@pytest.mark.parametrize("key", KEYS)
def test_a_partition_is_steered_whatever_its_key(queue: Queue, root: Client, key: str) -> None:
    put(queue.engine, key, key, "other")
    path = partition(queue, key)

    press(root, path, "Pause")
    assert of(queue, key).paused
    assert not of(queue, "other").paused
    press(root, path, "Resume")
    assert not of(queue, key).paused
    press(root, path, "Set share", share="2.5")
    press(root, path, "Set limit", limit="7")
    assert (of(queue, key).share, of(queue, key).limit) == (2.5, 7)
    form = next(f for f in look(root, path).forms if "Set limit" in f.buttons)
    root.post(form.action, form.fields | {"default": "1"})
    assert of(queue, key).limit is None
    form = next(f for f in look(root, path).forms if "Set share" in f.buttons)
    root.post(form.action, form.fields | {"default": "1"})
    assert of(queue, key).share == 1
    [ask] = [url for label, url in look(root, path).links.items() if label.startswith("Purge (2)")]
    assert "This removes 2 jobs of partition" in look(root, ask).text
    press(root, ask, "Purge 2 jobs")
    assert not queue.jobs("ready", partition_key=key).jobs
    assert queue.depth().ready == 1
    assert len(logged()) == 7


def test_a_partition_is_paused_from_the_table(queue: Queue, root: Client) -> None:
    put(queue.engine, "acme")

    page = press(root, address("detail", queue.name), "Pause partition")

    assert f"Partition acme of queue {queue.name} is paused" in messages(page)
    assert of(queue, "acme").paused
    press(root, address("detail", queue.name), "Resume partition")
    assert not of(queue, "acme").paused


@pytest.mark.parametrize(
    ("verb", "entered", "told"),
    [
        ("share", "0", "share: expected a finite number from"),
        ("share", "nan", "share: expected a finite number from"),
        ("share", "many", "share: expected a number, got many"),
        ("share", "9" * 400, "share: expected a finite number from"),
        ("limit", "0", "limit: expected a whole number from 1"),
        ("limit", "1.5", "limit: expected a whole number, got 1.5"),
        ("limit", "9" * 5000, "limit: expected a whole number, got 9999"),
    ],
)
def test_what_cannot_be_set_is_told(
    settings: Any, root: Client, verb: str, entered: str, told: str
) -> None:
    queue = declare(settings, "sqlite")
    queue.set_partition("acme", share=3, limit=4)
    path = partition(queue, "acme")

    page = press(root, path, f"Set {verb}", **{verb: entered})

    assert told in messages(page)
    assert (of(queue, "acme").share, of(queue, "acme").limit) == (3, 4)
    assert logged() == []


def test_a_setting_of_no_partition_is_refused(settings: Any, root: Client) -> None:
    queue = declare(settings, "sqlite")

    for fields in ({"share": "3"}, {"share": "3", "partition": "\n"}):
        response = root.post(address("do", queue.name, "share"), fields)
        assert "Nothing was done: partition" in look(root, response.headers["Location"]).text
    assert queue.partitions() == []


# -- jobs --------------------------------------------------------------------------


def test_chosen_jobs_are_cancelled(queue: Queue, root: Client) -> None:
    first, second, third = put(queue.engine, "acme", "acme", "acme")
    [leased] = take(queue.engine)
    path = address("jobs", queue.name, "ready")

    page = press(root, path, "Cancel the chosen jobs", id=[leased.id, second, "gone", second])

    assert leased.id == first
    assert "1 job cancelled; 2 did not wait any more" in page.text
    assert [one.id for one in queue.jobs("ready").jobs] == [third]
    assert logged() == [f"Cancelled 1 job: {second}."]


def test_one_job_is_cancelled_from_its_page(queue: Queue, root: Client) -> None:
    [job_id] = put(queue.engine, "acme", delay=3600)

    look(root, address("job", queue.name, job_id))
    response = root.post(address("do", queue.name, "cancel"), {"id": job_id})

    assert response.headers["Location"] == address("detail", queue.name)
    assert queue.job(job_id) is None


def test_one_dead_letter_is_requeued_from_its_page(queue: Queue, root: Client) -> None:
    dead(queue, 2)
    job_id = FailedJob.objects.values_list("id", flat=True)[0]

    page = press(root, address("job", queue.name, job_id), "Requeue")

    assert "1 job requeued." in page.text
    assert "ready" in page.text
    assert logged() == [f"Requeued 1 job: {job_id}."]
    assert FailedJob.objects.count() == 1


# -- who may -----------------------------------------------------------------------

NEEDED = {
    "pause": "steer_queues",
    "resume": "steer_queues",
    "reclaim": "steer_queues",
    "share": "steer_queues",
    "limit": "steer_queues",
    "requeue": "requeue_jobs",
    "cancel": "purge_queues",
    "purge": "purge_queues",
}
ALL = {VIEW, "see_payloads", "steer_queues", "requeue_jobs", "purge_queues"}


def verb_path(queue: Queue, verb: str) -> str:
    return address("purge", queue.name) if verb == "purge" else address("do", queue.name, verb)


def test_every_verb_is_tried_here() -> None:
    assert set(NEEDED) == {*queue_actions.VERBS, "purge"}


@pytest.mark.parametrize("verb", NEEDED)
def test_each_change_needs_its_permission_and_a_post(
    settings: Any, staff: Callable[..., Client], verb: str
) -> None:
    queue = declare(settings, "sqlite")
    dead(queue, 1)
    ids = put(queue.engine, "acme")
    fields = {"partition": "acme", "share": "5", "limit": "5", "id": ids, "seen": "1"}
    before = (queue.depth().ready, queue.partitions())
    path = verb_path(queue, verb)

    for lacking in (NEEDED[verb], VIEW):
        assert staff(*(ALL - {lacking})).post(path, fields).status_code == 403
    assert staff(*ALL, is_staff=False).post(path, fields).status_code == 302
    assert staff(*ALL, is_active=False).post(path, fields).status_code == 302
    assert Client().post(path, fields).status_code == 302
    permitted = staff(NEEDED[verb], VIEW)
    for method in (permitted.get, permitted.put, permitted.delete):
        assert method(path).status_code == (200 if verb == "purge" else 302)
    assert (queue.depth().ready, queue.partitions()) == before
    assert logged() == []

    assert permitted.post(path, fields).status_code == 302
    if verb == "pause":
        assert of(queue, "acme").paused
    assert LogEntry.objects.count() == (verb not in ("resume", "reclaim", "requeue"))


@pytest.mark.parametrize("verb", NEEDED)
def test_a_page_of_another_site_changes_nothing(settings: Any, db: None, verb: str) -> None:
    queue = declare(settings, "sqlite")
    put(queue.engine, "acme")
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_superuser("root"))

    response = client.post(verb_path(queue, verb), {"partition": "acme", "share": 9})

    assert response.status_code == 403
    assert (of(queue, "acme").ready, of(queue, "acme").share) == (1, 1)
    form = look(client, address("detail", queue.name)).buttons[f"Pause queue {queue.name}"]
    assert client.post(form.action, form.fields).status_code == 302
    assert queue.depth().paused


def test_buttons_are_for_those_who_may_press_them(
    queue: Queue, staff: Callable[..., Client]
) -> None:
    dead(queue, 1)
    put(queue.engine, "acme")

    def labels(*permissions: str) -> set[str]:
        page = look(staff(VIEW, *permissions), address("detail", queue.name))
        return {label.split(" ")[0] for label in [*page.buttons, *page.links]} & {
            *("Pause", "Reclaim", "Requeue", "Purge"),
        }

    assert labels() == set()
    assert labels("steer_queues") == {"Pause", "Reclaim"}
    assert labels("requeue_jobs") == {"Requeue"}
    assert labels("purge_queues") == {"Purge"}


def test_nobody_is_led_to_another_site(settings: Any, root: Client) -> None:
    queue = declare(settings, "sqlite")

    for elsewhere in ("https://evil.example/", "//evil.example", "javascript:alert(1)", "x" * 3000):
        response = root.post(address("do", queue.name, "pause"), {"next": elsewhere})
        assert response.headers["Location"] == address("detail", queue.name)


def test_a_store_that_does_not_answer_is_told(settings: Any, root: Client) -> None:
    settings.VTRR = {"QUEUES": {"broken": {"ENGINE": "redis", "URL": "redis://127.0.0.1:1/0"}}}
    FailedJob.objects.create(
        queue="broken",
        id="x",
        **dict.fromkeys(("created_at", "ready_at", "failed_at"), datetime.now(UTC)),
    )

    for verb in NEEDED:
        path = address("purge", "broken") if verb == "purge" else address("do", "broken", verb)
        fields = {"partition": "acme", "share": "1", "limit": "1", "id": "x"}
        page = look(root, root.post(path, fields).headers["Location"])
        assert "Nothing was done: Redis did not answer" in page.text, verb
    assert logged() == []


def test_a_verb_that_is_none_is_not_found(settings: Any, root: Client) -> None:
    queue = declare(settings, "sqlite")

    assert root.post(address("do", queue.name, "explode")).status_code == 404
    assert root.post(address("do", "no-such-queue", "pause")).status_code == 404


def test_the_log_of_a_queue_tells_who_did_what(settings: Any, root: Client) -> None:
    queue = declare(settings, "sqlite")
    put(queue.engine, "acme")
    press(root, address("detail", queue.name), "Pause queue")
    press(root, address("detail", queue.name), "Pause partition")

    page = look(root, address("detail", queue.name))
    told = look(root, page.links["Who did what"])

    assert "Paused." in told.text
    assert "Paused (partition acme)." in messages(told)
    [entry] = {one.get_admin_url() for one in LogEntry.objects.all()}
    response = root.get(entry)
    assert response.headers["Location"] == address("detail", queue.name)
