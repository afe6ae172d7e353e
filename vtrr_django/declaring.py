"""Declaring tasks and handlers on a queue: on one of this process, or on one behind HTTP."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

from asgiref.sync import sync_to_async

from vtrr_django.domain.config import QueueConfig
from vtrr_django.domain.retry import RetryPolicy
from vtrr_django.domain.values import describe
from vtrr_django.exceptions import ValidationError
from vtrr_django.options import TaskOptions
from vtrr_django.tasks import Handler, Runnable, Task, same_function


class Declaring(ABC):
    """The tasks and handlers of one queue, by name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._runnables: dict[str, Runnable] = {}

    @property
    @abstractmethod
    def config(self) -> QueueConfig:
        """The queue's settings."""

    @abstractmethod
    def put(
        self,
        task: Task,
        items: Sequence[Mapping[str, Any]],
        partition_key: str,
        *,
        path: str = "",
        on_commit: bool | None = None,
    ) -> list[str]:
        """Validate and enqueue jobs of one task; :meth:`Task.queue` and ``enqueue`` call it."""

    async def aput(
        self,
        task: Task,
        items: Sequence[Mapping[str, Any]],
        partition_key: str,
        *,
        path: str = "",
        on_commit: bool | None = None,
    ) -> list[str]:
        """Do :meth:`put` from async code: here in the thread that Django's database wants."""
        put = sync_to_async(self.put)
        return await put(task, items, partition_key, path=path, on_commit=on_commit)

    @property
    def runnables(self) -> Mapping[str, Runnable]:
        """The tasks and handlers this process knows, by task name."""
        return self._runnables

    def resolve(self, task_name: str) -> Runnable | None:
        """Return the task or handler of that name, or None."""
        return self._runnables.get(task_name)

    @overload
    def task(self, function: Callable[..., Any], /) -> Task: ...
    @overload
    def task(self, /, **options: Any) -> Callable[[Callable[..., Any]], Task]: ...
    def task(
        self, function: Callable[..., Any] | None = None, /, **options: Any
    ) -> Task | Callable[[Callable[..., Any]], Task]:
        """Make a task of a function whose first argument is ``self``.

        Raises:
            TypeError: an option is not supported, or the function takes no ``self``.
            ValidationError: an option's value is wrong.
            ValueError: the queue is run by Celery and has its one task already (which
                ``django.setup()`` says of what is declared before the apps are ready), or
                the name is taken.
        """
        checked = TaskOptions.of(options)

        def decorate(function: Callable[..., Any]) -> Task:
            task = Task(self, function, checked)
            self._register(task)
            return task

        return decorate if function is None else decorate(function)

    def handler(
        self,
        function: Callable[[Any], Any] | None = None,
        /,
        *,
        policy: RetryPolicy | None = None,
        **options: Any,
    ) -> Any:
        """Make a handler of a function whose argument is annotated with a dataclass.

        Args:
            function: the function, when used without parentheses.
            policy: what happens when it raises; None: as the queue's ``RETRY`` says.
            options: task options, such as ``time_limit``.

        Raises:
            TypeError: an option is not supported, or the argument is not annotated.
            ValidationError: an option's value or the policy is wrong, or the dataclass has
                fields that cannot travel as JSON.
            ValueError: the message type has a handler already.
        """
        checked = TaskOptions.of(options)
        if policy is not None and not isinstance(policy, RetryPolicy):
            raise ValidationError(
                "policy", f"expected a RetryPolicy or None, got {describe(policy)}"
            )

        def decorate(function: Callable[[Any], Any]) -> Handler:
            handler = Handler(self, function, checked, policy)
            self._register(handler)
            return handler

        return decorate if function is None else decorate(function)

    def _register(self, runnable: Runnable) -> None:
        known = self._runnables.get(runnable.name)
        if known is not None and not same_function(known, runnable):
            raise ValueError(
                f"expected one handler or task named {runnable.name!r} on queue {self.name!r}, "
                "got a second; rename it or use another queue"
            )
        self._runnables[runnable.name] = runnable
