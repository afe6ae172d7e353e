"""``vtrr_share``: see or set what a partition is due."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from vtrr_django.exceptions import so_far
from vtrr_django.management.commands._base import (
    QueueCommand,
    add_partition_argument,
    add_queue_argument,
    chosen_queue,
    in_force,
)


class Command(QueueCommand):
    """Set a partition's share and limit, and print what is in force."""

    did = "set"
    help = (
        "Print a partition's share and in-flight limit; set them first, if told to. Jobs that "
        "wait already obey the new ones."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        add_queue_argument(parser)
        add_partition_argument(parser, required=True)
        share = parser.add_mutually_exclusive_group()
        share.add_argument(
            "--share",
            type=float,
            metavar="X",
            help="What the partition is due, relative to the others; most have 1.",
        )
        share.add_argument("--unset-share", action="store_true", help="Back to what SHARES says.")
        limit = parser.add_mutually_exclusive_group()
        limit.add_argument(
            "--limit", type=int, metavar="N", help="Most jobs of it that run at once."
        )
        limit.add_argument(
            "--unset-limit", action="store_true", help="Back to what PARTITION_LIMIT says."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Set what was given; print what is in force now."""
        queue, key = chosen_queue(options["queue"]), options["partition"]
        given = {
            name: None if options[f"unset_{name}"] else options[name]
            for name in ("share", "limit")
            if options[f"unset_{name}"] or options[name] is not None
        }
        if given:
            queue.set_partition(key, **given)
        with so_far(lambda: 1 if given else 0):
            self.stdout.write(in_force(queue, key))
