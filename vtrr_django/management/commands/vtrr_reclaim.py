"""``vtrr_reclaim``: bring back the jobs of workers that died, from cron for example."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from vtrr_django.exceptions import so_far
from vtrr_django.management.commands._base import (
    PRUNED,
    EachQueue,
    QueueCommand,
    add_queues_argument,
    chosen_queues,
    count,
    pruned,
)
from vtrr_django.queue import Queue


class Command(QueueCommand):
    """Do once what every worker does all the time."""

    help = (
        "Bring back jobs whose lease ran out and jobs that are due. Workers do this all the "
        "time; it is for when none runs."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        add_queues_argument(parser)
        parser.add_argument(
            "--prune", action="store_true", help="Trim the history afterwards, as vtrr_prune does."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Reclaim until no lease is left that ran out.

        Raises:
            CommandError: it failed for a queue; the others were seen to.
        """
        each = EachQueue(chosen_queues(options["queue"]))
        each.do(
            lambda queue: self.say(
                f"Queue {queue.name}: {count(_reclaim(queue), 'lease')} reclaimed.", options
            ),
            *("lease", "reclaimed"),
        )
        if options["prune"]:
            each.do(lambda queue: self.say(pruned(queue), options), *PRUNED)
        each.do(Queue.measure)  # last: without its figures a queue runs as well
        each.complain()


def _reclaim(queue: Queue) -> int:
    total = 0
    with so_far(lambda: total):
        while found := queue.reclaim_and_dispatch():
            total += found
        while queue.archive():
            pass
    return total
