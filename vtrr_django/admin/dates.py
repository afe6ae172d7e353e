"""Going through history by year, month and day.

Django's own date hierarchy cuts the time of every row down to its year, month or day. This
one needs the first and the last moment only, and offers what lies between. Addresses are the
same: ``?failed_at__year=2026&failed_at__month=11``.
"""

from __future__ import annotations

import calendar
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.text import capfirst
from django.utils.translation import gettext

PARTS: Final = ("year", "month", "day")

MOST_YEARS: Final = 50

_YEARS: Final = range(1970, 9000)


def period(parts: Mapping[str, str]) -> tuple[datetime, datetime]:
    """Return when a year, month or day begins and ends, in the current time zone.

    Raises:
        KeyError: a part is there without the greater one it belongs to.
        ValueError: there is no such day.
    """
    year = check_year(int(parts["year"]))
    if "day" in parts:
        first = date(year, int(parts["month"]), int(parts["day"]))
        last = first + timedelta(days=1)
    elif "month" in parts:
        first = date(year, int(parts["month"]), 1)
        last = first + timedelta(days=calendar.monthrange(year, first.month)[1])
    else:
        first, last = date(year, 1, 1), date(year + 1, 1, 1)
    return _midnight(first), _midnight(last)


def check_year(year: int) -> int:
    """Return a year that every database and time zone can take.

    Raises:
        ValueError: it is none.
    """
    if year not in _YEARS:
        raise ValueError(f"expected a year from {_YEARS[0]} to {_YEARS[-1]}, got {year}")
    return year


def as_stored(moment: datetime) -> datetime:
    """Return a moment as ``DateTimeField`` wants it: aware, or naive without ``USE_TZ``."""
    if settings.USE_TZ:
        return timezone.make_aware(moment) if timezone.is_naive(moment) else moment
    return timezone.make_naive(moment) if timezone.is_aware(moment) else moment


def _midnight(day: date) -> datetime:
    return as_stored(datetime(day.year, day.month, day.day))  # noqa: DTZ001 - there it is made so


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """A step in the hierarchy; without a link, where one is."""

    title: str
    parts: Mapping[str, int] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Steps:
    """What the hierarchy offers: the way back, and the next steps."""

    back: Choice | None
    choices: Sequence[Choice]


def steps(first: datetime, last: datetime, parts: Mapping[str, str]) -> Steps:
    """Return the steps from where ``parts`` are, for rows from ``first`` to ``last``."""
    start, end = _day(first), _day(last)
    year, month = parts.get("year"), parts.get("month")
    narrow: dict[str, Any] = {name: int(value) for name, value in parts.items()}
    back: Choice | None = None
    if year is None and start.year == end.year:
        narrow = {"year": start.year}
        if start.month == end.month:
            narrow["month"] = start.month
    elif "day" in narrow:
        day = date(**narrow)
        back = _month(day)
        here = Choice(title=capfirst(date_format(day, "MONTH_DAY_FORMAT")), parts=None)
        return Steps(back=back, choices=[here])
    elif month is not None:
        back = Choice(title=str(year), parts={"year": narrow["year"]})
    elif year is not None:
        back = Choice(title=gettext("All dates"), parts={})
    return Steps(back=back, choices=_below(narrow, start, end))


def _below(narrow: Mapping[str, int], start: date, end: date) -> list[Choice]:
    if "month" in narrow:
        days = calendar.monthrange(narrow["year"], narrow["month"])[1]
        all_days = [date(narrow["year"], narrow["month"], n + 1) for n in range(days)]
        return [_single_day(day) for day in all_days if start <= day <= end]
    if "year" in narrow:
        months = [date(narrow["year"], n, 1) for n in range(1, 13)]
        return [_month(one) for one in months if start.replace(day=1) <= one <= end]
    years = range(max(start.year, end.year - MOST_YEARS + 1), end.year + 1)
    return [Choice(title=str(year), parts={"year": year}) for year in years]


def _month(day: date) -> Choice:
    title = capfirst(date_format(day, "YEAR_MONTH_FORMAT"))
    return Choice(title=title, parts={"year": day.year, "month": day.month})


def _single_day(day: date) -> Choice:
    title = capfirst(date_format(day, "MONTH_DAY_FORMAT"))
    return Choice(title=title, parts={"year": day.year, "month": day.month, "day": day.day})


def _day(moment: datetime) -> date:
    return timezone.localdate(moment) if timezone.is_aware(moment) else moment.date()
