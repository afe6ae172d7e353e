"""The lists of ended jobs: as quick with a million rows as with ten.

No list counts all rows or skips over many. The newest 10,000 that match are found by their
numbers and paged; a link leads on to the 10,000 before those.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.contrib import messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import (
    ERROR_FLAG,
    IGNORED_PARAMS,
    PAGE_VAR,
    SEARCH_VAR,
    ChangeList,
)
from django.core.paginator import InvalidPage, Paginator
from django.db.models.functions import Left
from django.http import HttpRequest

from vtrr_django.admin import dates, markup
from vtrr_django.admin.history_names import History, Recent, Span, known_tasks, recent, spans
from vtrr_django.admin.history_search import Selection, database_of, lookups
from vtrr_django.admin.history_window import Place, Window, newest
from vtrr_django.conf import get_settings
from vtrr_django.models import FailedJob

REASON_SHOWN: Final = 200

BEFORE: Final = "before"
"""The parameter with the number of the row before which the list begins."""

UNREADABLE: Final = "Something in the address could not be read, so this is the whole list."


def chosen_in(model: History, params: Mapping[str, str]) -> Selection:
    """Return what all parameters of a list's address choose, each of which has to be known.

    Raises:
        IncorrectLookupParameters: one is not, or makes no sense.
        ValueError: the place where the list begins is none.
    """
    known = {*lookups(model), *IGNORED_PARAMS, PAGE_VAR, BEFORE, ERROR_FLAG}
    strange = sorted(params.keys() - known)
    if strange:
        raise IncorrectLookupParameters(f"expected no parameter {strange[0]!r}")
    if "\0" in params.get(SEARCH_VAR, ""):
        raise IncorrectLookupParameters("expected a search without NUL")
    selection = Selection.of(model, params)
    if BEFORE in params:
        place = Place.of(params[BEFORE])
        if place.at is None and selection.sorted_by_time:
            raise IncorrectLookupParameters("expected a place in a list sorted by time")
    return selection


class Facts:
    """What the parts of one page ask of the table, each once."""

    def __init__(self, selection: Selection, model: Any) -> None:
        self.alias = database_of(selection.queue)
        self.spans: list[Span] = spans(model, self.alias)
        self.queues = [span.queue for span in self.spans]
        self.recent: Recent = recent(model, self.alias, selection.queue)
        self.tasks = known_tasks(selection.queue) | self.recent.tasks
        self.selection = selection.knowing(self.tasks)


class HistoryList(ChangeList):
    """A page of ended jobs, the newest first.

    Attributes:
        facts: what the filters offer, and what is chosen.
        window: the rows that were found.
        older: the query string of the rows before these, if there may be more.
        newest: the query string of the newest rows, if these are older ones.
        elsewhere: queues whose history is in another database, by name.
    """

    model: Any
    model_admin: Any
    window: Window

    def __init__(self, request: HttpRequest, model: Any, *args: Any, **kwargs: Any) -> None:
        try:
            before = request.GET.get(BEFORE)
            self.before = None if before is None else Place.of(before)
        except ValueError as error:
            raise IncorrectLookupParameters(str(error)) from error
        selection = Selection.of(model, request.GET.dict())
        if ERROR_FLAG in request.GET and request.method == "GET":
            messages.warning(request, UNREADABLE)
        request.vtrr_facts = self.facts = Facts(selection, model)  # type: ignore[attr-defined]
        super().__init__(request, model, *args, **kwargs)

    # -- what is chosen ------------------------------------------------------------

    def get_filters_params(self, params: Any = None) -> Any:
        chosen = super().get_filters_params(params)
        chosen.pop(BEFORE, None)
        return chosen

    def get_query_string(self, new_params: Any = None, remove: Any = None) -> str:
        # Where one is in the list has no meaning in another list.
        keep = new_params is not None and PAGE_VAR in new_params
        return super().get_query_string(new_params, [*(remove or ()), *(() if keep else (BEFORE,))])

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> Any:
        self.params.pop(BEFORE, None)
        found = self.get_filters(request)
        self.filter_specs, self.has_filters, _, _, self.has_active_filters = found
        self.clear_all_filters_qs = self.get_query_string(remove=self.get_filters_params())
        return self.facts.selection.rows(self.model, self.facts.queues).order_by("-seq")

    def get_filters(self, request: HttpRequest) -> Any:
        specs, has, _, duplicates, active = super().get_filters(request)
        return specs, has, {}, duplicates, active

    # -- what is shown -------------------------------------------------------------

    @property
    def listed(self) -> str:
        """How many rows are listed, for people."""
        return markup.number(self.result_count)

    def get_results(self, request: HttpRequest) -> None:
        names = self.facts.queues
        try:
            self.window = newest(self.facts.selection, self.queryset.order_by(), self.before, names)
            self.paginator = Paginator(self.window.seqs, self.list_per_page)
            page = self.paginator.page(self.page_num)
        except (ValueError, InvalidPage) as error:
            raise IncorrectLookupParameters(str(error)) from error
        self.result_list = self._rows(list(page.object_list))
        self.result_count = len(self.window.seqs)
        # The same number: the search form then leaves out its count, which need not be all.
        self.full_result_count = self.result_count
        self.show_full_result_count = self.show_all = self.can_show_all = False
        self.show_admin_actions = True
        self.multi_page = self.result_count > self.list_per_page
        self._place()

    def _rows(self, seqs: list[int]) -> list[Any]:
        long = ["payload"]
        rows = self.model._default_manager.using(self.facts.alias).filter(seq__in=seqs)
        if self.model is FailedJob:
            long += ["reason", "traceback"]
            rows = rows.annotate(reason_begins=Left("reason", REASON_SHOWN + 1))
        found = {row.seq: row for row in rows.defer(*long)}
        return [found[seq] for seq in seqs if seq in found]

    def _place(self) -> None:
        rest = self.window.rest
        self.older = "" if rest is None else super().get_query_string({BEFORE: str(rest)})
        self.newest = "" if self.before is None else self.get_query_string()
        others = get_settings().queues.items()
        self.elsewhere = [name for name, one in others if one.database != self.facts.alias]

    @property
    def steps(self) -> Mapping[str, Any]:
        """What ``admin/date_hierarchy.html`` shows."""
        queue = self.facts.selection.queue
        covered = [one for one in self.facts.spans if queue in (None, one.queue)]
        if not covered:
            return {"show": False}
        first, last = min(one.first for one in covered), max(one.last for one in covered)
        begin = f"{self.date_hierarchy}__"
        parts = {
            part: self.params[begin + part] for part in dates.PARTS if begin + part in self.params
        }
        found = dates.steps(first, last, parts)

        def shown(choice: dates.Choice | None) -> dict[str, str] | None:
            if choice is None:
                return None
            narrow = (
                None if choice.parts is None else {begin + k: v for k, v in choice.parts.items()}
            )
            link = "" if narrow is None else self.get_query_string(narrow, [begin])
            return {"title": choice.title, "link": link}

        return {
            "show": True,
            "field_name": self.model._meta.get_field(self.date_hierarchy).verbose_name,
            "back": shown(found.back),
            "choices": [shown(choice) for choice in found.choices],
        }

    def url_for_result(self, result: Any) -> str:
        return str(self.model_admin.address_of(result))
