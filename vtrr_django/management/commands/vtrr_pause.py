"""``vtrr_pause``: stop giving out jobs."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from vtrr_django.management.commands._base import (
    QueueCommand,
    add_partition_argument,
    add_queue_argument,
    chosen_queue,
    of_partition,
    what_waits,
)


class Command(QueueCommand):
    """Pause a queue or one partition of it."""

    did = "paused"
    help = (
        "Stop giving out jobs of a queue, or of one partition. Nothing is lost, and jobs that "
        "run already go on; vtrr_resume undoes it."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        add_queue_argument(parser)
        add_partition_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Pause, and say what that holds up."""
        queue, key = chosen_queue(options["queue"]), options["partition"]
        queue.pause(key)
        self.say(f"Paused {of_partition(key, queue)}: {what_waits(queue, key)}.", options)
