"""The table of a queue's partitions: searched, sorted and paged by its address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.core.paginator import Page, Paginator
from django.utils.safestring import SafeString

from vtrr_django.admin.buttons import pause_button
from vtrr_django.admin.links import Button, with_query
from vtrr_django.admin.markup import NOTHING, count, duration, key_name, number, percent
from vtrr_django.admin.tenants import DEFAULT_SORT, SORTS, Row, matching, ordered
from vtrr_django.admin.visit import Visit

PER_PAGE: Final = 50

_COLUMNS: Final = (
    ("key", "Partition", ""),
    ("", "State", ""),
    ("ready", "Ready", "jobs that could run now"),
    ("", "Scheduled", "jobs that are due later"),
    ("leased", "Leased / limit", "jobs that run, and how many may at once"),
    ("share", "Share", "how much of the queue it is due, relative to the others"),
    ("oldest", "Oldest wait", "how long its longest-waiting job has been ready"),
    ("p95", "Wait p50 / p95", "half, and 95 of 100, of the last hour's jobs waited no longer"),
    ("lag", "Lag", "how far its virtual time is ahead of the queue's: the larger, the later"),
    ("seconds", "Worker time / due", "its part of the last hour's, and the part it was due"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """The head of a column; ``sorted`` is what ``aria-sort`` says."""

    label: str
    about: str
    url: str = ""
    sorted: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A partition as a line of the table."""

    key: str | SafeString
    url: str
    state: str
    cells: Sequence[str | SafeString]
    button: Button | None


class PartitionTable:
    """What the address asks for: ``q`` begins the keys, ``o`` sorts, ``p`` is the page."""

    def __init__(self, visit: Visit, rows: Sequence[Row]) -> None:
        asked = visit.request.GET
        self._visit = visit
        self.searched = asked.get("q", "")
        sort = asked.get("o", "")
        self._sort = sort if sort.removeprefix("-") in SORTS else DEFAULT_SORT
        found = ordered(rows, self._sort)
        if self.searched:
            found = matching(found, self.searched)
        self.page: Page[Row] = Paginator(found, PER_PAGE).get_page(asked.get("p"))

    @property
    def total(self) -> int:
        """How many partitions match."""
        return self.page.paginator.count

    @property
    def counted(self) -> str:
        """How many match, in words."""
        return count(self.total, "partition")

    @property
    def heads(self) -> list[Head]:
        """The heads of the columns; those that sort lead to it."""
        return [self._head(*column) for column in _COLUMNS]

    def _head(self, sort: str, label: str, about: str) -> Head:
        if not sort:
            return Head(label=label, about=about)
        current = self._sort.removeprefix("-") == sort
        descending = self._sort.startswith("-")
        first = sort if sort == "key" else f"-{sort}"
        other = sort if descending else f"-{sort}"
        direction = "descending" if descending else "ascending"
        return Head(
            label=label,
            about=about,
            url=self._address(o=other if current else first),
            sorted=direction if current else "none",
        )

    def _address(self, **asked: str) -> str:
        query = {"o": self._sort, "q": self.searched} | asked
        if query["o"] == DEFAULT_SORT:
            del query["o"]
        kept = {name: value for name, value in query.items() if value}
        path = self._visit.links.to("detail", self._visit.queue.name)
        return with_query(path, kept) + "#partitions"

    @property
    def sort(self) -> str:
        """How it is sorted, for the form that searches."""
        return self._sort

    @property
    def pages(self) -> list[tuple[str, str]]:
        """The numbers of pages and their addresses; "" for this one and for those left out."""
        paginator = self.page.paginator
        shown: list[tuple[str, str]] = []
        for one in paginator.get_elided_page_range(self.page.number, on_each_side=2, on_ends=1):
            here = one in (paginator.ELLIPSIS, self.page.number)
            shown.append((str(one), "" if here else self._address(p=str(one))))
        return shown

    @property
    def lines(self) -> list[Line]:
        """The partitions of the page."""
        return [self._line(row) for row in self.page.object_list]

    def _line(self, row: Row) -> Line:
        visit, stats = self._visit, row.stats
        name = visit.queue.name
        return Line(
            key=key_name(row.key),
            url=visit.links.partition(name, row.key),
            state=row.state,
            cells=[
                number(stats.ready),
                number(stats.scheduled),
                pair(number(stats.leased), number(stats.limit)),
                number(stats.share),
                duration(row.oldest_wait),
                pair(duration(row.wait(0.5)), duration(row.p95)),
                number(round(stats.lag, 2)),
                pair(percent(row.used), percent(row.due)),
            ],
            button=pause_button(visit, name, stats),
        )


def pair(first: str, second: str) -> str:
    """Return ``3 / 5``, or what there is of the two."""
    return first if second == NOTHING else f"{first} / {second}"
