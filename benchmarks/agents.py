"""Processes that do what is measured; this one only tells them when, and writes it down."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.peers import ROOT


class AgentFailed(Exception):
    """An agent raised, or ended."""


def environment(site: str, databases: dict[str, Any], **settings: Any) -> dict[str, str]:
    """Return the environment of a process that has Django set up for one site.

    Args:
        site: module of ``benchmarks.sites``.
        databases: its ``DATABASES``.
        settings: ``vtrr``, ``celery`` and ``more``; see :class:`Agent`.
    """
    told = {"site": site, "databases": databases}
    told |= {name: settings.get(name) or {} for name in ("vtrr", "celery", "more")}
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "benchmarks.sites.settings",
        "VTRR_BENCH": json.dumps(told),
    }


class Agent:
    """A process with Django set up for one site; its functions are called one at a time.

    Args:
        site: module of ``benchmarks.sites``.
        databases: its ``DATABASES``.
        interpreter: Python of its environment; None: this one's.
        vtrr: its ``VTRR`` setting.
        celery: its settings of Celery, without ``CELERY_``.
        more: whatever else the site asks for, as ``settings.MORE``.
    """

    def __init__(
        self,
        site: str,
        databases: dict[str, Any],
        *,
        interpreter: Path | None = None,
        vtrr: dict[str, Any] | None = None,
        celery: dict[str, Any] | None = None,
        more: dict[str, Any] | None = None,
    ) -> None:
        self.site = site
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [interpreter or sys.executable, "-m", "benchmarks.sites"],
            cwd=ROOT,
            env=environment(site, databases, vtrr=vtrr, celery=celery, more=more),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def call(self, function: str, **arguments: Any) -> Any:
        """Call a function of the site and return what it returns.

        Raises:
            AgentFailed: the function raised; its traceback is on standard error.
        """
        self.start(function, **arguments)
        return self.result()

    def start(self, function: str, **arguments: Any) -> None:
        """Begin a call; :meth:`result` must follow."""
        assert self._process.stdin is not None  # noqa: S101 - for the type checker
        self._process.stdin.write(json.dumps([function, arguments]) + "\n")
        self._process.stdin.flush()

    def result(self) -> Any:
        """Wait for the end of the call begun last and return what it returned."""
        assert self._process.stdout is not None  # noqa: S101 - for the type checker
        line = self._process.stdout.readline()
        if not line:
            raise AgentFailed(f"the process of {self.site} ended with {self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise AgentFailed(f"{self.site}: {answer['error']}")
        return answer["result"]
