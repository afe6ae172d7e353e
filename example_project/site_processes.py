"""The processes that make the site, on one data folder: a web server, and what runs the jobs.

Those are ``vtrr_worker``, or with ``VTRR_ENGINE=redis`` a Celery worker, beat and Redis.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import django
from django.core.management import CommandError, call_command

from example_project import environment
from example_project.accounts import create_accounts
from example_project.processes import Processes


def prepare(
    processes: Processes, data_dir: Path, say: Callable[[str], None], *, fresh: bool = False
) -> None:
    """Set Django up on ``data_dir`` in this process; create the tables and the accounts.

    With ``VTRR_ENGINE=redis`` see to it that there is a Redis, first.

    Args:
        processes: what a Redis that is started will belong to.
        data_dir: where the site keeps everything.
        say: tells a person which Redis is used.
        fresh: the folder is new and goes when the site ends: start a Redis in any case.

    Raises:
        CommandError: the settings are wrong, or something is not installed; the message
            says how.
    """
    os.environ["DJANGO_SETTINGS_MODULE"] = "example_project.settings"
    os.environ["VTRR_EXAMPLE_DATA"] = str(data_dir)
    if environment.engine() == "redis":
        _prepare_redis(processes, data_dir, say, fresh=fresh)
    django.setup()
    call_command("check", stdout=io.StringIO())
    call_command("migrate", verbosity=0, interactive=False)
    create_accounts()


def _prepare_redis(
    processes: Processes, data_dir: Path, say: Callable[[str], None], *, fresh: bool
) -> None:
    missing = [name for name in ("redis", "celery") if find_spec(name) is None]
    if missing:
        raise CommandError(
            f"VTRR_ENGINE=redis: expected {' and '.join(missing)} to be installed: "
            "pip install 'vtrr-django[redis,celery]', or start the example with make, which does."
        )
    from example_project import redis_server  # noqa: PLC0415 - now that redis is there

    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    if fresh:
        url = redis_server.start(processes, data_dir / "redis-server", 0, say, lasting=False)
    else:
        wanted = os.environ.get(environment.REDIS_VARIABLE)
        url = redis_server.use_or_start(processes, data_dir, wanted or None, say)
    os.environ[environment.REDIS_VARIABLE] = url
    environment.remember_redis(url)


def start(
    processes: Processes,
    data_dir: Path,
    *,
    workers: int,
    port: int = 0,
) -> str:
    """Start all but Redis and return the address, once the web server listens on it.

    Args:
        processes: what they will belong to.
        data_dir: where the site keeps everything, see :func:`prepare`.
        workers: jobs at once.
        port: of the web server; any free one if that is taken or 0.
    """
    announcement = data_dir / "address"
    announcement.unlink(missing_ok=True)
    processes.start(
        "web server",
        "example_project.webserver",
        f"--port={port}",
        "--or-any",
        f"--announce={announcement}",
    )
    if environment.engine() == "redis":
        _start_celery(processes, data_dir, workers)
    else:
        processes.start(
            "worker", "django", "vtrr_worker", "--queue=uploads", f"--concurrency={workers}"
        )
    return processes.wait_for(announcement)


def _start_celery(processes: Processes, data_dir: Path, workers: int) -> None:
    # It is alone: there is nobody to mingle and gossip with.
    processes.start(
        "celery worker",
        *("celery", "--quiet", "--app=example_project", "worker", "--queues=vtrr_uploads"),
        *(f"--concurrency={workers}", "--without-gossip", "--without-mingle"),
    )
    processes.start(
        "celery beat",
        *("celery", "--quiet", "--app=example_project", "beat"),
        f"--schedule={data_dir / 'beat-schedule'}",
    )
