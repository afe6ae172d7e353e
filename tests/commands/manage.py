"""``manage.py`` in processes of their own, and in this one."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from django.core.management import call_command

from tests.worker.fakes import PATIENCE, wait_until

ROOT = Path(__file__).resolve().parents[2]


class Ended(NamedTuple):
    status: int
    out: str
    err: str


class Process:
    """``manage.py ARGUMENTS``, its output in files that can be read while it runs."""

    def __init__(self, folder: Path, arguments: tuple[str, ...], env: Mapping[str, str]) -> None:
        self._out, self._err = folder / "stdout", folder / "stderr"
        with self._out.open("w") as out, self._err.open("w") as err:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "error", "manage.py", *arguments],
                cwd=ROOT,
                env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.commands.settings", **env},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                process_group=0,
            )
        self.pid = self._process.pid

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def wait_for(self, text: str) -> None:
        wait_until(lambda: text in self.err or not self.running, text)
        assert text in self.err, self.err

    def wait_for_file(self, path: Path) -> str:
        """Wait until there is something in a file; return that."""
        wait_until(lambda: _content(path) or not self.running, str(path))
        assert _content(path), self.err
        return _content(path)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def end(self) -> Ended:
        self._process.wait(PATIENCE)
        return Ended(self._process.returncode, self._out.read_text(), self.err)

    def kill(self) -> None:
        """End it, and what it started."""
        if self.running:
            os.killpg(self.pid, signal.SIGKILL)
            self._process.wait(PATIENCE)


def _content(path: Path) -> str:
    return path.read_text() if path.exists() else ""


@contextmanager
def manage(
    folder: Path, *arguments: str, vtrr: Any = None, env: Mapping[str, str] | None = None
) -> Iterator[Process]:
    """Start ``manage.py``; whatever the test does, it ends with the block."""
    more = {} if vtrr is None else {"VTRR_TEST_SETTINGS": json.dumps(vtrr)}
    process = Process(folder, arguments, {**more, **(env or {})})
    try:
        yield process
    finally:
        process.kill()


def run(folder: Path, *arguments: str, **options: Any) -> Ended:
    with manage(folder, *arguments, **options) as process:
        return process.end()


def call(name: str, *arguments: str, **options: Any) -> str:
    """Run a command in this process; return what it printed."""
    out = io.StringIO()
    call_command(name, *arguments, stdout=out, **options)
    return out.getvalue()
