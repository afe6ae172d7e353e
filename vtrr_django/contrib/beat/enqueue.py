"""Enqueueing what a periodic task describes: one job, or one for each tenant."""

from __future__ import annotations

import difflib
import hashlib
import inspect
from collections.abc import Iterable, Mapping
from typing import Any, Final, NoReturn

from django.apps import apps
from django.utils.module_loading import autodiscover_modules, import_string

from vtrr_django.conf import get_config
from vtrr_django.domain import values as checks
from vtrr_django.domain.job import MAX_MSG_ID_LENGTH
from vtrr_django.domain.messages import decode, encode, refuse_unknown
from vtrr_django.exceptions import ValidationError
from vtrr_django.queue import Queue
from vtrr_django.registry import get_queue
from vtrr_django.tasks import Handler, Runnable, Task

_ITEM: Final = ("args", "kwargs", "weight", "priority", "delay")
KEYS: Final = ("queue", "task", "partition_key", "partitions", *_ITEM)
"""What a periodic task may say."""


def enqueue(given: Mapping[str, Any], message_id: str | None) -> list[str]:
    """Enqueue what ``given`` describes and return the jobs' ids, one for each partition.

    Everything is checked before the first job is written. The message that brought it here
    may come more than once: its jobs are written once.

    Args:
        given: by the names in ``KEYS``; ``queue`` and ``task`` are required.
        message_id: what all deliveries of one message share; None: each is a new one.

    Raises:
        ValidationError: the message names the culprit; nothing was written.
        UnknownQueueError: settings declare no such queue.
        StoreUnavailable: the store did not answer. To try again is safe.
    """
    for key in given:
        if key not in KEYS:
            _refuse_name(key, "one of " + ", ".join(KEYS), key, KEYS)
    name = _text(given, "queue")
    get_config(name)
    queue = get_queue(name)
    runnable = _runnable(queue, _text(given, "task"))
    item = {key: given[key] for key in _ITEM if key in given}
    item |= _checked_call(runnable, given.get("args", []), given.get("kwargs", {}))
    jobs = [
        (key, item if message_id is None else {**item, "msg_id": _msg_id(message_id, key)})
        for key in _partition_keys(given, runnable)
    ]
    return queue.put_each(runnable.name, jobs)


def _text(given: Mapping[str, Any], key: str) -> str:
    value = given.get(key)
    if not isinstance(value, str) or not value:
        got = checks.describe(value) if key in given else "none"
        raise ValidationError(key, f"expected its name, got {got}")
    return value


def _refuse_name(path: str, expected: str, name: str, known: Iterable[str]) -> NoReturn:
    close = difflib.get_close_matches(str(name), list(known), n=1)
    nearest = f"; did you mean {close[0]!r}?" if close else ""
    raise ValidationError(path, f"expected {expected}, got {checks.describe(name)}{nearest}")


# -- what is to run --------------------------------------------------------------------


def _runnable(queue: Queue, name: str) -> Runnable:
    found = queue.resolve(name)
    if found is None:
        autodiscover_modules("tasks")  # of apps that nobody has needed in this process
        found = queue.resolve(name)
    if found is None:
        known = queue.runnables
        expected = (
            f"a task or message of queue {queue.name!r} ({', '.join(known) or 'it has none'})"
        )
        _refuse_name("task", expected, name, known)
    return found


def _checked_call(runnable: Runnable, args: Any, kwargs: Any) -> dict[str, Any]:
    if not isinstance(args, (list, tuple)):
        raise ValidationError("args", f"expected a list, got {checks.describe_kind(args)}")
    if not isinstance(kwargs, Mapping):
        raise ValidationError("kwargs", f"expected a mapping, got {checks.describe_kind(kwargs)}")
    if isinstance(runnable, Handler):
        if args:
            raise ValidationError("args", "expected none, for a message's fields go into kwargs")
        message: Any = decode(runnable.message_type, dict(kwargs), on_unknown=refuse_unknown)
        return {"kwargs": encode(message)}
    if isinstance(runnable, Task):
        runnable.check_call(args, kwargs, "")
    return {}


# -- whose jobs ------------------------------------------------------------------------


def _partition_keys(given: Mapping[str, Any], runnable: Runnable) -> list[str]:
    if "partitions" in given:
        if "partition_key" in given:
            raise ValidationError("partitions", "expected it or partition_key, got both")
        return _called(_text(given, "partitions"))
    if "partition_key" not in given and not isinstance(runnable, Handler):
        raise ValidationError(
            "partition_key",
            "expected the tenant, got none; or give partitions, the dotted path of a callable "
            "that returns the keys of all tenants",
        )
    key = given.get("partition_key", "")
    required = not isinstance(runnable, Handler)
    return [checks.check_partition_key(key, "partition_key", required=required)]


def _called(path: str) -> list[str]:
    """Return the keys that a callable returns, each once, all checked."""
    keys = _callable(path)()
    if isinstance(keys, (str, bytes)) or not isinstance(keys, Iterable):
        raise ValidationError(
            "partitions",
            f"expected {path}() to return partition keys to go through, got "
            f"{checks.describe(keys)}",
        )
    checked: dict[str, None] = {}
    for index, key in enumerate(keys):
        where = f"{path}()[{index}], {checks.describe(key)}"
        checked[checks.check_partition_key(key, where, required=True)] = None
    return list(checked)


def _callable(path: str) -> Any:
    """Import a callable of the project's.

    Whoever may edit periodic tasks chooses it: so it is one of an installed app's, not any
    that Python has.
    """
    if apps.get_containing_app_config(path) is None:
        raise ValidationError(
            "partitions",
            f"expected the dotted path of a callable in an installed app, got "
            f"{checks.describe(path)}; move it into an app of INSTALLED_APPS",
        )
    try:
        found = import_string(path)
    except ImportError as error:
        raise ValidationError(
            "partitions", f"expected the dotted path of a callable, got {path!r}: {error}"
        ) from error
    if not callable(found) or inspect.iscoroutinefunction(found):
        raise ValidationError(
            "partitions",
            f"expected {path} to be a function without async, got {checks.describe(found)}",
        )
    return found


def _msg_id(message_id: str, partition_key: str) -> str:
    text = f"{message_id}/{partition_key}"
    if len(text) <= MAX_MSG_ID_LENGTH:
        return text
    return f"sha256/{hashlib.sha256(text.encode()).hexdigest()}"
