"""How many triggers are sent, when, and to where. No worker takes any of them."""

from __future__ import annotations

import logging

import pytest
from django.db import transaction

from tests.celery.conftest import StartsSite, pairs
from tests.celery.site import Site

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")


@pytest.fixture(params=pairs)
def site(request: pytest.FixtureRequest, open_site: StartsSite) -> Site:
    return open_site(request.param, {"plain": {"MAX_CONCURRENCY": 4}})


def test_at_most_max_concurrency_wait(site: Site) -> None:
    site.enqueue("plain", "one")
    assert site.triggers("plain") == 1
    site.tasks["plain"].queue(partition_key="a", tasks=[{"args": ["x"]}] * 10)
    site.enqueue("plain", "two")
    assert site.triggers("plain") == 4
    site.queue("plain").reclaim_and_dispatch()
    assert site.triggers("plain") == 4


def test_sent_after_the_commit(site: Site) -> None:
    alias = site.queue("plain").engine.transaction_alias or "default"
    with transaction.atomic(using=alias):
        for label in ("one", "two", "three"):
            site.enqueue("plain", label)
        if alias != "default":
            assert site.triggers("plain") == 0
    assert site.triggers("plain") == 3


def test_nothing_is_sent_after_a_rollback(site: Site) -> None:
    alias = site.queue("plain").engine.transaction_alias or "default"
    with pytest.raises(ZeroDivisionError), transaction.atomic(using=alias):
        site.enqueue("plain", "never")
        raise ZeroDivisionError
    assert site.triggers("plain") == 0
    assert site.queue("plain").stats()["ready"] == 0


def test_reclaim_and_dispatch_sends_what_waits(site: Site) -> None:
    queue = site.queue("plain")
    queue.pause()
    site.tasks["plain"].queue(partition_key="a", tasks=[{"args": ["x"]}] * 2)
    _purge(site)
    queue.reclaim_and_dispatch()
    assert site.triggers("plain") == 0
    queue.resume()
    assert site.triggers("plain") == 2
    _purge(site)
    queue.reclaim_and_dispatch()
    assert site.triggers("plain") == 2


def test_broker_down_loses_no_job(
    site: Site, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = site.queue("plain")
    monkeypatch.setattr(queue.dispatcher, "_app", None)
    down = type(site.app)("down", broker="redis://127.0.0.1:1/0", set_as_current=False)
    monkeypatch.setattr(queue.dispatcher, "_app", down)
    down.finalize()
    with caplog.at_level(logging.ERROR, logger="vtrr_django.celery"):
        site.enqueue("plain", "safe")
    assert queue.stats()["ready"] == 1
    assert "could not be sent" in caplog.text
    down.close()


def test_piled_up_reclaims_are_no_triggers(site: Site) -> None:
    if site.plan.broker.startswith("amqp"):
        pytest.skip("a broker that drops expired messages itself")
    name = f"vtrr_queue.reclaim.{site.plan.name_of('plain')}"
    options = site.app.conf.beat_schedule[name]["options"]
    for _ in range(6):
        site.app.send_task(name, **options)
    site.enqueue("plain", "one")
    site.tasks["plain"].queue(partition_key="a", tasks=[{"args": ["x"]}] * 10)
    assert site.triggers("plain") == 6 + 4


def test_messages_carry_no_arguments(site: Site) -> None:
    with pytest.raises(TypeError, match="enqueue"):
        site.app.tasks[site.tasks["plain"].name].apply_async(["x"])


def _purge(site: Site) -> None:
    with site.app.connection_for_write() as connection:
        connection.default_channel.queue_purge(site.plan.name_of("plain"))
