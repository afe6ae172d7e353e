"""Numbers, durations, moments and names, as the pages show them."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from typing import Final

from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from vtrr_django.domain import durations
from vtrr_django.overview import COUNTED

LONGEST_NAME: Final = 48

NOTHING: Final = "–"

NO_KEY: Final = '""'
"""How the partition of jobs that were published without one is written."""

REST_NAME: Final = "all others"

_JOINERS: Final = "\u200c\u200d"
_BLANK: Final = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
"""Letters and marks that show nothing, ..."""

_UNSEEN: Final = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp", "Zs"}
"""... as all of these categories of Unicode do."""


def number(value: float | None) -> str:
    """Return ``1,234``, ``0.5`` or a dash."""
    if value is None:
        return NOTHING
    if float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:,.12g}"  # a share as it was set, and no digits that only rounding made


def counted(value: int | None) -> str:
    """Return a number of ``overview.at_a_glance``, or a dash for None."""
    if value is None or value <= COUNTED:
        return number(value)
    return f"{COUNTED:,}+"


def count(value: int, what: str, plural: str = "") -> str:
    """Return ``1 job``, ``1,200 jobs``."""
    return f"{value:,} {what if value == 1 else plural or what + 's'}"


def percent(part: float | None) -> str:
    """Return ``12 %`` of the share of a whole, or a dash."""
    if part is None:
        return NOTHING
    if 0 < part < 0.01:
        return "< 1 %"
    return f"{part * 100:.0f} %"


def duration(seconds: float | None) -> str:
    """Return a length of time as :func:`durations.duration` has it, or a dash."""
    return NOTHING if seconds is None else durations.duration(seconds)


def seconds_between(earlier: datetime | None, later: datetime | None) -> float | None:
    """Return the seconds from one moment to another, at least 0; None where one is unknown."""
    if earlier is None or later is None:
        return None
    return max(0.0, (later - earlier).total_seconds())


def local(moment: datetime) -> datetime:
    """Return a moment as a clock on the reader's wall shows it."""
    return moment if timezone.is_naive(moment) else timezone.localtime(moment)


def clock(moment: datetime) -> str:
    """Return ``17:05``."""
    return f"{local(moment):%H:%M}"


def stamp(moment: datetime | None) -> str:
    """Return ``2026-11-30 17:05:09``, or a dash."""
    return NOTHING if moment is None else f"{local(moment):%Y-%m-%d %H:%M:%S}"


def since(moment: datetime | None, now: datetime | None) -> str | SafeString:
    """Return how long it is since a moment, with the moment for those who point at it."""
    if moment is None:
        return NOTHING
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        moment.isoformat(),
        stamp(moment),
        duration(seconds_between(moment, now)),
    )


def distance(moment: datetime, now: datetime) -> str:
    """Return ``in 3 min`` or ``3 min ago``."""
    apart = duration(abs((moment - now).total_seconds()))
    return f"in {apart}" if moment > now else f"{apart} ago"


def relative(moment: datetime | None, now: datetime | None) -> str | SafeString:
    """Return how far a moment is from now, with the moment for those who point at it."""
    if moment is None or now is None:
        return when(moment)
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        moment.isoformat(),
        stamp(moment),
        distance(moment, now),
    )


def when(moment: datetime | None, now: datetime | None = None) -> str | SafeString:
    """Return a moment in full, and how far it is from now."""
    if moment is None:
        return NOTHING
    shown = format_html('<time datetime="{}">{}</time>', moment.isoformat(), stamp(moment))
    return shown if now is None else format_html("{} ({})", shown, distance(moment, now))


def aware(moment: datetime | None) -> datetime | None:
    """Return a moment of a ``DateTimeField`` with its time zone, ``USE_TZ`` or not."""
    if moment is None or timezone.is_aware(moment):
        return moment
    return timezone.make_aware(moment, timezone.get_default_timezone()).astimezone(UTC)


def cut(text: str, longest: int = LONGEST_NAME) -> str:
    """Return ``text`` with its middle left out where it is too long."""
    if len(text) <= longest:
        return text
    half = (longest - 1) // 2
    return f"{text[: longest - 1 - half]}…{text[-half:]}"


def visible(text: str) -> str:
    """Return ``text`` with escapes for what nobody sees, or what turns its surroundings.

    Else a name could look like another one, or like none.
    """
    return "".join(shown for shown, _ in _characters(text))


def _characters(text: str) -> Iterator[tuple[str, bool]]:
    """Yield how each character is shown, and whether that is an escape."""
    last = len(text) - 1
    for at, char in enumerate(text):
        # Within a word these choose its letters' forms, in Persian or in an emoji.
        inside = 0 < at < last and text[at - 1] not in _JOINERS
        if char == " ":
            hidden = at in {0, last} or text[at - 1] == " "
            yield ("\N{OPEN BOX}" if hidden else char), hidden
        elif char in _JOINERS and inside:
            yield char, False
        elif char in _BLANK or unicodedata.category(char) in _UNSEEN:
            yield char.encode("unicode-escape", "surrogatepass").decode(), True
        else:
            yield char, False


def _marked(text: str) -> SafeString:
    def part(hidden: bool, shown: str) -> str:
        return format_html('<span class="vtrr-escape">{}</span>', shown) if hidden else shown

    runs = groupby(_characters(text), key=itemgetter(1))
    return format_html_join(
        "", "{}", ((part(hidden, "".join(one for one, _ in run)),) for hidden, run in runs)
    )


def name(text: str | None) -> str | SafeString:
    """Return a name that somebody else chose: cut, all to be seen, and turning nothing around."""
    if not text:
        return NOTHING
    if len(text) <= LONGEST_NAME:
        return format_html('<bdi dir="auto">{}</bdi>', _marked(text))
    return format_html('<bdi dir="auto" title="{}">{}</bdi>', visible(text), _marked(cut(text)))


def key_name(partition_key: str) -> str | SafeString:
    """Return a partition's key; what stands for no key says so."""
    if partition_key:
        return name(partition_key)
    return mark_safe('<bdi title="jobs that were published without a partition key">""</bdi>')


def spoken(text: str) -> str:
    """Return a name for a message in plain text: cut, and isolated from what is around it."""
    return f"\u2068{visible(cut(text or NO_KEY))}\u2069"
