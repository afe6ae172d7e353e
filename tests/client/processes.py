"""``vtrr_serve`` and workers without Django settings, in processes of their own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.commands.manage import ROOT, Process
from tests.ports import claim_port, give_back
from tests.races.waiting import PATIENCE, until

SECRET = "of the tests: 1d9f 40b6 e27c 83a5 c6f2"

_ADDRESS = re.compile(r"listening on (http://\S+:[0-9]+)\n")


class Server:
    """``manage.py vtrr_serve``, which keeps its port when it is started again."""

    def __init__(self, folder: Path, vtrr: dict[str, Any]) -> None:
        self._folder = folder
        self._env = {"VTRR_TEST_SETTINGS": json.dumps(vtrr)}
        self._port = claim_port()
        self._process: Process | None = None
        self.url = ""

    def start(self) -> None:
        """Return when it answers."""
        arguments = ("vtrr_serve", "--port", str(self._port))
        self._process = process = Process(self._folder, arguments, self._env)
        told = self._folder / "stdout"
        until(
            lambda: _ADDRESS.search(told.read_text()) or not process.running,
            lambda: f"the server to answer: {process.err}",
        )
        found = _ADDRESS.search(told.read_text())
        assert found, process.err
        self.url = found[1]

    def stop(self) -> None:
        """SIGTERM it: requests end."""
        assert self._process is not None
        self._process.signal(signal.SIGTERM)
        ended = self._process.end()
        assert ended.status == 0, ended.err

    def kill(self) -> None:
        """SIGKILL it and all its processes."""
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """Kill it, and let others have its port."""
        self.kill()
        give_back(self._port)


class RemoteProcess:
    """``python -m tests.client.remote``, whose environment names no Django settings."""

    def __init__(self, folder: Path, plan: dict[str, Any]) -> None:
        names = ("DJANGO_SETTINGS_MODULE", "VTRR_TEST_SETTINGS", "VTRR_TEST_DATABASES")
        env = {name: value for name, value in os.environ.items() if name not in names}
        self._out = folder / f"{plan['worker_id']}.out"
        with self._out.open("w") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "error", "-m", "tests.client.remote", json.dumps(plan)],
                cwd=ROOT,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    @property
    def told(self) -> str:
        return self._out.read_text()

    def kill(self) -> None:
        """SIGKILL it."""
        self._process.kill()
        self._process.wait(PATIENCE)

    def stop(self) -> dict[str, int]:
        """SIGTERM it; return its summary."""
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(PATIENCE) == 0, self.told
        found: dict[str, int] = json.loads(self.told.splitlines()[-1])
        return found
