"""``serve`` as a process, and whatever it has started."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from example_project.accounts import SMALL_TENANT
from example_project.browser import Browser
from example_project.environment import ROOT
from example_project.processes import time_limit
from tests.races.waiting import PATIENCE


def environment(**values: str) -> dict[str, str]:
    """Return the environment without what steers Django, pytest and the example."""
    ours = ("CELERY_", "DJANGO_", "PYTEST_", "VTRR_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return kept | values


PROGRAM = (
    "import sys; from example_project import processes, serve; processes.STOP_SECONDS = {}; "
    "sys.exit(serve.main())"
)


class ServeProcess:
    """The example, started, and ready.

    Args:
        data_dir: its data folder.
        patience: seconds that its processes have to end.
        variables: of its environment.

    Attributes:
        printed: what it said until it was ready.
        address: of the web server.
    """

    def __init__(self, data_dir: Path, patience: float, **variables: str) -> None:
        self._mark = f"VTRR_EXAMPLE_DATA={data_dir}".encode()
        self._redis = data_dir / "redis-server" / "pid"
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM.format(patience), "--port=0"],
            cwd=ROOT,
            env=environment(VTRR_EXAMPLE_DATA=str(data_dir), **variables),
            stdout=subprocess.PIPE,
            text=True,
        )
        self.printed = ""
        assert self.process.stdout is not None
        with time_limit(PATIENCE):
            for line in self.process.stdout:
                self.printed += line
                if "Ctrl-C stops it" in line:
                    break
        found = re.search(r"http://127\.0\.0\.1:\d+/", self.printed)
        assert found, self.printed
        self.address = found.group()

    def browser(self) -> Browser:
        """Return the browser of the small tenant, signed in."""
        browser = Browser(self.address)
        browser.sign_in(SMALL_TENANT.username, SMALL_TENANT.password)
        return browser

    def stop(self) -> int:
        """SIGTERM it; return its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def started(self) -> dict[int, str]:
        """Return ``{process id: command line}`` of what it and its children have started.

        They are known by the environment that they have from it; Redis writes its title there,
        and its process id into a file.
        """
        redis = self._redis.read_text().strip() if self._redis.exists() else ""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            # Some end while one looks; others' are not ours to look at.
            with contextlib.suppress(OSError):
                ours = self._mark in (folder / "environ").read_bytes().split(b"\0")
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if ours or (folder.name == redis and "redis-server" in line):
                    found[int(folder.name)] = line
        found.pop(self.process.pid, None)
        return found


@contextlib.contextmanager
def serve(data_dir: Path, patience: float = 8, **variables: str) -> Iterator[ServeProcess]:
    """Start ``serve``; should the test fail, nothing of it stays."""
    site = ServeProcess(data_dir, patience, **variables)
    try:
        yield site
    finally:
        if site.process.poll() is None:
            site.stop()
        assert site.process.stdout is not None
        site.process.stdout.close()
        left = site.started()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert not left
