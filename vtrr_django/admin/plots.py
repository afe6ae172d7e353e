"""Plots, drawn on the server: SVG made of attributes and classes, and its numbers as a table.

Texts stand around the drawing, in HTML: they wrap, are cut, and keep their size on a phone.
A drawing fills the width it gets. Nothing here reads a queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from vtrr_django.admin.markup import name, number

STEP: Final = 10
HEIGHT: Final = 120
ROW: Final = 24
"""Units of a drawing: a column, the height of columns, the height of a lying bar."""

LINE: Final = 1.5
"""Height of the text beside a lying bar, in the size of the page's text (see ``admin.css``)."""

COLOURS: Final = 7
"""Series that have a colour of their own; see ``admin.css``."""

REST_CLASS: Final = "vtrr-rest"


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """One line of numbers over time; None where nobody looked."""

    label: str
    values: Sequence[float | None]
    css: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """One lying bar.

    Attributes:
        label: what it is about.
        value: its length.
        inner: the length of the darker part in it, None: it has none.
        mark: where a mark is drawn across it, None: nowhere.
        text: the numbers, for people.
        cells: the numbers of its row in the table.
        css: its colour.
    """

    label: str
    value: float
    text: str
    cells: Sequence[str]
    inner: float | None = None
    mark: float | None = None
    css: str = "vtrr-s1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Plot:
    """A drawing with what stands around it."""

    ident: str
    title: str
    description: str
    svg: SafeString | str = ""
    top: str = ""
    first: str = ""
    last: str = ""
    legend: Sequence[tuple[str, str | SafeString]] = ()
    labels: Sequence[tuple[str | SafeString, str]] = ()
    heads: Sequence[str | SafeString] = ()
    rows: Sequence[Sequence[Any]] = field(default=())

    @property
    def empty(self) -> bool:
        """Whether there is nothing to draw."""
        return not self.svg


def colour(index: int) -> str:
    """Return the class of the colour of a series."""
    return f"vtrr-s{index % COLOURS + 1}"


def spark(ident: str, title: str, description: str, series: Sequence[Series]) -> SafeString:
    """Return a small drawing of stacked columns for a row of a table."""
    return _columns(ident, title, description, series, css="vtrr-spark", times=())


def columns(
    ident: str,
    title: str,
    description: str,
    times: Sequence[str],
    series: Sequence[Series],
    *,
    what: str = "",
) -> Plot:
    """Return a plot of stacked columns, one for each time.

    Args:
        ident: unique in the page.
        title: what it shows.
        description: how to read it.
        times: the labels of the columns.
        series: what is stacked, the lowest first, each with one value per time.
        what: of what the highest column is so many.
    """
    highest = _highest(series)
    if not highest:
        return Plot(ident=ident, title=title, description=description)
    return Plot(
        ident=ident,
        title=title,
        description=description,
        svg=_columns(ident, title, description, series, css="vtrr-columns", times=times),
        top=f"{number(highest)} {what}".strip(),
        first=times[0],
        last=times[-1],
        legend=[(one.css, name(one.label)) for one in series] if len(series) > 1 else (),
        heads=["time", *(name(one.label) for one in series)],
        rows=[
            [time, *(number(one.values[index]) for one in series)]
            for index, time in enumerate(times)
        ],
    )


def lying(
    ident: str, title: str, description: str, bars: Sequence[Bar], heads: Sequence[str]
) -> Plot:
    """Return a plot of lying bars; ``heads`` names the columns of its table."""
    most = max([max(bar.value, bar.mark or 0.0) for bar in bars], default=0.0)
    if not most:
        return Plot(ident=ident, title=title, description=description)
    drawn = _join(_lying(index, bar, 100 / most) for index, bar in enumerate(bars))
    return Plot(
        ident=ident,
        title=title,
        description=description,
        svg=_svg(
            ident,
            title,
            description,
            drawn,
            css="vtrr-lying",
            size=(100, ROW * len(bars)),
            lines=len(bars),
        ),
        labels=[(name(bar.label), bar.text) for bar in bars],
        heads=heads,
        rows=[[name(bar.label), *bar.cells] for bar in bars],
    )


def _highest(series: Sequence[Series]) -> float:
    stacks = zip(*(one.values for one in series), strict=True)
    return max((sum(value or 0 for value in stack) for stack in stacks), default=0)


def _columns(
    ident: str,
    title: str,
    description: str,
    series: Sequence[Series],
    *,
    css: str,
    times: Sequence[str],
) -> SafeString:
    scale = HEIGHT / (_highest(series) or 1)
    count = len(series[0].values)
    drawn = _join(_column(index, series, scale, times) for index in range(count))
    return _svg(ident, title, description, drawn, css=css, size=(STEP * count, HEIGHT))


def _column(
    index: int, series: Sequence[Series], scale: float, times: Sequence[str]
) -> SafeString | str:
    x, top, parts = index * STEP, float(HEIGHT), []
    for one in series:
        height = (one.values[index] or 0) * scale
        if height:
            height = max(height, 1.0)  # the few are seen beside the many
            top = max(0.0, top - height)
            parts.append(_rect(one.css, x + 1, top, STEP - 2, height))
    if not times:
        return _join(parts)
    told = ", ".join(f"{one.label} {one.values[index]:,}" for one in series if one.values[index])
    return format_html(
        "<g><title>{}</title>{}{}</g>",
        f"{times[index]}: {told or 'nothing'}",
        _rect("vtrr-hit", x, 0, STEP, HEIGHT),
        _join(parts),
    )


def _lying(index: int, bar: Bar, scale: float) -> SafeString:
    y = index * ROW
    lengths = [bar.value] if bar.inner is None else [bar.value, bar.inner]
    parts = [
        _rect(css, 0, y + 5, max(length * scale, 0.3), ROW - 10)
        for css, length in zip(
            (f"{bar.css} vtrr-outer", bar.css)[-len(lengths) :], lengths, strict=True
        )
    ]
    if bar.mark is not None:
        x = min(bar.mark * scale, 99.7)
        parts.append(
            format_html(
                '<line class="vtrr-mark" x1="{0}" y1="{1}" x2="{0}" y2="{2}" '
                'vector-effect="non-scaling-stroke"/>',
                _coordinate(x),
                y + 2,
                y + ROW - 2,
            )
        )
    return _join(parts)


def _svg(
    ident: str,
    title: str,
    description: str,
    drawn: SafeString,
    *,
    css: str,
    size: tuple[int, int],
    lines: int = 0,
) -> SafeString:
    return format_html(
        '<svg class="vtrr-plot {css}" role="img" aria-labelledby="{ident}-t" '
        'aria-describedby="{ident}-d" viewBox="0 0 {width} {depth}" preserveAspectRatio="none" '
        'focusable="false"{height}><title id="{ident}-t">{title}</title>'
        '<desc id="{ident}-d">{description}</desc>{drawn}</svg>',
        css=css,
        ident=ident,
        width=size[0],
        depth=size[1],
        height=format_html(' height="{}rem"', lines * LINE) if lines else "",
        title=title,
        description=description,
        drawn=drawn,
    )


def _rect(css: str, x: float, y: float, width: float, height: float) -> SafeString:
    return format_html(
        '<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>',
        css,
        *map(_coordinate, (x, y, width, height)),
    )


def _coordinate(value: float) -> str:
    """Return a number as SVG wants it, whatever the language of the page."""
    return f"{value:.5g}"


def _join(parts: Iterable[SafeString | str]) -> SafeString:
    return format_html_join("", "{}", ((part,) for part in parts))
