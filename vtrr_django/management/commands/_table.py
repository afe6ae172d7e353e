"""Tables of plain text, and times for people."""

from __future__ import annotations

from collections.abc import Sequence

LONGEST_CELL = 48


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return an aligned table: numbers to the right, texts to the left."""
    cells = [[cut(_text(value)) for value in row] for row in rows]
    right = [
        bool(rows) and all(isinstance(row[column], (int, float)) for row in rows)
        for column in range(len(heads))
    ]
    widths = [
        max(len(head), *(len(row[column]) for row in cells)) if cells else len(head)
        for column, head in enumerate(heads)
    ]
    lines = [
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in [list(heads), *cells]
    ]
    return "\n".join(lines)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


def cut(text: str) -> str:
    """Return ``text`` with its middle cut out where it is too long for a table."""
    if len(text) <= LONGEST_CELL:
        return text
    half = (LONGEST_CELL - 3) // 2
    return f"{text[: LONGEST_CELL - 3 - half]}...{text[-half:]}"
