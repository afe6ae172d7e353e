"""The Redis of the example: one that runs already, or one that is started for it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import redis
from django.core.management import CommandError
from redis.backoff import NoBackoff
from redis.retry import Retry

from example_project.environment import REDIS_VARIABLE, USUAL_REDIS
from example_project.processes import Processes

NAME = "redis server"
PROGRAMS = ("redis-server", "valkey-server")
OLDEST = (6, 2)
HERE = ("127.0.0.1", "localhost", "::1")
SECONDS = 3.0

OTHER_PORTS = range(6380, 6480)
"""Where to start one if the port it should have is taken."""

OWNER = "vtrr-example:data"
"""The key that says whose a database is: it holds the path of the data folder."""

NUMBERS = range(15, 0, -1)
"""Databases to look at, those first that are used least; in 0 people have things of theirs."""


def use_or_start(
    processes: Processes, data_dir: Path, wanted: str | None, say: Callable[[str], None]
) -> str:
    """Return the URL of a Redis database that the data folder has to itself.

    Where Redis runs, a database of it that is empty, or that the folder had before. Where
    none runs, start one that keeps its data in the folder; from then on that one is used.

    Args:
        processes: what a Redis that is started will belong to.
        data_dir: the data folder.
        wanted: where it is, or should be started; None: the usual port.
        say: tells a person what was done.

    Raises:
        CommandError: there is none to be had; the message says why, and what to do.
    """
    kept = data_dir / "redis-server"
    if wanted is None and kept.exists():
        return start(processes, kept, urlsplit(USUAL_REDIS).port or 0, say, lasting=True)
    place = _parse(wanted or USUAL_REDIS)
    if _listens(place):
        return _claim(place, str(data_dir), say)
    if place.hostname not in HERE or place.password:
        raise CommandError(f"expected a Redis at {_name(place)}, got none: nothing listens there.")
    return start(processes, kept, place.port or 0, say, lasting=True)


def start(
    processes: Processes, folder: Path, port: int, say: Callable[[str], None], *, lasting: bool
) -> str:
    """Start a Redis on this machine and return its URL, once it answers.

    Args:
        processes: what it will belong to.
        folder: for its data.
        port: any free one if that is taken or 0.
        say: tells a person what is done.
        lasting: whether it should remember its data when it is started again.

    Raises:
        CommandError: it is not installed, or runs on that folder already.
    """
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        raise CommandError(
            f"expected {PROGRAMS[0]} to be installed, got none in PATH: install it (apt-get "
            "install redis-server, brew install redis), or say where make serve finds a Redis "
            f"with {REDIS_VARIABLE}=redis://host:port."
        )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    port = _free_port(port)
    say(f"Starting {program} on port {port}" + (f", with its data in {folder}" if lasting else ""))
    lock = _lock(folder)
    try:
        pid = processes.start_server(
            NAME,
            *(program, "--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder)),
            *("--save", "", "--appendonly", "yes" if lasting else "no"),
            *("--logfile", str(folder / "log"), "--pidfile", str(folder / "pid")),
            pass_fds=[lock],  # it holds the lock as long as it lives
        )
    finally:
        os.close(lock)
    url = f"redis://127.0.0.1:{port}/0"
    with _client(url) as client:
        while _pid_of(client) != pid:
            processes.check()
            time.sleep(0.02)
        _check_version(client, urlsplit(url))
    return url


def _pid_of(client: redis.Redis) -> int | None:
    """Return the process id of what answers; None as long as it loads its data, or nothing does."""
    try:
        return int(client.info("server")["process_id"])
    except redis.RedisError:
        return None


def _lock(folder: Path) -> int:
    """Return a file descriptor with a lock: two servers on the same files would spoil them."""
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise CommandError(
            f"expected no Redis to run on {folder}, got one (its process id is in the file pid "
            "there): is the example running already?"
        ) from error
    return lock


def _free_port(wanted: int) -> int:
    # Not the one the system would give: it may give it again, to any connection that goes out,
    # before Redis listens there.
    others = random.sample(OTHER_PORTS, len(OTHER_PORTS))  # two demos at once should not meet
    for port in filter(None, (wanted, *others)):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise CommandError(
        f"expected a free port on 127.0.0.1, got none of {OTHER_PORTS[0]} to {OTHER_PORTS[-1]}."
    )


# -- one that runs already -------------------------------------------------------------


def _claim(place: SplitResult, owner: str, say: Callable[[str], None]) -> str:
    """Return the URL of a database for ``owner``: the one it has, else an empty one."""
    try:
        with _client(place._replace(path="").geturl()) as client:
            _check_version(client, place)
        for url in _candidates(place, owner):
            with _client(url) as client:
                client.set(OWNER, owner, nx=True)
                if client.get(OWNER) == owner:
                    number = urlsplit(url).path[1:]
                    say(f"Using the Redis that runs at {_name(place)}, its database {number}")
                    return url
    except redis.AuthenticationError as error:
        raise CommandError(
            f"expected to be let in by the Redis at {_name(place)}, got: {error}; say the password "
            f"with {REDIS_VARIABLE}=redis://:password@host:port, or start one with "
            f"{REDIS_VARIABLE}=redis://127.0.0.1:6380."
        ) from error
    except redis.RedisError as error:
        raise CommandError(
            f"expected a Redis at {_name(place)}, got: {error}; start one elsewhere with "
            f"{REDIS_VARIABLE}=redis://127.0.0.1:6380."
        ) from error
    where = f"in {place.path[1:]}" if place.path[1:] else f"among {NUMBERS[-1]} to {NUMBERS[0]}"
    raise CommandError(
        f"expected an empty database {where} of the Redis at {_name(place)}, got only others' "
        f"data: give another number with {REDIS_VARIABLE}=redis://host:port/number, or start a "
        f"Redis with {REDIS_VARIABLE}=redis://127.0.0.1:6380."
    )


def _candidates(place: SplitResult, owner: str) -> Iterator[str]:
    """Yield the URLs of databases that are the owner's, then of those that are empty."""
    empty = []
    for number in [int(place.path[1:])] if place.path[1:] else NUMBERS:
        url = place._replace(path=f"/{number}").geturl()
        try:
            with _client(url) as client:
                if client.get(OWNER) == owner:
                    yield url
                elif not client.dbsize():
                    empty.append(url)
        except redis.ResponseError:
            continue  # it has fewer databases than that
    yield from empty


def _check_version(client: redis.Redis, place: SplitResult) -> None:
    version = str(client.info("server")["redis_version"])
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        raise CommandError(
            f"expected Redis {'.'.join(map(str, OLDEST))} or newer at {_name(place)}, got "
            f"{version}: start another with {REDIS_VARIABLE}=redis://127.0.0.1:6380."
        )


def _client(url: str) -> redis.Redis:
    return redis.Redis.from_url(
        url,
        decode_responses=True,
        socket_timeout=SECONDS,
        socket_connect_timeout=SECONDS,
        retry=Retry(NoBackoff(), 0),
    )


def _parse(url: str) -> SplitResult:
    try:
        place = urlsplit(url)
        port = place.port or 6379
    except ValueError:
        place, port = urlsplit(""), 0
    number = place.path.strip("/")
    if place.scheme != "redis" or not place.hostname or not (number or "0").isdecimal():
        # The value is not shown: it may hold a password.
        raise CommandError(f"{REDIS_VARIABLE}: expected redis://[:password@]host:port[/number].")
    netloc = place.netloc if place.port else f"{place.netloc.rstrip(':')}:{port}"
    return place._replace(netloc=netloc, path=f"/{number}" if number else "")


def _listens(place: SplitResult) -> bool:
    try:
        socket.create_connection((place.hostname or "", place.port or 0), SECONDS).close()
    except OSError:
        return False
    return True


def _name(place: SplitResult) -> str:
    """Return where it is, without the password."""
    return f"{place.hostname}:{place.port}"
