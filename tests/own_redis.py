"""Redis servers that belong to one test, which may stop, freeze and kill them."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.ports import claim_port, give_back

PROGRAM = "redis-server"

START_SECONDS = 20


class OwnRedis:
    """A Redis server on a free port of this machine, in a folder of its own.

    Args:
        config: lines of redis.conf, name -> value; nothing is written to disk by default.
        acl: lines of an ACL file, ``user NAME on >PASSWORD ~vtrr:* +@all``.
        sentinel_of: be a Sentinel instead, which looks after that server.
    """

    SENTINEL_NAME = "vtrr"

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        acl: str | None = None,
        sentinel_of: OwnRedis | None = None,
    ) -> None:
        # Not pytest's: the path of a Unix socket has to be short.
        self.folder = Path(tempfile.mkdtemp(prefix="vtrr-redis-"))
        self.port = claim_port()
        self.socket = self.folder / "redis.sock"
        self._sentinel = sentinel_of is not None
        self._config: dict[str, Any] = {
            "bind": "127.0.0.1",
            "port": self.port,
            "dir": self.folder,
            "unixsocket": self.socket,
        }
        if sentinel_of is not None:
            self._config |= {
                "sentinel monitor": f"{self.SENTINEL_NAME} 127.0.0.1 {sentinel_of.port} 1"
            }
        else:
            self._config |= {"save": '""', "appendonly": "no"}
        if acl is not None:
            (self.folder / "users.acl").write_text(acl)
            self._config["aclfile"] = self.folder / "users.acl"
        self._config |= config or {}
        self.password = str(self._config.get("requirepass", ""))
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        assert self._process is not None, "it does not run"
        return self._process.pid

    def url(self, db: int = 0, *, user: str = "", password: str | None = None) -> str:
        """Return where it is, for clients."""
        secret = self.password if password is None else password
        who = f"{quote(user)}:{quote(secret, safe='')}@" if user or secret else ""
        return f"redis://{who}127.0.0.1:{self.port}/{db}"

    def client(self, **options: Any) -> Any:
        """Return a client of its own, for looking behind the engine's back."""
        import redis

        return redis.Redis.from_url(self.url(), socket_timeout=START_SECONDS, **options)

    # -- its life ------------------------------------------------------------------

    def start(self) -> None:
        """Start it, with what is on disk; return when it takes commands."""
        assert self._process is None, "it runs already"
        path = self.folder / "redis.conf"
        # Sentinel keeps what it has found out in this file.
        if not (self._sentinel and path.exists()):
            path.write_text("".join(f"{name} {value}\n" for name, value in self._config.items()))
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [PROGRAM, str(path), *(["--sentinel"] if self._sentinel else [])],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            told = (self.folder / "log").read_text()
            assert self._process.poll() is None, told
            assert time.monotonic() < deadline, f"no answer within {START_SECONDS} s: {told}"
            time.sleep(0.01)

    def _answers(self) -> bool:
        """Return whether it has loaded what it has on disk; who asks need not be let in."""
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self.port), 1) as s,
        ):
            s.sendall(b"PING\r\n")
            return s.recv(100).startswith((b"+PONG", b"-NOAUTH", b"-NOPERM"))
        return False

    def stop(self) -> None:
        """Let it end in good order."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL it."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(START_SECONDS)
            self._process = None

    def freeze(self) -> None:
        """SIGSTOP it: the system still takes connections for it, and nothing answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT it: it does what it was sent meanwhile."""
        os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        """Kill it and remove its folder."""
        self.kill()
        give_back(self.port)
        shutil.rmtree(self.folder)
