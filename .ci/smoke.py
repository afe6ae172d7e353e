"""Use the installed wheel as a new user would: no checkout.

Usage: smoke.py EXTRA. Without extra there is no Redis and no Celery either; with ``[all]``
there are both, and a queue in Redis next to the one in the database.
"""

from __future__ import annotations

import importlib.metadata
import importlib.resources
import importlib.util
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import django
from django.conf import settings
from django.core.management import call_command

full = sys.argv[1] == "[all]"
for optional in ("redis", "celery"):
    installed = importlib.util.find_spec(optional) is not None
    assert installed == full, f"{optional} is {'' if installed else 'not '}installed here"

import vtrr_django  # noqa: E402 - importing it may touch no settings, so there are none yet

home = Path(vtrr_django.__file__).resolve().parent
assert home.is_relative_to(Path(sys.prefix).resolve()), f"{home} is not the installed package"
assert vtrr_django.__version__ == importlib.metadata.version("vtrr-django")
assert importlib.resources.files("vtrr_django").joinpath("py.typed").is_file()
assert "django.db.models" not in sys.modules, "importing vtrr_django imported models"

IN_REDIS = {"ENGINE": "redis", "URL": "redis://127.0.0.1:6379/9"}
NAMES = ["default", f"smoke-{os.getpid()}"] if full else ["default"]

sums: list[int] = []

with tempfile.TemporaryDirectory() as folder:
    settings.configure(
        INSTALLED_APPS=["vtrr_django"],
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.sqlite3",
                "NAME": f"{folder}/db.sqlite3",
                # As the README recommends, or a system check warns.
                "OPTIONS": {
                    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
                    "transaction_mode": "IMMEDIATE",
                    "timeout": 20,
                },
            }
        },
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        USE_TZ=True,
        VTRR={"QUEUES": {name: {} if name == "default" else IN_REDIS for name in NAMES}},
    )

    from vtrr_django import get_queue  # before setup(): safe at import time

    queues = [get_queue(name) for name in NAMES]

    def add(self: Any, a: int, b: int) -> None:
        sums.append(a + b)

    tasks = [queue.task(add) for queue in queues]

    django.setup()
    call_command("check", fail_level="WARNING")
    call_command("migrate", verbosity=0)
    if full:
        import vtrr_django.contrib.celery  # it has to be there

    for queue, task in zip(queues, tasks, strict=True):
        job_id = task.enqueue(1, 2, partition_key="acme")
        assert isinstance(job_id, str), job_id
        assert task.queue(partition_key="b", tasks=[{"args": [3, 4]}, {"args": [5, 6]}])
        queue.worker().run_burst()
        assert sorted(sums) == [3, 7, 11], sums
        sums.clear()
        stats = queue.stats()
        assert (stats["ready"], stats["completed"], stats["failed"]) == (0, 3, 0), stats
        if queue.name != "default":
            import redis

            with redis.Redis.from_url(IN_REDIS["URL"]) as client:
                client.delete(*client.scan_iter(f"vtrr:{queue.name}:*"))

print(f"smoke: vtrr-django {vtrr_django.__version__}, Django {django.__version__}: {NAMES} work")
