"""``Liteworks``: liteworks' class, by its constructor, on a queue here or behind HTTP."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async

from vtrr_django.client.messages import message_items
from vtrr_django.exceptions import ConfigurationError
from vtrr_django.worker.worker import Worker

if TYPE_CHECKING:
    from vtrr_django.client.remote import RemoteQueue
    from vtrr_django.queue import Queue

REMOTE_OPTIONS = ("timeout", "patience", "retry", "http_options")
"""What may be said about a queue behind HTTP, besides liteworks' own arguments."""


class Liteworks:
    """A queue behind the HTTP API or, without a ``base_url``, one of this Django project.

    For code written for liteworks. New code takes ``get_queue(name)`` in a Django project and
    ``RemoteQueue`` elsewhere, which can do more.

    Where Django settings declare the queue, here or at the server, they win over the last two
    arguments, but for the ``visibility_timeout`` with a ``base_url``, which each client has for
    itself. (Without ``VTRR``, settings declare a queue ``default``.) A local queue that settings
    do not declare is kept in the default database.

    Args:
        queue: its name.
        base_url: where the API is; None: the queue is this project's.
        secret: the server's ``VTRR["SECRET"]``; without ``base_url`` it does not count.
        visibility_timeout: seconds that a lease lasts; workers renew the leases of what they run.
        completed_retention: how many completed jobs are kept; None: all.
        options: more arguments of :class:`~vtrr_django.client.remote.RemoteQueue`, with a
            ``base_url`` only: ``timeout``, ``patience``, ``retry``, ``http_options``.

    Attributes:
        queue: the :class:`~vtrr_django.queue.Queue` or
            :class:`~vtrr_django.client.remote.RemoteQueue` behind it.

    Raises:
        ConfigurationError: an argument is wrong; with ``base_url``, httpx is not installed;
            without, Django has no settings.
        TypeError: there is no such argument.
    """

    def __init__(
        self,
        queue: str = "default",
        base_url: str | None = None,
        secret: str | None = None,
        visibility_timeout: float = 30.0,
        completed_retention: int | None = 1000,
        **options: Any,
    ) -> None:
        for name in options:
            _check_option(name, base_url)
        self.queue: Queue | RemoteQueue
        if base_url is None:
            from vtrr_django.client.local import local_queue  # noqa: PLC0415 - it needs settings

            self.queue = local_queue(queue, visibility_timeout, completed_retention)
        else:
            self.queue = _remote_queue_class()(
                queue,
                base_url=base_url,
                secret=secret,
                visibility_timeout=visibility_timeout,
                **options,
            )

    def __repr__(self) -> str:
        return f"<Liteworks on {self.queue!r}>"

    def handler(self, function: Any = None, /, **options: Any) -> Any:
        """Make a handler of a function whose argument is annotated with a dataclass.

        See :meth:`Declaring.handler <vtrr_django.declaring.Declaring.handler>`.
        """
        return self.queue.handler(function, **options)

    def task(self, function: Any = None, /, **options: Any) -> Any:
        """Make a task of a function whose first argument is ``self``.

        See :meth:`Declaring.task <vtrr_django.declaring.Declaring.task>`.
        """
        return self.queue.task(**options) if function is None else self.queue.task(function)

    def publish(self, message: object, **options: Any) -> str:
        """Enqueue a message, an instance of a dataclass, and return its job's id.

        See :meth:`Queue.publish <vtrr_django.queue.Queue.publish>`.
        """
        return self.queue.publish(message, **options)

    def publish_many(self, messages: Iterable[object], **options: Any) -> list[str]:
        """Enqueue messages and return their ids in order.

        Without a ``base_url`` it is all or none; with, as many as are sent at once: 500, or 900 kB.

        Args:
            messages: each a message, or a pair ``(message, options)`` with its own options.
            options: of all of them, as for :meth:`publish`.
        """
        return self.queue.put_all(message_items(messages, options, "messages"), path="messages")

    def stats(self) -> dict[str, Any]:
        """Return the queue's counts and most recent runs and failures.

        See :meth:`Queue.stats <vtrr_django.queue.Queue.stats>`.
        """
        return self.queue.stats()

    async def apublish(self, message: object, **options: Any) -> str:
        """Do :meth:`publish` from async code."""
        return await self.queue.apublish(message, **options)

    async def apublish_many(self, messages: Iterable[object], **options: Any) -> list[str]:
        """Do :meth:`publish_many` from async code."""
        if hasattr(self.queue, "apublish_many"):
            return await self.queue.apublish_many(messages, **options)
        # In the thread that Django's database wants: what yields messages may read them there.
        return await sync_to_async(self.publish_many)(messages, **options)

    async def astats(self) -> dict[str, Any]:
        """Do :meth:`stats` from async code."""
        return await self.queue.astats()

    def worker(self, **options: Any) -> Worker:
        """Return a worker for this queue.

        See :meth:`Queue.worker <vtrr_django.queue.Queue.worker>` and, with a ``base_url``,
        :meth:`RemoteQueue.worker <vtrr_django.client.remote.RemoteQueue.worker>`.
        """
        return self.queue.worker(**options)


def _check_option(name: str, base_url: str | None) -> None:
    if name not in REMOTE_OPTIONS:
        raise TypeError(f"Liteworks() got an unexpected keyword argument {name!r}")
    if base_url is None:
        raise ConfigurationError(
            f"{name}: expected it with a base_url, got it without one; a queue of this project is "
            "asked without requests, and how it retries its RETRY says in settings"
        )


def _remote_queue_class() -> type[RemoteQueue]:
    try:
        from vtrr_django.client.remote import RemoteQueue  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "httpx":
            raise
        raise ConfigurationError(
            "expected httpx to be installed, which talks HTTP for a queue with a base_url; "
            'pip install "vtrr-django[client]"'
        ) from error
    return RemoteQueue
