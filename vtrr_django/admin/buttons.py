"""The buttons of the queue pages: those that the user may press and that would do something."""

from __future__ import annotations

from vtrr_django.admin.links import Button
from vtrr_django.admin.markup import counted, spoken
from vtrr_django.admin.permissions import PURGE, REQUEUE, STEER
from vtrr_django.admin.visit import Visit
from vtrr_django.domain.job import PartitionStats, QueueStats


def queue_buttons(
    visit: Visit, name: str, stats: QueueStats | None, failed: int | None
) -> list[Button]:
    """Return the buttons of a queue.

    Args:
        visit: whose permissions count.
        name: the queue.
        stats: how it stands; None: its store does not answer.
        failed: its dead letters; None: unknown.
    """
    links, fields, about = visit.links, {"next": visit.here}, f"queue {name}"
    buttons = []
    if stats is not None and visit.may(STEER):
        verb = "resume" if stats.paused else "pause"
        for label, what in ((verb.capitalize(), verb), ("Reclaim now", "reclaim")):
            url = links.to("do", name, what)
            buttons.append(Button(label=label, url=url, fields=fields, about=about))
    if stats is not None and failed and visit.may(REQUEUE):
        url = links.to("do", name, "requeue")
        label = f"Requeue all failed ({counted(failed)})"
        buttons.append(Button(label=label, url=url, fields=fields, about=about))
    waiting = 0 if stats is None else stats.ready + stats.scheduled
    if waiting and visit.may(PURGE):
        url = links.to("purge", name)
        label = f"Purge ({waiting:,})…"
        buttons.append(Button(label=label, url=url, css="vtrr-danger", post=False, about=about))
    return buttons


def pause_button(visit: Visit, name: str, stats: PartitionStats) -> Button | None:
    """Return what pauses or resumes a partition."""
    if not visit.may(STEER):
        return None
    verb = "resume" if stats.paused else "pause"
    return Button(
        label=verb.capitalize(),
        url=visit.links.to("do", name, verb),
        fields={"partition": stats.partition_key, "next": visit.here},
        about=f"partition {spoken(stats.partition_key)}",
    )


def partition_buttons(visit: Visit, name: str, stats: PartitionStats) -> list[Button]:
    """Return the buttons of a partition's page."""
    pause = pause_button(visit, name, stats)
    buttons = [] if pause is None else [pause]
    waiting = stats.ready + stats.scheduled
    if waiting and visit.may(PURGE):
        url = visit.links.to("purge", name, key=stats.partition_key)
        buttons.append(
            Button(label=f"Purge ({waiting:,})…", url=url, css="vtrr-danger", post=False)
        )
    return buttons
