"""What processes and threads did, in the order in which they did it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that one process did."""

    pid: int
    what: str
    words: tuple[Any, ...]


class Journal:
    """A file that many processes append whole lines to.

    Linux appends under a lock, so the order of the lines is an order in which the things
    may have happened: what is written before an act precedes what is written after it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
        self._read: list[Entry] = []
        self._offset = 0

    def close(self) -> None:
        os.close(self._file)

    def say(self, what: str, *words: Any) -> None:
        line = json.dumps([os.getpid(), what, *words]) + "\n"
        os.write(self._file, line.encode())

    def entries(self) -> Sequence[Entry]:
        """Return all there is so far; what was read before is not read again."""
        with self.path.open("rb") as file:
            file.seek(self._offset)
            text = file.read()
        lines = text[: text.rfind(b"\n") + 1]
        self._offset += len(lines)
        for line in lines.splitlines():
            pid, what, *words = json.loads(line)
            self._read.append(Entry(pid, what, tuple(words)))
        return self._read

    def said(self, what: str) -> list[tuple[Any, ...]]:
        """Return the words of every entry of that name."""
        return [entry.words for entry in self.entries() if entry.what == what]

    def first_words(self, what: str) -> list[Any]:
        """Return the first word of every entry of that name."""
        return [words[0] for words in self.said(what)]
