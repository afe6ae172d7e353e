"""Counting and sending triggers on Redis, at a tenth of what Celery and kombu take for it.

This was most of what an enqueue, and a short job, cost beside their calls of the store:
Celery builds every message anew, kombu wraps it anew, makes a new client object for each
command, and lends out a producer that it puts together again each time. Here a *line* keeps
one connection, and the text of one message that Celery and kombu have made, of which only the
id changes. Where somebody listens to what is published, or the broker is another, triggers go
through ``apply_async``, as all do after something went wrong here.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final, NamedTuple, TypeVar

from celery import signals
from celery.utils import uuid

from vtrr_django.contrib.celery.broker import ask, lists_of, packed, redis_connection
from vtrr_django.domain.forks import at_fork

T = TypeVar("T")

logger = logging.getLogger("vtrr_django.celery")

_ATTRIBUTE: Final = "_vtrr_lines"
"""Of an app: its lines that nobody uses just now; None: its broker is no Redis."""


class _Template(NamedTuple):
    """A message as kombu would have put it on a list.

    Attributes:
        key: of the list, without a prefix.
        parts: the text around each place where an id stands.
    """

    key: str
    parts: list[str]


class _Listener:
    """Stands in for a client of redis-py, to see what kombu would have it do."""

    def __init__(self) -> None:
        self.pushed: list[tuple[str, str]] = []

    def lpush(self, key: str, text: str) -> None:
        self.pushed.append((key, text))


class _Line:
    """A connection to a broker that is a Redis."""

    def __init__(self, app: Any, kombu: Any) -> None:
        conf = app.conf
        self._app = app
        self._kombu = kombu
        self._producer = app.amqp.Producer(kombu, auto_declare=False)
        self._channel = self._producer.channel
        self._stack = ExitStack()
        self._connection = self._stack.enter_context(redis_connection(self._channel))
        self._counts: dict[str, tuple[Any, int]] = {}
        self._templates: dict[tuple[Any, ...], _Template] = {}
        self._may_send = (
            conf.task_protocol == 2
            and not conf.task_send_sent_event
            and not conf.task_default_priority
        )

    def waiting(self, celery_queue: str) -> int:
        """Return how many triggers wait; see :func:`broker.waiting`."""
        count = self._counts.get(celery_queue)
        if count is None:
            lists = lists_of(self._channel, self._app, celery_queue)
            commands = packed(self._channel, self._connection, "LLEN", lists)
            count = self._counts[celery_queue] = commands, len(lists)
        return sum(ask(self._connection, *count))

    def send(self, count: int, name: str, celery_queue: str, options: dict[str, Any]) -> bool:
        """Send so many messages, each with an id of its own; False: not from here."""
        if not self._may_send:
            return False
        key = (name, celery_queue, *sorted(options.items()))
        template = self._templates.get(key)
        if template is None:
            try:
                template = self._templates[key] = self._template(name, celery_queue, options)
            except Exception:
                logger.debug("no message could be made for later", exc_info=True)
                self._may_send = False
                return False
        texts = [uuid().join(template.parts) for _ in range(count)]
        push = packed(self._channel, self._connection, "LPUSH", [template.key], *texts)
        ask(self._connection, push, 1)
        return True

    def _template(self, name: str, celery_queue: str, options: dict[str, Any]) -> _Template:
        """Have a message made as for sending, and return it.

        Raises:
            ValueError: kombu would do something else than put one text on a list.
        """
        app, task_id, listener = self._app, uuid(), _Listener()
        made = app.amqp.create_task_message(task_id, name, (), {}, ignore_result=True, **options)

        @contextmanager
        def acquire(client: Any = None) -> Iterator[Any]:
            yield listener

        self._channel.conn_or_acquire = acquire  # of this channel alone, which nobody else has
        self._producer.publish(
            made.body,
            exchange="",
            routing_key=celery_queue,
            headers=made.headers,
            serializer=app.conf.task_serializer,
            compression=app.conf.task_compression,
            delivery_mode=2,
            **made.properties,
        )
        [(key, text)] = listener.pushed
        tag = json.loads(text)["properties"]["delivery_tag"]
        if not text.count(tag) == 1 <= text.count(task_id):
            raise ValueError(f"expected the ids {task_id} and {tag} in a message, got {text}")
        # One id will do for both: nothing but their being new is asked of them.
        return _Template(key, text.replace(tag, task_id).split(task_id))

    def close(self) -> None:
        self._connection.disconnect()
        self._stack.close()
        self._kombu.release()


def waiting(app: Any, celery_queue: str) -> int | None:
    """Return how many triggers wait in the broker; None: that has to be asked the usual way."""
    return _with_line(app, lambda line: line.waiting(celery_queue))


def send(task: Any, celery_queue: str, count: int = 1, **options: Any) -> bool:
    """Send triggers; False: they have to be sent the usual way, nothing was sent, it seems.

    Args:
        task: the Celery task.
        celery_queue: where to.
        count: how many.
        options: of the messages, such as ``time_limit``.
    """
    if signals.before_task_publish.receivers or signals.after_task_publish.receivers:
        return False

    return (
        _with_line(task.app, lambda line: line.send(count, task.name, celery_queue, options))
        or False
    )


def _with_line(app: Any, work: Callable[[_Line], T]) -> T | None:
    """Do something with a line that is ready; None: there is none, or it failed."""
    idle = _idle_of(app)
    try:
        line = (idle or []).pop()
    except IndexError:
        return None
    try:
        result = work(line)
    except BaseException as error:
        line.close()
        if not isinstance(error, Exception):
            raise
        logger.debug("the broker could not be used the quick way", exc_info=True)
        return None
    if idle is not None:
        idle.append(line)
    return result


def prepare(app: Any) -> None:
    """Have a line ready for the next time: the broker has just answered.

    So a broker that is down is waited for once, and by the usual way.
    """
    idle = _idle_of(app)
    if idle is None or idle:
        return
    kombu = app.connection_for_write()
    try:
        if kombu.transport.driver_type == "redis":
            idle.append(_Line(app, kombu))
        else:
            app.__dict__[_ATTRIBUTE] = (_generation, None)
    except Exception:
        logger.debug("the broker cannot be used the quick way", exc_info=True)
        kombu.release()


def _idle_of(app: Any) -> list[_Line] | None:
    """Return the lines of an app that nobody uses; to take one, or put it back, is atomic."""
    known: tuple[int, list[_Line] | None] | None = app.__dict__.get(_ATTRIBUTE)
    if known is None or known[0] != _generation:
        # In a forked process the connections are the parent's, too.
        app.__dict__[_ATTRIBUTE] = known = (_generation, [])
    return known[1]


_generation = 0


def _begin_anew() -> None:
    global _generation  # noqa: PLW0603 - of this process
    _generation += 1


at_fork(after_in_child=_begin_anew)
