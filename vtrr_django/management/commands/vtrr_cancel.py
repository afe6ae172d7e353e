"""``vtrr_cancel``: remove jobs that wait, by id."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from vtrr_django.management.commands._base import (
    QueueCommand,
    add_queue_argument,
    chosen_queue,
    count,
)


class Command(QueueCommand):
    """Cancel jobs by id; ``vtrr_purge`` is for whole partitions."""

    what, did = "job", "cancelled"
    help = "Remove jobs that wait. Jobs that run already go on to their end."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        parser.add_argument("ids", nargs="+", metavar="ID", help="A job's id.")
        add_queue_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Cancel, and say how many."""
        queue = chosen_queue(options["queue"])
        done = queue.cancel(options["ids"])
        self.say(f"Cancelled {count(len(done), 'job')} of queue {queue.name}.", options)
        missed = sorted(set(options["ids"]) - set(done))
        if missed:
            raise CommandError(
                f"expected ids of jobs that wait in queue {queue.name}, got others too (running, "
                f"ended or unknown): {', '.join(missed)}"
            )
