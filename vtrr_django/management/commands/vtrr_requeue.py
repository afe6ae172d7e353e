"""``vtrr_requeue``: bring dead letters back to life."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from vtrr_django.exceptions import so_far
from vtrr_django.management.commands._base import (
    QueueCommand,
    add_queue_argument,
    chosen_queue,
    count,
)
from vtrr_django.queue import Queue

BATCH = 1000


class Command(QueueCommand):
    """Requeue dead letters, by id or all of them."""

    what, did = "job", "requeued"
    help = "Bring dead letters back with a fresh budget of attempts."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        parser.add_argument("ids", nargs="*", metavar="ID", help="A dead letter's job id.")
        add_queue_argument(parser)
        parser.add_argument("--all", action="store_true", help="All of them, the oldest first.")
        parser.add_argument(
            "--limit", type=int, metavar="N", help="With --all: no more than the N oldest."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Requeue, and say how many."""
        ids, limit = options["ids"], options["limit"]
        if bool(ids) == options["all"]:
            raise CommandError("expected ids of dead letters or --all, got both or neither")
        if limit is not None and (ids or limit < 1):
            raise CommandError(f"--limit: expected 1 or more, together with --all, got {limit}")
        queue = chosen_queue(options["queue"])
        done = queue.requeue(ids) if ids else _requeue_all(queue, limit)
        self.say(f"Requeued {count(len(done), 'job')} of queue {queue.name}.", options)
        missed = sorted(set(ids) - set(done))
        if missed:
            raise CommandError(
                f"expected ids of dead letters of queue {queue.name}, got others too: "
                f"{', '.join(missed)}"
            )


def _requeue_all(queue: Queue, limit: int | None) -> list[str]:
    # No more than are dead now: a job that fails again at once is not brought back again.
    left = queue.stats()["failed"] if limit is None else limit
    done: list[str] = []
    with so_far(lambda: len(done)):
        while left > len(done) and (more := queue.requeue(limit=min(BATCH, left - len(done)))):
            done += more
    return done
