"""Plots: what they draw, and that their numbers can be read as well."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.admin.html import Page
from vtrr_django.admin import charts, plots
from vtrr_django.admin.plots import Bar, Series
from vtrr_django.admin.tenants import Row
from vtrr_django.domain.histogram import Histogram
from vtrr_django.domain.job import PartitionStats
from vtrr_django.figures.keeping import LONGEST_LINES
from vtrr_django.figures.reading import REST, Minute, Tenant

START = datetime(2026, 11, 30, 17, tzinfo=UTC)


def rects(svg: str) -> list[tuple[str, float, float, float, float]]:
    return [
        (rect["class"], *(float(rect[name]) for name in ("x", "y", "width", "height")))
        for rect in Page(svg).find("rect")
    ]


def minutes(*ready: dict[str, int] | None) -> list[Minute]:
    return [
        Minute(
            at=START + timedelta(minutes=n),
            ready=None if one is None else sum(one.values()),
            waiting={} if one is None else {key: n for key, n in one.items() if key != "-"},
        )
        for n, one in enumerate(ready)
    ]


def waits(*seconds: float) -> Histogram:
    histogram = Histogram()
    for one in seconds:
        histogram.add(one)
    return histogram


def row(key: str, seconds: float, total: float, due: float) -> Row:
    return Row(
        stats=PartitionStats(partition_key=key),
        past=Tenant(worker_seconds=seconds),
        now=None,
        used=seconds / total,
        due=due,
    )


# -- drawing -----------------------------------------------------------------------


def test_columns_are_stacked_to_scale() -> None:
    series = [
        Series(label="one", values=[1, 2, None], css="a"),
        Series(label="two", values=[3, 0, None], css="b"),
    ]

    plot = plots.columns("p", "Title", "Words", ["0:00", "0:01", "0:02"], series, what="jobs")

    drawn = [one for one in rects(plot.svg) if one[0] != "vtrr-hit"]
    assert drawn == [("a", 1, 90, 8, 30), ("b", 1, 0, 8, 90), ("a", 11, 60, 8, 60)]
    assert (plot.top, plot.first, plot.last) == ("4 jobs", "0:00", "0:02")
    assert plot.heads[0] == "time"
    assert plot.rows == [["0:00", "1", "3"], ["0:01", "2", "0"], ["0:02", "–", "–"]]
    assert "0:00: one 1, two 3" in Page(plot.svg).text
    assert "0:02: nothing" in Page(plot.svg).text


def test_few_are_seen_beside_many() -> None:
    series = [Series(label="one", values=[1, 1_000_000], css="a")]

    plot = plots.columns("p", "Title", "Words", ["0:00", "0:01"], series)

    assert [one[4] for one in rects(plot.svg) if one[0] == "a"] == [1, 120]


def test_lying_bars_have_an_inner_part_and_a_mark() -> None:
    bars = [
        Bar(label="one", value=4, inner=1, text="1 / 4", cells=["1", "4"]),
        Bar(label="two", value=2, mark=3, text="2 / 3", cells=["2", "3"]),
    ]

    plot = plots.lying("p", "Title", "Words", bars, ["name", "a", "b"])

    assert [(x, y, width) for _, x, y, width, _ in rects(plot.svg)] == [
        (0, 5, 100),
        (0, 5, 25),
        (0, 29, 50),
    ]
    [mark] = Page(plot.svg).find("line")
    assert (float(mark["x1"]), float(mark["y1"]), float(mark["y2"])) == (75, 26, 46)
    assert [row[1:] for row in plot.rows] == [["1", "4"], ["2", "3"]]


@pytest.mark.parametrize("hostile", ["</desc><script>alert(1)</script>", '"><img onerror=x>', "&"])
def test_a_drawing_says_what_it_is_to_those_who_do_not_see_it(hostile: str) -> None:
    series = [Series(label=hostile, values=[1], css="a")]

    svg = plots.columns("p", f"Title {hostile}", f"Words {hostile}", ["0:00"], series).svg
    page = Page(svg)

    assert page.refused == []
    assert {tag for tag, _ in page.tags} == {"svg", "title", "desc", "g", "rect"}
    [drawing] = page.find("svg")
    assert drawing["role"] == "img"
    ids = {one["id"] for one in page.find("title") + page.find("desc") if "id" in one}
    assert {drawing["aria-labelledby"], drawing["aria-describedby"]} == ids
    assert f"Title {hostile} Words {hostile} 0:00: {hostile} 1" in page.text


@pytest.mark.parametrize("language", ["en", "de", "fa"])
def test_coordinates_are_numbers_in_every_language(settings: object, language: str) -> None:
    settings.LANGUAGE_CODE = language  # type: ignore[attr-defined]
    series = [Series(label="a", values=[1.5, 2_000_000.25], css="a")]

    for svg in (
        plots.columns("p", "T", "D", ["a", "b"], series).svg,
        plots.lying("p", "T", "D", [Bar(label="a", value=1 / 3, text="", cells=[])], []).svg,
    ):
        assert rects(svg)


def test_nothing_is_drawn_where_there_is_nothing() -> None:
    nothing = [Series(label="a", values=[0, None], css="a")]
    assert plots.columns("p", "T", "D", ["a", "b"], nothing).empty
    assert plots.columns("p", "T", "D", [], []).empty
    assert plots.lying("p", "T", "D", [], []).empty
    assert charts.throughput([]).empty
    assert charts.waiting([]).empty
    assert charts.waits({}).empty
    assert charts.work([], {}).empty
    assert rects(plots.spark("p", "T", "D", nothing)) == []


# -- what is drawn -----------------------------------------------------------------


def test_the_longest_lines_have_a_colour_and_the_rest_is_together() -> None:
    lines = {f"t{n}": 100 - n for n in range(charts.LINES)} | {"small": 1, "-": 5}

    plot = charts.waiting(minutes(lines, None, {"t0": 7}))

    assert [str(head).count("bdi") for head in plot.heads] == [0] + [2] * (charts.LINES + 1)
    first, gap, last = plot.rows
    assert first[1:] == [*(str(100 - n) for n in range(charts.LINES)), "6"]
    assert set(gap[1:]) == {"–"}
    assert last[1:] == ["7", *["0"] * charts.LINES]
    assert len({css for css, _ in plot.legend}) == charts.LINES + 1


def test_a_line_that_was_too_short_to_be_kept_is_not_known_to_be_empty() -> None:
    others = {f"o{n}": 50 for n in range(LONGEST_LINES)}
    known = {"acme": 9_000}

    plot = charts.waiting(minutes(known, others | {"-": 40}, known | {"-": 0}))

    assert Page(str(plot.heads[1])).text == "acme"
    first, full, last = plot.rows
    assert (first[1], full[1], last[1]) == ("9,000", "–", "9,000")
    assert full[-1] == str(50 * (LONGEST_LINES - charts.LINES + 1) + 40)
    assert f"the {LONGEST_LINES} longest lines are kept" in plot.description


def test_those_who_waited_longest_have_the_bars() -> None:
    past = {f"t{n:02}": Tenant(waits=waits(*[2.0**n / 100] * 9)) for n in range(15)}
    past[REST] = Tenant(waits=waits(1000))
    past["never"] = Tenant()

    plot = charts.waits(past)

    names = [Page(str(row[0])).text for row in plot.rows]
    assert names == ["all others", *(f"t{n:02}" for n in range(14, 5, -1))]
    assert plot.rows[1][3] == "9"


def test_worker_time_is_set_against_what_is_due() -> None:
    rows = [row("a", 60, 100, 0.25), row("b", 30, 100, 0.75)]
    past = {"a": Tenant(worker_seconds=60), "b": Tenant(worker_seconds=30)}

    plot = charts.work(rows, past | {REST: Tenant(worker_seconds=10)})

    assert [r[1:] for r in plot.rows] == [
        ["60 %", "25 %", "60 s"],
        ["30 %", "75 %", "30 s"],
        ["10 %", "–", "10 s"],
    ]
    assert len(Page(plot.svg).find("line")) == 2, "what all others are due is not known"


def test_beyond_the_bars_the_rest_is_together() -> None:
    rows = [row(f"t{n:02}", 5, 100, 0.05) for n in range(20)]

    plot = charts.work(rows, {one.key: one.past for one in rows})

    assert [r[1] for r in plot.rows] == ["5 %"] * charts.BARS + ["50 %"]
    assert plot.rows[-1][2] == "50 %"


def test_a_small_plot_tells_its_sums() -> None:
    ended = [Minute(at=START, completed=3, failed=1), Minute(at=START, completed=2)]

    svg = charts.small_throughput("p", ended)

    assert "5 completed and 1 failed; at most 4 in one minute" in Page(svg).text
    assert [one[0] for one in rects(svg)] == ["vtrr-s1", "vtrr-bad", "vtrr-s1"]
