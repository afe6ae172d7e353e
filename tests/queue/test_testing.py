"""``vtrr_django.testing`` runs jobs inside the transaction of a project's ``TestCase``."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core.management import CommandError, call_command
from django.db import transaction
from django.test import TestCase, override_settings

from vtrr_django import Discard, Snooze, get_queue
from vtrr_django.models import CompletedJob, Job
from vtrr_django.testing import run_jobs


@override_settings(VTRR={"QUEUES": {"t-inline": {"RETRY": None}}})
class RunJobsTests(TestCase):
    def test_jobs_enqueued_in_the_test_run_in_the_test(self) -> None:
        queue = get_queue("t-inline")
        seen: list[tuple[str, bool]] = []

        @queue.task(time_limit=60)
        def work(self: Any, what: str) -> None:
            seen.append((what, transaction.get_connection().in_atomic_block))
            match what:
                case "more":
                    work.enqueue("child", partition_key="a", parent_id=self.request.id)
                case "fail":
                    raise LookupError("gone")
                case "exit":
                    raise SystemExit
                case "snooze":
                    raise Snooze(60)
                case "discard":
                    raise Discard("no")

        for what in ("fine", "more", "fail", "exit", "snooze", "discard"):
            work.enqueue(what, partition_key=what)
        summary = run_jobs(queue)
        assert (summary.succeeded, summary.failed, summary.snoozed, summary.died) == (3, 2, 1, 1)
        assert len(seen) == 7
        assert all(inside for _, inside in seen)
        assert CompletedJob.objects.count() == 3
        assert run_jobs(queue).jobs == 0

    def test_a_coroutine_runs_in_the_test(self) -> None:
        queue = get_queue("t-inline")

        @queue.task(soft_time_limit=60)
        async def work(self: Any) -> None:
            assert await sync_to_async(lambda: transaction.get_connection().in_atomic_block)()
            assert await Job.objects.filter(id=self.request.id).aexists()

        work.enqueue(partition_key="a")
        assert run_jobs(queue).succeeded == 1

    def test_a_worker_is_refused_and_leaves_the_test_its_transaction(self) -> None:
        queue = get_queue("t-inline")

        @queue.task
        def work(self: Any) -> None: ...

        work.enqueue(partition_key="a")
        with pytest.raises(CommandError, match=r"testing\.run_jobs"):
            call_command("vtrr_worker", queue=[queue.name], burst=True, verbosity=0)
        assert run_jobs(queue).succeeded == 1

    def test_nothing_is_left_for_the_next_test(self) -> None:
        assert not Job.objects.exists()
        assert not CompletedJob.objects.exists()

    def test_an_endless_chain_of_jobs_ends(self) -> None:
        queue = get_queue("t-inline")

        @queue.task
        def again(self: Any) -> None:
            again.enqueue(partition_key="a")

        again.enqueue(partition_key="a")
        assert run_jobs(queue, max_jobs=20).succeeded == 20
        assert queue.stats()["ready"] == 1


@pytest.mark.django_db
def test_retry_of_a_task_that_is_called_directly_raises_its_reason() -> None:
    @get_queue("t-direct").task
    def work(self: Any) -> None:
        self.retry(exc=LookupError("gone"))

    with pytest.raises(LookupError, match="gone"):
        work()
