"""The dashboard: what it shows, and that it does what it says, on both stores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.browser.board import REFUSED, Board
from tests.browser.conftest import SECRET
from tests.browser.data import complete, fail, measure_now, one_store, put, take, waiting
from tests.browser.site.tasks import SHIP
from tests.commands.manage import manage
from tests.races.waiting import until
from vtrr_django.figures.keeping import LONGEST_LINES, MINUTE, floor
from vtrr_django.models import FailedJob, QueueSample

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.browser.pages import Browser
    from vtrr_django.queue import Queue

SITE = {"DJANGO_SETTINGS_MODULE": "tests.browser.site.settings"}
WRONG = "sésame ☃"


# -- the secret --------------------------------------------------------------------


def test_it_asks_for_the_secret_before_it_shows_anything(board: Board, browser: Browser) -> None:
    board.open()

    assert board.asks
    assert not board.shown
    assert board.focused.get_attribute("id") == "secret"
    assert "orders" not in browser.source
    assert board.asked == []


def test_a_wrong_secret_is_said_to_be_wrong(board: Board, browser: Browser) -> None:
    browser.allow(REFUSED)
    board.open()

    board.give(WRONG, keep=True)

    until(lambda: browser.texts("#secret-error") == ["This is not the secret."], "the refusal")
    assert board.error("Secret") == "This is not the secret."
    assert board.focused.get_attribute("id") == "secret"
    assert not board.shown
    assert WRONG not in board.kept
    assert "orders" not in browser.source

    board.give("")
    assert board.error("Secret") == "Enter the secret."

    board.give(SECRET)
    board.wait_until_shown()
    assert [row["Queue"] for row in board.rows("list")] == ["ordersorm", "uploadsredis"]
    assert browser.texts("h1") == ["Queues"]
    assert board.focused.tag_name == "h1"


def test_the_secret_is_kept_only_if_one_says_so(board: Board, browser: Browser) -> None:
    board.enter("orders")
    assert SECRET not in "".join([*board.asked, browser.driver.current_url, browser.source])
    browser.driver.refresh()
    assert board.asks
    assert SECRET not in board.kept

    board.give(SECRET, keep=True)
    board.wait_until_shown()
    assert SECRET in board.kept
    browser.driver.refresh()
    board.wait_until_shown()
    assert browser.texts("h1") == ["Queue orders"]

    browser.leave(lambda: board.press("Forget the secret"))
    assert board.asks
    assert SECRET not in board.kept


def test_a_secret_that_is_not_good_any_more_is_asked_for(board: Board, browser: Browser) -> None:
    browser.allow(REFUSED)
    board.enter("orders", keep=True)
    board.press("Enqueue a job…")

    browser.ask("api.secret = 'of yesterday'")

    until(lambda: board.asks, "to be asked")
    assert board.error("Secret") == "This secret is not accepted any more."
    assert not browser.all("dialog[open]")
    board.give(SECRET)
    board.wait_until_shown()
    assert browser.texts("h1") == ["Queue orders"]


# -- one's session at the admin ------------------------------------------------------


@one_store
def test_staff_need_no_secret_and_may_what_their_rights_say(
    board: Board, browser: Browser, person: Callable[..., Any], queue: Queue
) -> None:
    browser.sign_in(person("boss", superuser=True))
    board.open(queue.name)
    board.wait_until_shown()
    board.press("Pause queue")
    board.wait_for(f"Queue {queue.name} is paused.")
    assert queue.depth().paused

    browser.allow("403 (Forbidden)")
    browser.sign_in(person("watcher", "view_queuestate"))
    board.open(queue.name)
    board.wait_until_shown()
    board.press("Resume queue")
    board.wait_for("Expected a user with the permission vtrr_django.steer_queues.")
    assert queue.depth().paused

    browser.sign_in(person("nobody"))
    board.open(queue.name)
    until(lambda: board.asks, "to be asked")
    assert "view_queuestate" in board.error("Secret")


# -- a job -------------------------------------------------------------------------


def test_a_job_is_enqueued_runs_fails_and_is_requeued(
    board: Board, browser: Browser, queue: Queue, vtrr: dict[str, Any], tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "broken").touch()
    board.enter()
    board.follow(queue.name)

    board.press("Enqueue a job…")
    assert board.focused.get_attribute("id") == "task"
    browser.fill("Task", SHIP)
    browser.fill("Named arguments, a JSON object", f'{{"folder": "{work}"}}')
    browser.fill("Partition key", "acme")
    browser.fill("Weight", "3")
    browser.fill("Priority", "-7")
    board.press("Enqueue")

    board.wait_for_facts(ready="1")
    [job] = waiting(queue)
    assert (job.task_name, job.partition_key, job.weight) == (SHIP, "acme", 3)
    # The figures may be there before the answer is.
    board.wait_for(f"Job {job.id} is enqueued.")
    until(lambda: board.focused.get_attribute("id") == "open-enqueue", "the dialog to be gone")
    until(lambda: "no worker" in browser.texts("#note")[0], "why it waits")

    with manage(tmp_path, "vtrr_worker", "--queue", queue.name, vtrr=vtrr, env=SITE):
        board.wait_for_facts(ready="0", leased="1", workers="1")
        (work / "go").touch()
        [failure] = board.wait_for_rows("failures", 1)
        assert failure["Job"] == job.id
        assert failure["Partition"] == "acme"
        assert "out of stock" in failure["Reason"]
        board.wait_for_facts(leased="0", failed="1")

        (work / "broken").unlink()
        board.press(f"Requeue job {job.id}")
        board.wait_for(f"Job \u2068{job.id}\u2069 is requeued.")
        [run] = board.wait_for_rows("runs", 1)

    assert run["Job"] == job.id
    assert run["Task"] == SHIP
    board.wait_for_facts(failed="0", completed="1")
    assert board.rows("failures") == []
    # Who pressed it with the keyboard is still near where it was.
    assert board.focused.get_attribute("id") == "failures-title"


def test_what_the_api_does_not_take_is_said_at_the_field(
    board: Board, browser: Browser, queue: Queue
) -> None:
    browser.allow("400 (Bad Request)")
    board.enter(queue.name)
    board.press("Enqueue a job…")
    fields = {
        "Task": ("", "send"),
        "Positional arguments, a JSON list": ('{"no": "list"}', "[1, 12345678901234567890]"),
        "Named arguments, a JSON object": ("{mistyped", '{"a": "</script>"}'),
        "Partition key": ("W" * 256, "acme"),
        "Weight": ("many", "1000"),
        "Priority": ("101", "100"),
        "Delay, seconds": ("-1", "3600.5"),
    }
    for label, (_, right) in fields.items():
        browser.fill(label, right)
    for label, (wrong, right) in fields.items():
        browser.fill(label, wrong)
        board.press("Enqueue")
        until(lambda: browser.all("[aria-invalid]"), "the error")
        assert "expected" in board.error(label)
        assert board.focused == browser.field(label)
        browser.fill(label, right)

    board.press("Enqueue")

    board.wait_for_facts(scheduled="1")
    [job] = waiting(queue, "scheduled")
    assert (job.weight, job.priority, job.partition_key) == (1000, 100, "acme")
    assert "12345678901234567890" in job.payload
    assert browser.all("[aria-invalid]") == []


@one_store
def test_an_answer_that_was_lost_does_not_make_two_jobs(
    board: Board, browser: Browser, queue: Queue
) -> None:
    board.enter(queue.name)
    board.press("Enqueue a job…")
    browser.fill("Task", "send")
    browser.ask(
        """
        const really = window.fetch;
        window.fetch = async (address, options) => {
          const answer = await really(address, options);
          if (options.method !== "POST") return answer;
          window.fetch = really;
          throw new TypeError("the line is cut");
        };
        """
    )

    board.press("Enqueue")
    until(lambda: "did not answer" in browser.texts("#enqueue-error")[0], "to be told")
    assert len(waiting(queue)) == 1
    board.press("Enqueue")

    board.wait_for(f"Job {waiting(queue)[0].id} is enqueued.")
    assert len(waiting(queue)) == 1
    board.press("Enqueue a job…")
    board.press("Enqueue")
    board.wait_for_facts(ready="2")


# -- steering ----------------------------------------------------------------------


def test_a_queue_and_a_partition_are_paused_and_resumed(
    board: Board, browser: Browser, queue: Queue
) -> None:
    put(queue, "acme", "globex", "globex")
    board.enter(queue.name)

    board.press("Pause queue")
    board.wait_for(f"Queue {queue.name} is paused.")
    assert queue.depth().paused
    until(lambda: browser.texts("#state") == ["paused"], "the state")
    assert browser.texts("#note") == ["Paused: its jobs wait until somebody resumes it."]
    board.press("Resume queue")
    board.wait_for(f"Queue {queue.name} is resumed.")
    assert not queue.depth().paused

    board.press("Pause partition acme")
    board.wait_for("Partition \u2068acme\u2069 is paused.")
    assert [one.paused for one in queue.partitions("acme")] == [True]
    until(lambda: "Resume partition acme" in browser.controls, "the button to change")
    assert board.focused.accessible_name == "Resume partition acme"
    board.press("Resume partition acme")
    board.wait_for("Partition \u2068acme\u2069 is resumed.")
    assert [one.paused for one in queue.partitions("acme")] == [False]
    assert {row["Partition"]: row["Ready"] for row in board.rows("partitions")} == {
        "acme": "1",
        "globex": "2",
    }


def test_one_partition_is_found_among_many(board: Board, browser: Browser, queue: Queue) -> None:
    put(queue, *(f"tenant {number:03}" for number in range(100)), *["first"] * 2)
    board.enter(queue.name)
    assert len(board.rows("partitions")) == 100
    assert "100 with most ready jobs" in browser.texts("#partitions-about")[0]

    browser.fill("Partition key, in full", "tenant 042")
    board.press("Find")
    assert board.wait_for_rows("partitions", 1)[0]["Partition"] == "tenant 042"

    browser.fill("Partition key, in full", "nobody")
    board.press("Find")
    board.wait_for_rows("partitions", 0)
    assert "no jobs" in browser.texts("#partitions-about")[0]


def test_all_dead_letters_are_requeued_once_one_is_sure(
    board: Board, browser: Browser, queue: Queue
) -> None:
    letters = fail(queue, "acme", "acme", "globex")
    board.enter(queue.name)

    board.press("Requeue all failed (3)…")
    assert f"Requeue 3 dead letters of queue {queue.name}?" in browser.texts("dialog[open] h2")
    board.press("Cancel")
    assert not browser.all("dialog[open]")
    assert queue.stats()["failed"] == 3

    board.press("Requeue all failed (3)…")
    board.press("Requeue 3 dead letters")
    board.wait_for(f"Queue {queue.name}: 3 dead letters requeued.")
    assert sorted(job.id for job in waiting(queue)) == sorted(letters)
    board.wait_for_rows("failures", 0)
    assert browser.texts("#failures-about") == ["Nothing failed."]


@one_store
def test_more_dead_letters_than_one_request_takes_are_requeued(board: Board, queue: Queue) -> None:
    fail(queue, "acme")
    [letter] = FailedJob.objects.all()
    count = 2_001
    FailedJob.objects.all().delete()
    copies = []
    for number in range(count):
        fields = {one.attname: getattr(letter, one.attname) for one in letter._meta.fields}
        del fields[letter._meta.pk.attname]
        copies.append(FailedJob(**fields | {"id": f"letter-{number}"}))
    FailedJob.objects.bulk_create(copies)
    board.enter(queue.name)

    board.press("Requeue all failed (2,001)…")
    board.press("Requeue 2,001 dead letters")

    board.wait_for(f"Queue {queue.name}: 2,001 dead letters requeued.")
    assert queue.depth().ready == count


# -- finding one's way -------------------------------------------------------------


def test_pages_have_addresses_and_one_goes_back(board: Board, browser: Browser) -> None:
    board.enter()
    assert browser.driver.title == "Queues · vtrr"
    board.follow("uploads")
    assert browser.texts("h1") == ["Queue uploads"]
    assert browser.driver.title == "Queue uploads · vtrr"
    assert board.focused.tag_name == "h1"

    browser.driver.back()
    until(lambda: board.shown and browser.texts("h1") == ["Queues"], "the list")
    browser.driver.forward()
    until(lambda: board.shown and browser.texts("h1") == ["Queue uploads"], "the queue")
    board.press("All queues")
    until(lambda: board.shown and browser.texts("h1") == ["Queues"], "the list")


def test_a_queue_that_is_not_there_is_said_to_be_unknown(board: Board, browser: Browser) -> None:
    browser.allow("404 (Not Found)")
    board.open("upload")
    board.give(SECRET)

    until(lambda: "Expected a queue declared" in board.trouble, lambda: board.trouble)
    assert not board.shown
    board.press("All queues")
    board.wait_until_shown()
    assert board.trouble == ""


def test_what_happened_is_told(board: Board, browser: Browser, queue: Queue) -> None:
    queue.recorder.take()  # what other tests counted in this process
    complete(queue, "acme", "globex")
    fail(queue, "initech")
    put(queue, "acme", "acme", "globex", "initech")
    put(queue, "acme", delay=3600)
    take(queue, 1)
    measure_now(queue)
    board.enter()

    [row] = [one for one in board.rows("list") if one["Queue"].startswith(queue.name)]
    numbers = {key: row[key] for key in ("Ready", "Scheduled", "Leased", "Failed", "Workers")}
    expected = dict(zip(numbers, "31111", strict=True))
    assert numbers == expected
    assert row["Completed"] == "2"
    assert "2" in browser.texts(".hour .n")
    [_] = [one for one in browser.all(".spark") if "2 completed" in one.accessible_name]

    board.follow(queue.name)
    assert board.facts.items() >= {"ready": "3", "completed": "2", "workers": "1"}.items()
    ended, lines = browser.all("svg.columns")
    assert ended.aria_role in {"img", "image"}
    assert "2 completed and 1 failed" in ended.accessible_name
    assert "Jobs that wait" in lines.accessible_name
    assert set(browser.texts("#waiting .legend li")) == {"acme", "globex", "initech"}
    for summary in browser.all("summary"):
        summary.click()
    until(lambda: len(browser.all("#waiting tbody tr")) == 61, "the numbers")
    # Not always in the last one: another minute may have begun meanwhile.
    rows = [row.split()[1:] for row in browser.texts("#waiting tbody tr")]
    assert [row for row in rows if row != ["–"] * 3]


@one_store
def test_a_line_that_was_too_short_to_be_kept_is_not_known_to_be_empty(
    board: Board, browser: Browser, queue: Queue
) -> None:
    others = {f"o{n}": 50 for n in range(LONGEST_LINES)}
    now = queue.figures.totals().now
    for ago, lines in ((5, {"acme": 9_000}), (4, others)):
        QueueSample.objects.create(
            queue=queue.name,
            at=floor(now - ago * MINUTE, MINUTE),
            ready=sum(lines.values()),
            waiting=json.dumps(lines),
        )
    board.enter()
    board.follow(queue.name)
    for summary in browser.all("summary"):
        summary.click()
    until(lambda: len(browser.all("#waiting tbody tr")) == 61, "the numbers")

    rows = [row.split()[1:] for row in browser.texts("#waiting tbody tr")]
    [known] = [index for index, row in enumerate(rows) if "9,000" in row]
    acme = rows[known].index("9,000")
    assert rows[known + 1][acme] == "–"
    assert rows[known + 1].count("50") == 5
    assert rows[known][:acme] + rows[known][acme + 1 :] == ["0"] * 6
