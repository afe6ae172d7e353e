"""Counting the triggers that wait in the broker, and sending more."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from kombu.exceptions import ChannelError

logger = logging.getLogger("vtrr_django.celery")

RETRY_POLICY: Final = {
    "max_retries": 2,
    "interval_start": 0,
    "interval_step": 0.2,
    "interval_max": 0.4,
}
"""A broker that is down costs a web request about half a second, not forever."""

DEFAULT_VISIBILITY_TIMEOUT: Final = 3600.0
"""Seconds; kombu's for Redis, and for brokers of which nothing is known."""

_VISIBILITY_OPTIONS: Final = ("visibility_timeout", "peek_lock_seconds")
"""What transports call it; the second is Azure Service Bus."""

RECLAIM_PRIORITY: Final = 9
"""On Redis the lowest priority, which has a list of its own: see :func:`waiting`."""


@contextmanager
def producer_of(app: Any) -> Iterator[Any]:
    """Lend a producer of the app's pool, connected.

    Raises:
        OperationalError: the broker cannot be reached.
    """
    with app.producer_pool.acquire(block=True) as producer:
        if not producer.connection.connected:
            # Asking for its channel would try for ever.
            producer.connection.ensure_connection(**RETRY_POLICY)
        yield producer


def waiting(producer: Any, app: Any, celery_queue: str) -> int:
    """Return how many triggers wait in the broker; what workers have fetched is not among them.

    On Redis, the lists of all priorities that triggers may have, in one round trip.
    Messages of the periodic reclaim are in the list of the lowest and are left out: a pile
    of them, left by beat while no worker ran, must not be taken for triggers. Other
    brokers: what a passive declare says.

    Raises:
        Exception: whatever the broker's client raises.
    """
    channel = producer.channel
    if not hasattr(channel, "_q_for_pri"):
        return _declared(producer.connection, celery_queue)
    lists = lists_of(channel, app, celery_queue)
    with redis_connection(channel) as connection:
        return sum(ask(connection, packed(channel, connection, "LLEN", lists), len(lists)))


def lists_of(channel: Any, app: Any, celery_queue: str) -> list[str]:
    """Return the lists in which triggers wait, when the broker is a Redis."""
    list_of = channel._q_for_pri
    lists = dict.fromkeys(list_of(celery_queue, step) for step in channel.priority_steps)
    reclaims = list_of(celery_queue, RECLAIM_PRIORITY)
    if reclaims != list_of(celery_queue, app.conf.task_default_priority or 0):
        lists.pop(reclaims, None)
    return list(lists)


@contextmanager
def redis_connection(channel: Any) -> Iterator[Any]:
    """Lend a connection of a channel's pool, when the broker is a Redis.

    For :func:`ask`. kombu would make a new client object of redis-py each time, which takes
    longer than a command does.

    Raises:
        Exception: whatever the broker's client raises.
    """
    pool = channel.pool
    try:
        connection = pool.get_connection()
    except TypeError:  # redis-py before 5.3 wants to know what for; later ones warn of it
        connection = pool.get_connection("LLEN")
    try:
        yield connection
    except BaseException:
        connection.disconnect()  # an answer may still be on its way
        raise
    finally:
        pool.release(connection)


def packed(channel: Any, connection: Any, verb: str, keys: Sequence[str], *args: str) -> Any:
    """Return commands, one for each key, as :func:`ask` takes them."""
    prefix = getattr(channel, "global_keyprefix", "")
    return connection.pack_commands([(verb, f"{prefix}{key}", *args) for key in keys])


def ask(connection: Any, commands: Any, count: int) -> list[Any]:
    """Run so many commands on a Redis in one round trip.

    Raises:
        Exception: whatever the broker's client raises; the connection is of no more use.
    """
    connection.send_packed_command(commands)
    return [connection.read_response() for _ in range(count)]


def _declared(connection: Any, celery_queue: str) -> int:
    # In a channel of its own: a broker closes one that asks for a queue that is not there.
    with connection.channel() as channel:
        try:
            return int(channel.queue_declare(celery_queue, passive=True).message_count)
        except ChannelError:
            return 0
        except connection.channel_errors:
            return 0


def visibility_timeout(app: Any) -> float | None:
    """Return the seconds after which the broker delivers an unacked message again; None: never.

    What the options say, or else the transport's own default. Connects to nothing.
    """
    with app.connection_for_write() as connection:
        transport, options = connection.transport, connection.transport_options
        if transport.driver_type in {"amqp", "memory"}:
            return None
        channel = getattr(transport, "Channel", None)
    for option in _VISIBILITY_OPTIONS:
        # Redis has a number there; where the attribute is a property, another has the number.
        for name in (f"default_{option}", option):
            default = getattr(channel, name, None)
            if isinstance(default, (int, float)):
                return float(options.get(option) or default)
    return float(options.get("visibility_timeout") or DEFAULT_VISIBILITY_TIMEOUT)


class Silence:
    """Says something at most every so many seconds, with how often it was left unsaid.

    Args:
        seconds: between two times.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next = 0.0
        self._unsaid = 0

    def broken(self) -> int | None:
        """Return how many were left unsaid, if it is time to speak; else None."""
        now = time.monotonic()
        if now < self._next:
            self._unsaid += 1
            return None
        self._next = now + self._seconds
        unsaid, self._unsaid = self._unsaid, 0
        return unsaid
