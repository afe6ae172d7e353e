"""The filters beside the lists of ended jobs.

They offer choices; what is chosen is read from the address, in ``history_search``.
"""

from __future__ import annotations

from typing import Any, Final

from django.contrib.admin import SimpleListFilter
from django.http import HttpRequest

from vtrr_django.admin import markup
from vtrr_django.admin.history_list import Facts
from vtrr_django.conf import get_settings

MOST_CHOICES: Final = 100


class _Filter(SimpleListFilter):
    """A choice of one name among those that are known."""

    template = "admin/filter.html"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        known = sorted(self.names(request.vtrr_facts))[:MOST_CHOICES]  # type: ignore[attr-defined]
        chosen = self.value()
        if chosen is not None and chosen not in known:
            known.insert(0, chosen)
        return [(name, self.title_of(name)) for name in known]

    def names(self, facts: Facts) -> set[str]:
        """Return the names to choose from."""
        raise NotImplementedError

    def title_of(self, name: str) -> str:
        """Return what is shown for a name."""
        return markup.visible(markup.cut(name)) or markup.NO_KEY

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return queryset


class QueueFilter(_Filter):
    """By queue, also those that settings do not declare any more."""

    title = "queue"
    parameter_name = "queue"

    def names(self, facts: Facts) -> set[str]:
        return {*get_settings().queues, *(span.queue for span in facts.spans)}

    def title_of(self, name: str) -> str:
        gone = "" if name in get_settings().queues else " (not in settings)"
        return super().title_of(name) + gone


class TaskFilter(_Filter):
    """By task: those this process knows and those of the newest jobs."""

    title = "task"
    parameter_name = "task"

    def names(self, facts: Facts) -> set[str]:
        return facts.tasks


class ErrorClassFilter(_Filter):
    """By the class of the error: those of the newest dead letters."""

    title = "error class"
    parameter_name = "error_class"

    def names(self, facts: Facts) -> set[str]:
        return set(facts.recent.error_classes)


class _GivenFilter(_Filter):
    """A filter that other pages link to; it shows only what it was given."""

    def names(self, facts: Facts) -> set[str]:
        return set()

    def has_output(self) -> bool:
        return self.value() is not None


class PartitionFilter(_GivenFilter):
    """By partition."""

    title = "partition"
    parameter_name = "partition"


class ParentFilter(_GivenFilter):
    """By the job that made them."""

    title = "parent"
    parameter_name = "parent"
