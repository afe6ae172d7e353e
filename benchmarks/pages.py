"""The admin and ``/metrics`` over a large history, and requeueing all that failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.agents import Agent
from benchmarks.measuring import Bench, Figure, Target

MOST_QUERIES, MOST_MS = 15, 1000
"""Of a page of the admin."""

MOST_KB, MOST_SCRAPE_MS = 300, 300

MOST_POST_SECONDS = 30
"""After which gunicorn, unless told otherwise, kills the process that answers."""

QUEUES = ("uploads", "emails", "reports", "exports")


def measure(bench: Bench) -> Iterator[Figure]:
    """Measure every page of the admin, the metrics, and a run over all dead letters."""
    # No lease is to run out meanwhile.
    queue: dict[str, Any] = {"COMPLETED_RETENTION": None, "LEASE_SECONDS": 6 * 3600}
    rounds = 1 if bench.quick else 3
    if bench.redis is not None:
        queue |= {"ENGINE": "redis", "URL": bench.redis}
    vtrr = {"QUEUES": dict.fromkeys(QUEUES, queue)}
    with Agent("pages", {"default": bench.databases.new(bench.kind)}, vtrr=vtrr) as agent:
        agent.call("prepare")
        agent.call("fill", scale=bench.scale)
        rows = agent.call("walk", scale=bench.scale, rounds=rounds, only=bench.page)
        print(_table(rows), flush=True)
        scraped = {tenants: agent.call("scrape", tenants=tenants) for tenants in (0, 100)}
        run = agent.call("requeue_all")
    print(_table(run["pages"]), flush=True)
    yield from _of_pages(bench.kind, rows + run["pages"])
    for tenants, found in scraped.items():
        yield from _of_metrics(bench.kind, tenants, found)
    yield from _of_run(bench.kind, run)


def _of_pages(kind: str, rows: Sequence[dict[str, Any]]) -> Iterator[Figure]:
    busiest = max(rows, key=lambda row: row["queries"])
    slowest = max(rows, key=lambda row: row["ms"])
    print(
        f"{kind}: {len(rows)} pages; most queries {busiest['queries']} ({busiest['page']}); "
        f"slowest {slowest['ms']:,.0f} ms, {slowest['best']:,.0f} at best ({slowest['page']})",
        flush=True,
    )
    yield Figure(
        database=kind,
        what=f"most queries of {len(rows)} pages",
        ours=f"{busiest['queries']}",
        other=busiest["page"],
        ratios=[busiest["queries"]],
        target=Target(bound=MOST_QUERIES, at="most"),
    )
    yield Figure(
        database=kind,
        what="slowest page",
        ours=f"{slowest['ms']:,.0f} ms",
        other=f"{slowest['best']:,.0f} at best, {slowest['page']}",
        ratios=[slowest["ms"]],
        target=Target(bound=MOST_MS, at="most"),
    )


def _of_metrics(kind: str, tenants: int, found: dict[str, Any]) -> Iterator[Figure]:
    what = f"/metrics, {tenants} tenants told apart"
    yield Figure(
        database=kind,
        what=what,
        ours=f"{found['ms']:,.0f} ms",
        other=f"{found['best']:,.0f} at best, {found['samples']:,} samples",
        ratios=[found["ms"]],
        target=Target(bound=MOST_SCRAPE_MS, at="most"),
    )
    yield Figure(
        database=kind,
        what=what,
        ours=f"{found['bytes'] / 1000:,.1f} kB",
        ratios=[found["bytes"] / 1000],
        target=Target(bound=MOST_KB, at="most"),
    )


def _of_run(kind: str, found: dict[str, Any]) -> Iterator[Figure]:
    for name, one in found["fairness"].items():
        places = ", ".join(f"{key} as number {n}" for key, n in one["places"].items())
        print(
            f"{kind}: {name}, {one['tenants']:,} tenants, after it: two that wait are at most "
            f"{one['apart']:g} jobs apart; {places or 'it is not the turn of the small ones yet'}"
        )
    yield Figure(
        database=kind,
        what=f"requeue all of {found['letters']:,}: slowest POST",
        ours=f"{found['slowest_ms']:,.0f} ms",
        other=f"{found['posts']} POSTs, {found['seconds']:,.1f} s in all",
        ratios=[found["slowest_ms"] / 1000],
        target=Target(bound=MOST_POST_SECONDS, at="most"),
    )
    apart = max(one["apart"] for one in found["fairness"].values())
    yield Figure(
        database=kind,
        what="  jobs by which tenants that wait are apart after it",
        ours=f"{apart:g}",
        ratios=[apart],
        target=Target(bound=found["bound"], at="most"),
    )


def _table(rows: Sequence[dict[str, Any]]) -> str:
    lines = [f"  {'page':<52}{'queries':>8}{'ms':>8}{'(best)':>8}"]
    for row in rows:
        cells = f"{row['queries']:>8}{row['ms']:>8,.0f}{row['best']:>8,.0f}"
        lines.append(f"  {row['page']:<52}{cells}  {_verdict(row)}")
    return "\n".join(lines)


def _verdict(row: dict[str, Any]) -> str:
    """Return by how much a page is beyond a limit, and what it asked of the database."""
    excess = []
    if row["queries"] > MOST_QUERIES:
        queries = "".join(f"\n      {n} × {sql}" for sql, n in row["sql"].items())
        excess.append(f"{row['queries'] - MOST_QUERIES} queries too many:{queries}")
    if row["ms"] > MOST_MS:
        slow = "".join(f"\n      {ms:,.0f} ms: {sql}" for ms, sql in row["slow"])
        excess.append(f"{row['ms'] - MOST_MS:,.0f} ms too long:{slow}")
    return "\n    ".join(excess) or "OK"
