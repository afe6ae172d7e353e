"""Celery, where it runs queues: their triggers, its app and its broker."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from django.core import checks
from django.core.checks import CheckMessage, Error
from django.utils.module_loading import import_string

from vtrr_django.checks.declared import declared_queues, queue_path

SHORT_VISIBILITY = 660.0
"""Seconds: the longest backoff of Celery's ``autoretry_for``, 600, and a minute more."""


def check_celery_queues(**kwargs: Any) -> list[CheckMessage]:
    """E010: two queues whose triggers would mix; E014: no Celery to send them with."""
    messages: list[CheckMessage] = []
    first_of: dict[str, str] = {}
    for name, config in declared_queues():
        celery_queue = config.celery_queue
        if celery_queue is None:
            continue
        if find_spec("celery") is None:
            messages.append(
                Error(
                    f"Queue {name!r} has a CELERY_QUEUE, but Celery is not installed.",
                    hint=(
                        "pip install 'vtrr-django[celery]', or set CELERY_QUEUE to None and run "
                        f"manage.py vtrr_worker --queue {name}."
                    ),
                    obj=queue_path(name, "CELERY_QUEUE"),
                    id="vtrr.E014",
                )
            )
        first = first_of.setdefault(celery_queue, name)
        if first != name:
            messages.append(
                Error(
                    f"Queues {first!r} and {name!r} share the Celery queue {celery_queue!r}, "
                    "where a trigger does not say which of them to lease from.",
                    hint="Give each queue a CELERY_QUEUE of its own.",
                    obj=queue_path(name, "CELERY_QUEUE"),
                    id="vtrr.E010",
                )
            )
    return messages


def check_celery_app(**kwargs: Any) -> list[CheckMessage]:
    """E015, W005, W012, W013: a Celery app that is not there, or does not suit the queues."""
    queues = {name: config for name, config in declared_queues() if config.celery_queue is not None}
    if not queues or find_spec("celery") is None:
        return []
    try:
        facts = import_string("vtrr_django.contrib.celery.facts.app_facts")()
    except Exception as error:  # noqa: BLE001 - whatever a broker's client lacks or refuses
        return [
            checks.Error(
                f"Celery cannot work with its broker settings: {type(error).__name__}: {error}",
                hint="Install what is missing, or correct CELERY_BROKER_URL and its options.",
                obj="settings.CELERY_BROKER_URL",
                id="vtrr.E015",
            )
        ]
    messages: list[CheckMessage] = []
    if facts.fallback:
        return [
            checks.Warning(
                "No Celery app is loaded here: triggers would go to the broker of Celery's "
                "fallback app, amqp://localhost.",
                hint=(
                    "Import your app in the __init__.py of the project's package: "
                    "from .celery import app as celery_app."
                ),
                obj="settings.VTRR['QUEUES']",
                id="vtrr.W005",
            )
        ]
    for name, config in queues.items():
        if config.celery_queue == facts.default_queue:
            messages.append(
                checks.Warning(
                    f"Queue {name!r} shares Celery's default queue {facts.default_queue!r}: other "
                    "tasks that wait there are counted as triggers, so too few may be sent.",
                    hint="Give it a CELERY_QUEUE of its own, and a worker with -Q for it.",
                    obj=queue_path(name, "CELERY_QUEUE"),
                    id="vtrr.W012",
                )
            )
        if facts.visibility_timeout is not None and facts.visibility_timeout < SHORT_VISIBILITY:
            messages.append(
                checks.Warning(
                    f"The broker delivers a message again after {facts.visibility_timeout:g} s: "
                    "retries that wait longer go through the store, and their jobs to the end "
                    "of the line.",
                    hint=(
                        "Raise visibility_timeout in CELERY_BROKER_TRANSPORT_OPTIONS above the "
                        "longest countdown of a retry; Redis has 3600 by default, SQS 1800."
                    ),
                    obj="settings.CELERY_BROKER_TRANSPORT_OPTIONS",
                    id="vtrr.W013",
                )
            )
    return messages
