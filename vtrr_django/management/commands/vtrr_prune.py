"""``vtrr_prune``: trim the history of finished jobs."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from vtrr_django.management.commands._base import (
    PRUNED,
    EachQueue,
    QueueCommand,
    add_queues_argument,
    chosen_queues,
    pruned,
)


class Command(QueueCommand):
    """Do once what every worker does each minute."""

    help = (
        "Remove completed jobs and dead letters beyond COMPLETED_RETENTION and FAILED_RETENTION, "
        "the oldest first, except what ended in the last two minutes. Workers do this each minute."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        add_queues_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Prune queue after queue.

        Raises:
            CommandError: it failed for a queue; the others were seen to.
        """
        each = EachQueue(chosen_queues(options["queue"]))
        each.do(lambda queue: self.say(pruned(queue), options), *PRUNED)
        each.complain()
