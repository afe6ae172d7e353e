"""``vtrr_purge``: remove all jobs that wait."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from vtrr_django.management.commands._base import (
    QueueCommand,
    add_partition_argument,
    add_queue_argument,
    chosen_queue,
    count,
    of_partition,
    waiting,
)


class Command(QueueCommand):
    """Purge a queue or one partition of it, once somebody has agreed to it."""

    what, did = "job", "removed"
    help = (
        "Remove every job that waits, of a queue or of one partition, for good. Jobs that run "
        "already go on to their end; dead letters stay."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        add_queue_argument(parser)
        add_partition_argument(parser)
        parser.add_argument(
            "--noinput",
            "--no-input",
            action="store_false",
            dest="interactive",
            help="Do not ask.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Ask, purge, and say how many are gone."""
        queue, key = chosen_queue(options["queue"]), options["partition"]
        if options["interactive"]:
            ready, scheduled = waiting(queue, key)
            if not ready + scheduled:
                self.say(f"Nothing waits in {of_partition(key, queue)}.", options)
                return
            self._ask(
                f"This removes {count(ready + scheduled, 'job')} ({ready:,} ready, "
                f"{scheduled:,} scheduled) of {of_partition(key, queue)}, and what comes in "
                "meanwhile."
            )
        removed = queue.purge(key)
        self.say(f"Removed {count(removed, 'job')} from {of_partition(key, queue)}.", options)

    def _ask(self, what: str) -> None:
        self.stdout.write(what)
        try:
            answer = input("Type 'yes' to go on: ")
        except EOFError:
            raise CommandError("nobody answered; pass --no-input to purge without asking") from None
        if answer.strip().lower() != "yes":
            raise CommandError("not purged")
