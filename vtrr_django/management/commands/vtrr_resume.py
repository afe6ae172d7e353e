"""``vtrr_resume``: give out jobs again."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from django.core.management.base import CommandParser

from vtrr_django.exceptions import StoreUnavailable
from vtrr_django.management.commands._base import (
    QueueCommand,
    add_partition_argument,
    add_queue_argument,
    chosen_queue,
    of_partition,
    what_waits,
)


class Command(QueueCommand):
    """Undo ``vtrr_pause``."""

    did = "resumed"
    help = (
        "Give out jobs of a queue, or of one partition, again. A partition that was paused by "
        "itself stays paused when its queue is resumed."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        add_queue_argument(parser)
        add_partition_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Resume, and say what may run now; or what still keeps it from running."""
        queue, key = chosen_queue(options["queue"]), options["partition"]
        queue.resume(key)
        self.say(f"Resumed {of_partition(key, queue)}: {what_waits(queue, key)}.", options)
        with suppress(StoreUnavailable):  # it is resumed, whatever becomes of this look
            if key is not None and queue.stats()["paused"]:
                self.say(f"Queue {queue.name} itself is paused: vtrr_resume it, too.", options)
