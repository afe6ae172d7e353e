"""``vtrr_health``: whether queues are served, for people and for monitors."""

from __future__ import annotations

import json
import sys
from typing import Any

from django.core.management.base import CommandError, CommandParser

from vtrr_django.health import STATUSES, Finding, HealthReport, check_health
from vtrr_django.management.commands._base import (
    QueueCommand,
    add_queues_argument,
    chosen_queues,
)

REFUSED = STATUSES.index("critical")
"""Exit status where nothing could be checked: a monitor that is set up wrongly is no warning."""


class Command(QueueCommand):
    """Print how queues are, and end with a status that says the same."""

    help = (
        "Say whether queues are served: store, database, workers, thresholds, reclaim, beat. "
        "Ends with status 0 (ok), 1 (warning) or 2 (critical)."
    )
    # It finds out what is wrong by itself, and says that of all queues.
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        add_queues_argument(parser)
        parser.add_argument("--json", action="store_true", help="Print a JSON object.")

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Run the command.

        Raises:
            CommandError: there is no such queue; the exit status is that of "critical".
        """
        try:
            return super().execute(*args, **options)
        except CommandError as error:
            error.returncode = REFUSED
            raise

    def handle(self, *args: Any, **options: Any) -> None:
        """Check, print, and exit with the status of the worst finding."""
        names = options["queue"]
        report = check_health(None if names is None else chosen_queues(names))
        if options["json"]:
            self.stdout.write(json.dumps(report.as_dict(), indent=2))
        else:
            self.stdout.write(_told(report))
        status = STATUSES.index(report.status)
        if status:
            self.stdout.flush()
            sys.exit(status)


def _told(report: HealthReport) -> str:
    lines = [_line(finding) for finding in report.findings]
    for one in report.queues:
        lines += [f"queue {one.queue}: {one.status}", *map(_line, one.findings)]
    return "\n".join(lines)


def _line(finding: Finding) -> str:
    return f"  {finding.status:<8}  {finding.id:<8}  {finding.sentence}"
