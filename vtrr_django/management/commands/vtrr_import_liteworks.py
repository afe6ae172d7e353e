"""``vtrr_import_liteworks``: take over the jobs in a liteworks file."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.module_loading import autodiscover_modules

from vtrr_django.contrib.liteworks.envelope import Envelope
from vtrr_django.contrib.liteworks.reading import Tenant
from vtrr_django.contrib.liteworks.report import Fate, Report
from vtrr_django.contrib.liteworks.source import open_file
from vtrr_django.contrib.liteworks.takeover import Choices, TakeOver
from vtrr_django.contrib.liteworks.telling import CHANGED, about_file, about_rows
from vtrr_django.domain.values import check_partition_key
from vtrr_django.management.commands._base import (
    QueueCommand,
    add_queue_argument,
    chosen_queue,
    count,
)
from vtrr_django.management.commands._table import table
from vtrr_django.queue import Queue

HEADS = ("table", "task", "rows", "to take over", "here already", "left out")


class Command(QueueCommand):
    """Look at a file and say what is missing here; with ``--apply``, take it over."""

    help = (
        "Take over the jobs, dead letters and completed jobs in a liteworks SQLite file. Without "
        "--apply it only says what it would do. The file is never changed; to run it again is "
        "safe, and takes over what is missing. Stop the liteworks server and its workers first."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        parser.add_argument("file", metavar="FILE.db", help="liteworks' file of one queue.")
        add_queue_argument(parser)
        parser.add_argument(
            "--apply", action="store_true", help="Do it. Default: a dry run, which writes nothing."
        )
        what = parser.add_argument_group("what the jobs are, where payloads do not say")
        what.add_argument("--task", metavar="NAME", help="All are of this message or task.")
        what.add_argument(
            "--map",
            action="append",
            default=[],
            metavar="TYPE=NAME",
            help="Jobs of this type of the file are of that message or task; may be repeated. "
            "Default: the message or task of the same name, without its module.",
        )
        what.add_argument(
            "--type-key", metavar="KEY", help="Key of a payload that names its message type."
        )
        what.add_argument(
            "--data-key", metavar="KEY", help="Key of a payload that holds the message's fields."
        )
        whose = parser.add_mutually_exclusive_group()
        whose.add_argument(
            "--partition", default="", metavar="KEY", help='Partition of all jobs. Default: "".'
        )
        whose.add_argument(
            "--partition-field",
            metavar="FIELD",
            help="Field of the message that names the job's partition, such as user.id.",
        )
        parser.add_argument(
            "--source",
            metavar="NAME",
            help="Name of the liteworks queue, put before ids that are mere numbers. Default: the "
            "file's name without .db.",
        )
        parser.add_argument(
            "--prefix-ids",
            action="store_true",
            help="Put the name of --source before all ids, not only mere numbers. Give it again "
            "whenever the file is taken over again.",
        )
        parser.add_argument(
            "--skip-unreadable",
            action="store_true",
            help="Leave out rows that cannot be understood. Default: they keep all from being "
            "taken over.",
        )
        parser.add_argument(
            "--again",
            action="store_true",
            help="Take over also what was before and is not here any more: because it was purged, "
            "or has run and is gone from the history.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Look; then, if told to, take over."""
        queue, choices = chosen_queue(options["queue"]), _choices(options)
        autodiscover_modules("tasks")
        with open_file(options["file"]) as source:
            take_over = TakeOver(queue, source, choices)
            for remark in about_file(source):
                self._warn(remark, options)
            report = take_over.look()
            self.say(_table(report), options)
            for remark in about_rows(queue, report, take_over.reader):
                self._warn(remark, options)
            if report.problems and not options["skip_unreadable"]:
                raise CommandError(_refusal(report))
            if options["apply"]:
                report = take_over.apply()
            self.say(_told(queue, report, applied=options["apply"]), options)
            if source.has_changed():
                self._warn(CHANGED, options)
        if report.problems:
            self._warn(_problems(report), options)

    def _warn(self, text: str, options: dict[str, Any]) -> None:
        if options["verbosity"] >= 1:
            self.stderr.write(self.style.WARNING(text))


def _choices(options: dict[str, Any]) -> Choices:
    mapping = {}
    for given in options["map"]:
        type_name, equals, name = given.partition("=")
        if not (type_name and equals and name):
            raise CommandError(f"--map: expected TYPE=NAME, got {given!r}")
        mapping[type_name] = name
    if options["task"] and mapping:
        raise CommandError("expected --task, for all jobs, or --map, got both")
    key = check_partition_key(options["partition"], "--partition", required=False)
    return Choices(
        task=options["task"],
        mapping=mapping,
        envelope=Envelope(options["type_key"], options["data_key"]),
        tenant=Tenant(key=key, field=options["partition_field"]),
        source=options["source"],
        prefix_ids=options["prefix_ids"],
        again=options["again"],
    )


def _table(report: Report) -> str:
    return table(HEADS, report.lines()) if report.lines() else "The file holds no jobs."


def _told(queue: Queue, report: Report, *, applied: bool) -> str:
    if applied:
        return f"Taken over into queue {queue.name}: {report.summary()}."
    return (
        f"Dry run, nothing was written. To take over into queue {queue.name}: {report.summary()}. "
        "Run it again with --apply to do so."
    )


def _problems(report: Report) -> str:
    refused, more = report.total(Fate.REFUSED), ""
    if refused > len(report.problems):
        more = f"\n  ... and {refused - len(report.problems):,} more"
    return f"{count(refused, 'row')} left out:\n  " + "\n  ".join(report.problems) + more


def _refusal(report: Report) -> str:
    return (
        "expected to understand every row; nothing was written. Give the options that the "
        "messages name, or --skip-unreadable to leave these rows in the file and take over the "
        f"others.\n{_problems(report)}"
    )
