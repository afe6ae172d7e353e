"""What a module may do at import: declare tasks, on queues whose settings name what imports it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]


class Ended(NamedTuple):
    out: list[str]
    err: str


class Project:
    """A Django project whose models import its tasks, and its billing its models."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "shop").mkdir()
        self.write("shop/__init__.py", "")
        self.write("shop/models.py", "from shop import tasks\nclass Plan: shares = {'a': 2}")
        self.write(
            "shop/billing.py",
            "from shop.models import Plan\ndef share_of(key): return Plan.shares.get(key)",
        )

    def write(self, path: str, text: str) -> None:
        (self._folder / path).write_text(textwrap.dedent(text))

    def run(self, tasks: str, queue: str, then: str = "") -> Ended:
        """Set Django up with tasks and the settings of a queue; then run more."""
        self.write("shop/tasks.py", tasks)
        code = f"""
            from django.conf import settings
            settings.configure(
                INSTALLED_APPS=["vtrr_django", "shop"],
                DATABASES={{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": "x"}}}},
                VTRR={{"QUEUES": {{"mails": {queue}}}}},
            )
            import django
            django.setup()
            from django.core.management import call_command
            from vtrr_django import get_queue
        """
        code = textwrap.dedent(code) + textwrap.dedent(then)
        ended = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            cwd=self._folder,
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{self._folder}"},
            capture_output=True,
            text=True,
            check=False,
        )
        return Ended(ended.stdout.split(), ended.stderr)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


TWO_TASKS = """
    from vtrr_django import get_queue
    queue = get_queue("mails")
    @queue.task
    def one(self): pass
    @queue.task
    def two(self): pass
"""
LITEWORKS = """
    from dataclasses import dataclass
    from vtrr_django.client import Liteworks
    @dataclass
    class Note: text: str
    for name in ("mails", "others"):
        @Liteworks(name).handler
        def note(message: Note): pass
    from vtrr_django import get_queue
    queue = get_queue("mails")
"""
SHARES = "{'SHARES': 'shop.billing.share_of'}"


@pytest.mark.parametrize("tasks", [TWO_TASKS, LITEWORKS], ids=["tasks", "liteworks"])
def test_settings_may_name_what_imports_the_tasks(project: Project, tasks: str) -> None:
    ended = project.run(
        tasks,
        SHARES,
        "print(len(get_queue('mails').runnables), get_queue('mails').config.shares('a'))",
    )
    assert ended.out == ["2" if tasks is TWO_TASKS else "1", "2"], ended.err


@pytest.mark.parametrize("tasks", [TWO_TASKS, LITEWORKS], ids=["tasks", "liteworks"])
def test_what_is_wrong_in_settings_is_for_the_checks_to_say(project: Project, tasks: str) -> None:
    ended = project.run(tasks, "{'SHARE': 1}", "call_command('check')")
    assert "(vtrr.E001)" in ended.err
    assert "did you mean 'SHARES'?" in ended.err


def test_a_second_task_of_a_queue_that_celery_runs_is_refused_at_the_setup(
    project: Project,
) -> None:
    ended = project.run(TWO_TASKS, "{'CELERY_QUEUE': 'c'}", "print('set up')")
    assert ended.out == []
    assert "ValueError: expected one task on queue 'mails'" in ended.err
    assert "got 'shop.tasks.two' besides 'shop.tasks.one'" in ended.err


def test_tasks_of_a_vtrr_queue_are_known_to_celery(project: Project) -> None:
    project.write("shop/capp.py", "import celery; app = celery.Celery(broker='memory://')")
    tasks = """
        import redis
        from shop.capp import app
        from vtrr_django.contrib.celery import VTRRQueue
        queue = VTRRQueue(redis.Redis(), app, name="own")
        @queue.task
        def job(self): pass
    """
    ended = project.run(
        tasks, "{}", "from shop.capp import app; print('shop.tasks.job' in app.tasks)"
    )
    assert ended.out == ["True"], ended.err
