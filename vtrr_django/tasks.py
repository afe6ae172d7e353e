"""Tasks and handlers: what a queue's decorators turn a function into."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass, replace
from datetime import UTC, datetime
from typing import Any, Protocol, get_type_hints

from vtrr_django.domain.config import QueueConfig
from vtrr_django.domain.ids import new_job_id
from vtrr_django.domain.job import LeasedJob
from vtrr_django.domain.messages import check_message, decode
from vtrr_django.domain.retry import RetryPolicy
from vtrr_django.domain.values import child_path, describe
from vtrr_django.exceptions import ValidationError
from vtrr_django.options import TaskOptions
from vtrr_django.worker import coroutines
from vtrr_django.worker.context import TaskContext

ITEM_OPTIONS = ("weight", "priority", "id", "msg_id", "parent_id", "delay", "scheduled_at")
"""What may be said about a job, besides its arguments."""

ITEM_KEYS = ("args", "kwargs", *ITEM_OPTIONS)
"""What an item of ``.queue(tasks=[...])`` may say."""


class Owner(Protocol):
    """What a task or a handler needs of its queue, which may be one behind HTTP."""

    @property
    def name(self) -> str: ...
    @property
    def config(self) -> QueueConfig: ...

    def put(
        self,
        task: Task,
        items: Sequence[Mapping[str, Any]],
        partition_key: str,
        *,
        path: str = "",
        on_commit: bool | None = None,
    ) -> list[str]:
        """Validate and enqueue jobs of one task; return their ids, in order."""

    async def aput(
        self,
        task: Task,
        items: Sequence[Mapping[str, Any]],
        partition_key: str,
        *,
        path: str = "",
        on_commit: bool | None = None,
    ) -> list[str]:
        """Do :meth:`put` from async code."""


class Runnable:
    """What a worker runs: shared by tasks and handlers."""

    def __init__(self, queue: Owner, name: str, options: TaskOptions) -> None:
        self.owner = queue
        self.name = name
        self.options = options
        self.time_limit = options.time_limit
        self.soft_time_limit = options.soft_time_limit
        self.max_retries = options.max_retries
        self.default_retry_delay = options.default_retry_delay

    def run(self, context: TaskContext, job: LeasedJob) -> object:
        """Run one job; whatever it raises decides how its lease ends."""
        raise NotImplementedError

    def policy(self, exc: BaseException) -> RetryPolicy | None:
        """Return the policy that counts for an exception; None: no retry.

        Whoever has said how often the task is retried does not mean by ``self.retry()`` alone:
        so often it is by the queue's ``RETRY``, too. (None, which means no end, is not that.)
        """
        options, policy = self.options, self.owner.config.retry
        if options.autoretry_for and isinstance(exc, options.autoretry_for):
            return options.autoretry_policy()
        if policy is None or options.max_retries is None or "max_retries" not in options.given:
            return policy
        return replace(policy, max_retries=options.max_retries)

    def retry_delay(self, exc: BaseException, job: LeasedJob) -> float | None:
        """Return the seconds until a job that raised is retried; None: it is a dead letter."""
        policy = self.policy(exc)
        if policy is None or not policy.allows(job.delivery_count):
            return None
        return policy.delay(job.delivery_count)


_MOST_FITTING = 100


class Task(Runnable):
    """A function whose first argument is ``self``, run with args and kwargs.

    Calling a task calls its function here and now, outside any queue.
    """

    def __init__(self, queue: Owner, function: Callable[..., Any], options: TaskOptions) -> None:
        super().__init__(queue, f"{function.__module__}.{function.__qualname__}", options)
        self.function = function
        self._call = synchronous(function, self.name)
        self._signature = _signature_behind_self(function, self.name)
        self._fitting: set[tuple[str, ...]] = set()
        functools.update_wrapper(self, function)

    def __repr__(self) -> str:
        return f"<Task {self.name} on queue {self.owner.name!r}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(
            TaskContext(self, _direct_call(self, args, kwargs), "direct", called_directly=True),
            *args,
            **kwargs,
        )

    def run(self, context: TaskContext, job: LeasedJob) -> object:
        """Call the function with the job's arguments."""
        return _finished(self._call(context, *job.args, **job.kwargs), self.name)

    def check_call(self, args: Sequence[Any], kwargs: Mapping[str, Any], path: str) -> None:
        """Refuse arguments the function would not take.

        Raises:
            ValidationError: naming ``path`` and what the function expects.
        """
        shape = (str(len(args)), *map(str, kwargs))
        if shape in self._fitting:
            return
        try:
            self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ValidationError(
                path or "args",
                f"expected arguments for {self.name}{self._signature}, got: {error}",
            ) from None
        # Whether arguments fit is a matter of their number and names; a bulk has few of those.
        if len(self._fitting) < _MOST_FITTING:
            self._fitting.add(shape)

    def enqueue(
        self,
        *args: Any,
        partition_key: str,
        weight: int = 1,
        priority: int = 0,
        delay: float | None = None,
        scheduled_at: datetime | None = None,
        msg_id: str | None = None,
        parent_id: str | None = None,
        id: str | None = None,
        on_commit: bool | None = None,
        kwargs: Mapping[str, Any] | None = None,
        **task_kwargs: Any,
    ) -> str:
        """Enqueue one job and return its id.

        Keywords that are no option here are the task's own; a task that has a parameter
        named like an option gets it through ``kwargs={...}``.

        Args:
            args: the task's positional arguments.
            partition_key: the tenant the job belongs to, 1 to 255 characters.
            weight: what it costs its tenant, 1 to 1,000,000.
            priority: -100 to 100; higher goes first inside the partition.
            delay: seconds until it is due.
            scheduled_at: aware datetime when it is due, instead of ``delay``.
            msg_id: idempotency key: a second call returns the first job's id.
            parent_id: id of the job that made this one.
            id: the job's own id, 1 to 64 printable ASCII characters; a UUIDv7 by default.
            on_commit: whether a store outside the database waits for the open
                transaction; None: as ``ENQUEUE_ON_COMMIT`` says.
            kwargs: the task's keyword arguments, besides ``task_kwargs``.
            task_kwargs: the task's keyword arguments.

        Raises:
            ValidationError: something is wrong with the arguments; nothing was written.
            DuplicateJobError: ``id`` belongs to a different job.
            StoreUnavailable: the store did not answer.
        """
        item = _item(
            args,
            kwargs=kwargs,
            weight=weight,
            priority=priority,
            delay=delay,
            scheduled_at=scheduled_at,
            msg_id=msg_id,
            parent_id=parent_id,
            id=id,
            **task_kwargs,
        )
        return self.owner.put(self, [item], partition_key, on_commit=on_commit)[0]

    def queue(
        self,
        *,
        partition_key: str,
        tasks: Sequence[Mapping[str, Any]],
        on_commit: bool | None = None,
    ) -> list[str]:
        """Enqueue many jobs of one tenant in one round trip; return their ids in order.

        Args:
            partition_key: the tenant, 1 to 255 characters.
            tasks: one mapping a job, with any of ``args``, ``kwargs``, ``weight``,
                ``priority``, ``id``, ``msg_id``, ``parent_id``, ``delay``, ``scheduled_at``.
            on_commit: as for :meth:`enqueue`.

        Raises:
            ValidationError: an item is wrong (the message names it); none was written.
            DuplicateJobError: an ``id`` belongs to a different job; none was written.
            StoreUnavailable: the store did not answer.
        """
        _check_items(tasks)
        return self.owner.put(self, tasks, partition_key, path="tasks", on_commit=on_commit)

    async def aenqueue(
        self, *args: Any, partition_key: str, on_commit: bool | None = None, **more: Any
    ) -> str:
        """Do :meth:`enqueue` from async code."""
        item = _item(args, **more)
        return (await self.owner.aput(self, [item], partition_key, on_commit=on_commit))[0]

    async def aqueue(
        self,
        *,
        partition_key: str,
        tasks: Sequence[Mapping[str, Any]],
        on_commit: bool | None = None,
    ) -> list[str]:
        """Do :meth:`queue` from async code."""
        _check_items(tasks)
        return await self.owner.aput(self, tasks, partition_key, path="tasks", on_commit=on_commit)


class Handler(Runnable):
    """A function that takes one message, an instance of a dataclass."""

    def __init__(
        self,
        queue: Owner,
        function: Callable[[Any], Any],
        options: TaskOptions,
        policy: RetryPolicy | None,
    ) -> None:
        self.message_type = message_type_of(function)
        super().__init__(queue, check_message(self.message_type), options)
        self.function = function
        self._call = synchronous(function, self.name)
        self._policy = policy
        functools.update_wrapper(self, function)

    def __repr__(self) -> str:
        return f"<Handler of {self.name} on queue {self.owner.name!r}>"

    def __call__(self, message: Any) -> Any:
        return self.function(message)

    def run(self, context: TaskContext, job: LeasedJob) -> object:
        """Rebuild the message and hand it over."""
        return _finished(self._call(decode(self.message_type, job.kwargs)), self.name)

    def policy(self, exc: BaseException) -> RetryPolicy | None:
        """Return the handler's own policy, or the queue's."""
        return self._policy if self._policy is not None else super().policy(exc)


def _item(
    args: Sequence[Any], /, *, kwargs: Mapping[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """Return a call of :meth:`Task.enqueue` as an item; ``more``: options, and task's keywords."""
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise ValidationError("kwargs", f"expected a mapping, got {describe(kwargs)}")
    options = {name: more.pop(name) for name in ITEM_OPTIONS if name in more}
    return {"args": list(args), "kwargs": {**(kwargs or {}), **more}, **options}


def _check_items(tasks: object) -> None:
    if isinstance(tasks, (str, bytes, Mapping)) or not isinstance(tasks, Sequence):
        raise ValidationError("tasks", f"expected a list of mappings, got {describe(tasks)}")
    for index, item in enumerate(tasks):
        if not isinstance(item, Mapping):
            raise ValidationError(f"tasks[{index}]", f"expected a mapping, got {describe(item)}")
        unknown = item.keys() - set(ITEM_KEYS)
        if unknown:
            raise ValidationError(
                child_path(f"tasks[{index}]", min(map(str, unknown))),
                f"expected one of {', '.join(ITEM_KEYS)}, got an unknown key",
            )


def synchronous(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return what a worker's thread calls to run ``function`` to its end.

    Raises:
        TypeError: it is a generator, whose body nobody would run.
    """
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            f"expected {name} to be a function that does its work when it is called, got a "
            "generator; take out the yield"
        )
    if inspect.iscoroutinefunction(function):
        return functools.partial(coroutines.run, function)
    return function


def _finished(result: object, name: str) -> object:
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError(
            f"expected {name} to do its work when it is called, got something that wants to be "
            "awaited; declare it with async def"
        )
    return result


def _direct_call(task: Task, args: Sequence[Any], kwargs: Mapping[str, Any]) -> LeasedJob:
    """Return what stands for the job when a task is called like a function."""
    now = datetime.now(UTC)
    return LeasedJob(
        id=new_job_id(),
        queue=task.owner.name,
        task_name=task.name,
        args=list(args),
        kwargs=dict(kwargs),
        partition_key="",
        weight=1,
        priority=0,
        token="",
        delivery_count=0,
        timeouts=0,
        enqueued_at=now,
        lease_expires_at=now,
    )


def _signature_behind_self(function: Callable[..., Any], name: str) -> inspect.Signature:
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    positional = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.VAR_POSITIONAL,
    )
    if not parameters or parameters[0].kind not in positional:
        raise TypeError(
            f"expected {name} to take self as its first argument, got {name}{signature}; "
            "write def task(self, ...)"
        )
    if parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL:
        parameters = parameters[1:]
    return signature.replace(parameters=parameters)


def message_type_of(function: Callable[..., Any]) -> type:
    """Return the dataclass that annotates a handler's only required argument.

    Raises:
        TypeError: there is none.
    """
    name = f"{function.__module__}.{function.__qualname__}"
    parameters = list(inspect.signature(function).parameters.values())
    hints = get_type_hints(function)
    found = hints.get(parameters[0].name) if parameters else None
    if not (inspect.isclass(found) and is_dataclass(found)):
        raise TypeError(
            f"expected handler {name} to take one message annotated with a dataclass, got "
            f"{name}{inspect.signature(function)}; write def handler(message: MyDataclass)"
        )
    return found


def same_function(one: Runnable, other: Runnable) -> bool:
    """Return whether two runnables wrap the same source, as after a module was reloaded."""
    codes = [getattr(getattr(r, "function", None), "__code__", None) for r in (one, other)]
    if None in codes:
        return False
    return all(
        getattr(codes[0], part) == getattr(codes[1], part)
        for part in ("co_filename", "co_firstlineno", "co_qualname")
    )
