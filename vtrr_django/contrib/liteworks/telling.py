"""Saying what a file holds, and what is worth knowing before it is taken over."""

from __future__ import annotations

from collections.abc import Iterator

from vtrr_django.contrib.liteworks.reading import Reader
from vtrr_django.contrib.liteworks.report import Fate, Report
from vtrr_django.contrib.liteworks.source import COMPLETED, FAILED, LiteworksFile
from vtrr_django.queue import Queue

CHANGED = (
    "The file has changed meanwhile, so somebody still uses it. What came in since was not looked "
    "at: stop the liteworks server and its workers, and run this again."
)


def about_file(source: LiteworksFile) -> Iterator[str]:
    """Say what is unusual about a file, and whether somebody is at it."""
    yield from source.remarks
    claims = source.claims()
    if claims.jobs:
        more = ", ..." if claims.jobs > len(claims.workers) else ""
        yield (
            f"{claims.jobs:,} waiting {_jobs(claims.jobs)} claimed (by "
            f"{', '.join(claims.workers)}{more}). The claims are not taken over. If these workers "
            "still run, stop them first, and the liteworks server: otherwise the jobs run twice."
        )
    if source.is_in_use():
        yield (
            f"{source.path.name}-wal is there: a liteworks server has the file open, or was "
            "killed. What it holds is taken over too."
        )


def about_rows(queue: Queue, report: Report, reader: Reader) -> Iterator[str]:
    """Say what taking these rows over means."""
    yield from report.left_out()
    for value, job_id in reader.renamed.items():
        yield f"Id {value!r} is unique in this file only, or no id here: it becomes {job_id!r}."
    if reader.without_msg_id:
        count = reader.without_msg_id
        yield (
            f"{count:,} waiting {_jobs(count)} taken over without msg_id, for an earlier one has "
            "the same, and would stand for them."
        )
    for (name, path), count in sorted(reader.names.unknown_fields.items()):
        yield f"{path} is no field of {name}, and is ignored when it runs: {count:,} rows have it."
    yield from _about_tasks(queue, report)
    yield from _about_retention(queue, report)


def _about_tasks(queue: Queue, report: Report) -> Iterator[str]:
    for name in report.task_names():
        if queue.resolve(name) is None:
            yield (
                f"This process knows no task or message {name!r} of queue {queue.name}. Jobs of it "
                "wait until a worker runs that does."
            )


def _about_retention(queue: Queue, report: Report) -> Iterator[str]:
    config = queue.config
    if config.completed_retention == 0:
        yield "COMPLETED_RETENTION is 0: completed jobs are not taken over."
    settings = {
        "COMPLETED_RETENTION": (COMPLETED, config.completed_retention),
        "FAILED_RETENTION": (FAILED, config.failed_retention),
    }
    for name, (table, keep) in settings.items():
        count = report.total(Fate.NEW, table)
        if keep and count > keep:
            yield (
                f"{name} keeps {keep:,}: workers and vtrr_prune will trim the oldest of the "
                f"{count:,} of {table}. Raise it first to keep them."
            )


def _jobs(count: int) -> str:
    return "job is" if count == 1 else "jobs are"
