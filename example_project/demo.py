"""Two tenants upload real files at the same time; see how long each waits: ``make demo``.

Web server and worker are real processes on a fresh SQLite file; the files go over HTTP
through the sign-in and the upload form. Everything is removed at the end. With
``VTRR_ENGINE=redis make demo`` the jobs are in a Redis of its own and Celery runs them.

The exit status is 0 only if the small tenant was served as the fairness bound promises.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from django.apps import apps
from django.contrib.auth import get_user_model
from django.core.management import CommandError

from example_project import environment, fairness_report, site_processes
from example_project.accounts import BIG_TENANT, OPERATOR, SMALL_TENANT
from example_project.browser import Browser, File
from example_project.processes import (
    DeadlinePassed,
    ProcessEnded,
    Processes,
    signals_end_this_process,
    time_limit,
)
from example_project.sample_files import sample_files
from vtrr_django import get_queue

POSTS = 4
OPEN_STATES = ("waiting", "processing")


class DemoFailed(Exception):
    """The demo did not show what it should."""


EXPECTED_ERRORS = (CommandError, DemoFailed, ProcessEnded, DeadlinePassed, OSError)


def main(argv: Sequence[str] | None = None) -> int:
    options = _parse(argv)
    with signals_end_this_process(), _data_dir(keep=options.keep) as data_dir:
        log_dir = data_dir / "logs"
        log_dir.mkdir()
        with Processes({}, log_dir=log_dir) as processes:
            try:
                with time_limit(options.deadline):
                    _run(options, data_dir, processes)
            except KeyboardInterrupt:
                print("Stopped.", file=sys.stderr)
                return 130
            except Exception as error:
                processes.stop()
                print(f"\nThe demo failed: {error}\n{processes.tails()}", file=sys.stderr)
                if not isinstance(error, EXPECTED_ERRORS):
                    raise
                return 1
    return 0


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    # More processes have to start, which a busy machine takes its time for.
    deadline = 80.0 if environment.engine() == "redis" else 50.0
    parser = argparse.ArgumentParser(prog="python -m example_project.demo", description=__doc__)
    parser.add_argument("--big", type=int, default=320, help="files of the big tenant")
    parser.add_argument("--small", type=int, default=3, help="files of the small tenant")
    parser.add_argument("--workers", type=int, default=2, help="jobs at once")
    parser.add_argument("--deadline", type=float, default=deadline, help="seconds it may take")
    parser.add_argument("--keep", action="store_true", help="keep the database and the files")
    return parser.parse_args(argv)


@contextlib.contextmanager
def _data_dir(*, keep: bool) -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="vtrr-demo-"))
    try:
        yield path
    finally:
        if keep:
            print(f"\nKept: {path}")
        else:
            shutil.rmtree(path, ignore_errors=True)


def _run(options: argparse.Namespace, data_dir: Path, processes: Processes) -> None:
    _say("Creating a fresh SQLite database and two tenants")
    site_processes.prepare(processes, data_dir, _say, fresh=True)
    _say(f"Making {options.big + options.small} files: pictures and texts")
    big_files = sample_files("big", options.big)
    small_files = sample_files("small", options.small)

    _say(f"Starting a web server and a worker that runs {options.workers} jobs at once")
    address = site_processes.start(processes, data_dir, workers=options.workers)
    browsers = {account: Browser(address) for account in (BIG_TENANT, SMALL_TENANT, OPERATOR)}
    for account, browser in browsers.items():
        browser.sign_in(account.username, account.password)
    # The worker needs a moment to start. Nobody's wait should contain that moment.
    _warm_up(browsers[OPERATOR], options.workers, processes)

    big, small = browsers[BIG_TENANT], browsers[SMALL_TENANT]
    big_waiting = _upload(big, big_files, small, small_files)
    _say("Waiting for the jobs")
    for browser in (big, small):
        _wait_until_done(browser, processes)
    _check(big, options.big)
    _check(small, options.small)
    _wait_for_history(options.big + options.small, processes)
    processes.check()
    processes.stop()
    _report(options, big_waiting)


def _warm_up(browser: Browser, workers: int, processes: Processes) -> None:
    browser.upload(sample_files("warm-up", 2 * workers))
    _wait_until_done(browser, processes)


def _upload(
    big: Browser, big_files: Sequence[File], small: Browser, small_files: Sequence[File]
) -> int:
    """Post the files; return how many of the big tenant's wait when the small one's are in."""
    size = -(-len(big_files) // POSTS)
    for first in range(0, len(big_files), size):
        big.upload(big_files[first : first + size])
    small.upload(small_files)
    waiting = big.state()["counts"]["waiting"]
    _say(
        f"bigcorp has posted {len(big_files)} files, solo {len(small_files)} a moment later: "
        f"{waiting} of bigcorp's still wait"
    )
    return waiting


def _wait_until_done(browser: Browser, processes: Processes) -> None:
    while any(browser.state()["counts"][state] for state in OPEN_STATES):
        processes.check()
        time.sleep(0.2)


def _check(browser: Browser, expected: int) -> None:
    counts = browser.state()["counts"]
    if counts["done"] != expected or sum(counts.values()) != expected:
        raise DemoFailed(f"expected {expected} files to be done, got {counts}")


def _wait_for_history(expected: int, processes: Processes) -> None:
    """Wait until the tables have the end of every job; Redis hands it over a moment later."""
    queue = get_queue("uploads")
    while (found := len(_runs())) < expected:
        processes.check()
        queue.archive()
        time.sleep(0.1)
    if found != expected:
        raise DemoFailed(f"expected {expected} finished jobs, got {found}")


def _report(options: argparse.Namespace, big_waiting: int) -> None:
    runs = _runs()
    lines = fairness_report.compare(runs, options.workers)
    unicode = fairness_report.can_show_bars(sys.stdout.encoding)
    print("\nSeconds from a file's arrival to the start of its job:\n")
    print(fairness_report.table(lines))
    print(f"\n{fairness_report.picture(lines, unicode=unicode)}\n")
    print(
        "First-in first-out is computed from the same arrivals, the same measured run times\n"
        f"and the same number of workers ({options.workers})."
    )
    if not big_waiting:
        print("Nothing waited on this machine when the small tenant came: try --big 1000.")
    check_fairness(options, runs)


def check_fairness(options: argparse.Namespace, runs: Sequence[fairness_report.Run]) -> None:
    """Raise :class:`DemoFailed` if the small tenant was overtaken more often than it may be."""
    overtaken = fairness_report.overtaken(runs, SMALL_TENANT.username)
    most = fairness_report.most_overtaken(options.small, options.workers)
    if overtaken > most:
        raise DemoFailed(
            f"expected at most {most} jobs of the big tenant to start while the small one waited, "
            f"got {overtaken}"
        )
    print(
        f"While the small tenant waited, {overtaken} jobs of the big one began; the fairness bound "
        f"is {most}."
    )


def _runs() -> list[fairness_report.Run]:
    """Return the finished jobs of the two tenants by the queue's own times, as they arrived."""
    names = {
        str(user.pk): user.get_username()
        for user in get_user_model().objects.filter(
            username__in=[BIG_TENANT.username, SMALL_TENANT.username]
        )
    }
    # Not imported above: a model can be only once prepare() has set Django up.
    completed_job = apps.get_model("vtrr_django", "CompletedJob")
    jobs = completed_job.objects.filter(queue="uploads", partition_key__in=list(names))
    return [
        fairness_report.Run(
            tenant=names[job.partition_key],
            arrival=job.created_at.timestamp(),
            start=job.claimed_at.timestamp(),
            end=job.completed_at.timestamp(),
        )
        for job in jobs.order_by("created_at", "id")
    ]


def _say(text: str) -> None:
    print(f"{text} ...", flush=True)


if __name__ == "__main__":
    sys.exit(main())
