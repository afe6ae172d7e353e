"""What members of staff may do with the session of their site, each permission alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from tests.contract.jobs import put
from vtrr_django import get_queue
from vtrr_django.api.looking import HIDDEN

pytestmark = pytest.mark.django_db(transaction=True)

CANARY = "card 4111 was declined"


@pytest.fixture(autouse=True)
def _site(settings: Any) -> None:
    settings.ROOT_URLCONF = "vtrr_django.api.urls"
    settings.VTRR = {"QUEUES": {"default": {}}, "SECRET": "secret"}


def staff(*permissions: str) -> Client:
    person = User.objects.create_user(f"p{User.objects.count()}", is_staff=True)
    ours = Permission.objects.filter(content_type__app_label="vtrr_django")
    person.user_permissions.set(ours.filter(codename__in=permissions))
    client = Client()
    client.force_login(person)
    return client


def post(client: Client, path: str, body: Any) -> int:
    return client.post(path, json.dumps(body), content_type="application/json").status_code


ALL = ("view_queuestate", "see_payloads", "steer_queues", "requeue_jobs", "purge_queues")


def test_what_workers_do_is_no_business_of_theirs() -> None:
    """A claim shows arguments and an ack makes a job gone: no permission of the admin says so."""
    put(get_queue().engine, "acme")
    client = staff(*ALL, "enqueue_jobs")
    lease = {"id": "x", "token": "y"}
    assert post(client, "/default/claim", {"worker_id": "me"}) == 403
    assert post(client, "/default/finish", {"outcomes": [], "claim": {"worker_id": "me"}}) == 403
    assert post(client, "/default/renew", {"leases": [lease]}) == 403
    assert post(client, "/default/fail", lease) == 403
    assert client.delete("/default/jobs/x?token=y").status_code == 403
    assert get_queue().depth().ready == 1


def test_enqueueing_has_a_permission_of_its_own() -> None:
    job = {"task": "t", "partition_key": "acme"}
    assert post(staff(*ALL), "/default/jobs", job) == 403
    assert get_queue().depth().ready == 0
    assert post(staff("enqueue_jobs"), "/default/jobs", job) == 201


def test_error_texts_need_the_permission_that_they_need_in_the_admin() -> None:
    queue = get_queue()
    put(queue.engine, "acme")
    [job] = queue.lease()
    queue.fail(job, CANARY)

    for client, told in (
        (staff("view_queuestate"), HIDDEN),
        (staff("view_queuestate", "see_payloads"), CANARY),
    ):
        answer = client.get("/default/stats")
        assert answer.json()["recent_failures"][0]["reason"] == told
        assert (CANARY in answer.content.decode()) == (told == CANARY)
