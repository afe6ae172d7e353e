"""``vtrr_reclaim``: bring back the jobs of workers that died, from cron for example."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from vtrr_django.management.commands._base import (
    QueueCommand,
    add_queues_argument,
    chosen_queues,
    count,
    pruned,
)


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
        """Reclaim until no lease is left that ran out."""
        queues = chosen_queues(options["queue"])
        for queue in queues:
            total = 0
            while found := queue.reclaim_and_dispatch():
                total += found
            while queue.archive():
                pass
            self.say(f"Queue {queue.name}: {count(total, 'lease')} reclaimed.", options)
            if options["prune"]:
                self.say(pruned(queue), options)
        for queue in queues:  # last: without its figures a queue runs as well
            queue.measure()
