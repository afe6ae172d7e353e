"""``vtrr_stats``: how many jobs wait, run and failed."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.core.serializers.json import DjangoJSONEncoder

from vtrr_django.connections import DjangoHooks
from vtrr_django.domain.durations import duration
from vtrr_django.domain.job import PartitionStats
from vtrr_django.management.commands._base import (
    QueueCommand,
    add_queues_argument,
    chosen_queues,
    shown,
)
from vtrr_django.management.commands._table import table
from vtrr_django.queue import Queue

DEFAULT_WATCH, LONGEST_WATCH = 2.0, 86_400
CLEAR = "\x1b[H\x1b[2J"

QUEUE_HEADS = (
    *("queue", "ready", "scheduled", "leased", "failed", "completed"),
    *("partitions waiting", "longest wait", "state"),
)
PARTITION_HEADS = (
    *("partition", "ready", "scheduled", "leased", "share", "limit", "longest wait", "state"),
)


class Command(QueueCommand):
    """Print the counts of queues, and of their partitions."""

    help = "Print how many jobs wait, run, failed and are completed."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        add_queues_argument(parser)
        parser.add_argument(
            "--partitions", action="store_true", help="Print each queue's partitions as well."
        )
        how = parser.add_mutually_exclusive_group()
        how.add_argument(
            "--json", action="store_true", help="Print a JSON list with all that is known."
        )
        how.add_argument(
            "--watch",
            nargs="?",
            type=float,
            const=DEFAULT_WATCH,
            metavar="SECONDS",
            help="Print again and again, until Ctrl-C. Default: every 2 seconds.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Print them once, or until Ctrl-C."""
        queues = chosen_queues(options["queue"])
        partitions, watch = options["partitions"], options["watch"]
        if options["json"]:
            known = [_everything(queue, partitions=partitions) for queue in queues]
            self.stdout.write(json.dumps(known, cls=DjangoJSONEncoder, indent=2))
        elif watch is None:
            self.stdout.write(_report(queues, partitions=partitions))
        elif not 0 < watch <= LONGEST_WATCH:
            raise CommandError(
                f"--watch: expected seconds from more than 0 to {LONGEST_WATCH:,}, got {watch:g}"
            )
        else:
            self._watch(queues, watch, partitions=partitions)

    def _watch(self, queues: Sequence[Queue], seconds: float, *, partitions: bool) -> None:
        clear = CLEAR if self.stdout.isatty() else ""
        hooks = DjangoHooks()
        try:
            while True:
                hooks.before_store()
                report = _report(queues, partitions=partitions)
                self.stdout.write(f"{clear}{time.strftime('%X')}\n{report}\n")
                self.stdout.flush()
                time.sleep(seconds)
        except KeyboardInterrupt:
            return


def _everything(queue: Queue, *, partitions: bool) -> dict[str, Any]:
    stats = queue.stats()
    if partitions:
        stats["partitions"] = [asdict(one) for one in queue.partitions()]
    return stats


def _report(queues: Sequence[Queue], *, partitions: bool) -> str:
    parts = [table(QUEUE_HEADS, [_queue_row(queue.stats()) for queue in queues])]
    if partitions:
        parts += [_partition_report(queue) for queue in queues]
    return "\n\n".join(parts)


def _queue_row(stats: dict[str, Any]) -> list[object]:
    return [
        stats["queue"],
        *(stats[key] for key in ("ready", "scheduled", "claimed", "failed", "completed")),
        stats["partitions_waiting"],
        _wait(stats["oldest_wait_seconds"] if stats["ready"] else None),
        "paused" if stats["paused"] else "",
    ]


def _partition_report(queue: Queue) -> str:
    found = queue.partitions()
    if not found:
        return f"Queue {queue.name} has no partitions with jobs or settings."
    return f"Queue {queue.name}\n" + table(PARTITION_HEADS, [_partition_row(one) for one in found])


def _partition_row(one: PartitionStats) -> list[object]:
    oldest = one.oldest_ready_at
    return [
        shown(one.partition_key),
        one.ready,
        one.scheduled,
        one.leased,
        one.share,
        "-" if one.limit is None else f"{one.limit:,}",
        _wait(None if oldest is None else (datetime.now(UTC) - oldest).total_seconds()),
        "paused" if one.paused else "",
    ]


def _wait(seconds: float | None) -> str:
    return "-" if seconds is None else duration(max(0.0, seconds))
