"""Running scripts for one queue: its keys, its rules, and Redis' errors in our words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import redis
from redis import exceptions as errors

from vtrr_django.domain.config import QueueConfig
from vtrr_django.engines.redis.keys import KEYS, key_names
from vtrr_django.engines.redis.scripts import BoundScript, load
from vtrr_django.engines.redis.wire import text
from vtrr_django.exceptions import ConfigurationError, StoreUnavailable, VTRRError

CARRIED: Final = 10_000
"""Completed jobs that may be on their way to the database, whatever the retention: there those
of the last minutes are spared, and so they must get there."""


class Commands:
    """The scripts of one queue.

    Args:
        queue: its name.
        config: its settings.
        client: of redis-py; a cluster's needs ``HASH_TAG``.
    """

    def __init__(self, queue: str, config: QueueConfig, client: redis.Redis) -> None:
        self.queue = queue
        self.client = client
        self.keys = key_names(queue, hash_tag=bool(config.options.get("HASH_TAG", False)))
        self.rules = _rules(config)
        self._bound: dict[str, BoundScript] = {}
        self._verified = False

    def run(self, name: str, *args: Any) -> Any:
        """Run a script whose first argument is the queue's rules; its reply comes as bytes.

        Raises:
            StoreUnavailable: Redis did not answer, or refused.
            ConfigurationError: a key of the queue's holds something else.
        """
        try:
            return self._script(name)(self.rules, *args)
        except errors.RedisError as error:
            raise self._refused(error) from error

    def _script(self, name: str) -> BoundScript:
        if not self._verified:
            self._verify()
        script = self._bound.get(name)
        if script is None:
            script = self._bound[name] = load(name).bind(self.client, self.keys)
        return script

    def run_together(self, commands: Sequence[tuple[Any, ...]], name: str, *args: Any) -> Any:
        """Run commands of Redis' own and then a script, all or none; return its answer.

        Should Redis be out of memory, it refuses the first of them, and with it all.

        Raises:
            StoreUnavailable: Redis did not answer, or refused.
        """
        script = self._script(name)
        pipeline = self.client.pipeline(transaction=True)
        add: Callable[..., Any] = pipeline.execute_command
        try:
            for command in commands:
                add(*command)
            # Its source, not its digest: one that Redis does not know would come too late.
            add(*script.by_source, self.rules, *args, NEVER_DECODE=True)
            return pipeline.execute()[-1]
        except errors.RedisError as error:
            raise self._refused(error) from error

    def look(self, *commands: tuple[Any, ...]) -> list[Any]:
        """Run reading commands of Redis' own in one trip; return their replies as bytes.

        Also where the client decodes: members of the lines are no text, and somebody else's
        payload need not be any.

        Raises:
            StoreUnavailable: Redis did not answer, or refused.
            ConfigurationError: a key of the queue's holds something else.
        """
        if not self._verified:
            self._verify()
        pipeline = self.client.pipeline(transaction=False)
        add: Callable[..., Any] = pipeline.execute_command
        try:
            for command in commands:
                add(*command, NEVER_DECODE=True)
            return pipeline.execute()
        except errors.RedisError as error:
            raise self._refused(error) from error

    def call(self, *command: Any) -> Any:
        """Run one command of Redis' own; return its reply as bytes, as :meth:`look` does.

        Raises:
            StoreUnavailable: Redis did not answer, or refused.
            ConfigurationError: a key of the queue's holds something else.
        """
        if not self._verified:
            self._verify()
        return self._call(*command)

    def _call(self, *command: Any) -> Any:
        execute: Callable[..., Any] = self.client.execute_command
        try:
            return execute(*command, NEVER_DECODE=True)
        except errors.RedisError as error:
            raise self._refused(error) from error

    def _verify(self) -> None:
        """See, once, that no key holds something else: in a script it would be too late."""
        for key, kind in KEYS.items():
            found = text(self._call("TYPE", self.keys[key]))
            if found not in (kind, "none"):
                raise ConfigurationError(
                    f"expected Redis key {self.keys[key]!r} of queue {self.queue!r} to be a "
                    f"{kind} or not to exist, got a {found}: something else uses this name; "
                    "give the queue another name or a Redis database of its own"
                )
        self._verified = True

    def _refused(self, error: errors.RedisError) -> VTRRError:
        if "WRONGTYPE" in str(error):  # it came later
            try:
                self._verify()
            except ConfigurationError as found:
                return found
        if isinstance(error, errors.OutOfMemoryError) or "OOM command not allowed" in str(error):
            return StoreUnavailable(
                f"Redis is out of memory (maxmemory) and refused to store more for queue "
                f"{self.queue!r}; nothing was stored. Jobs that wait still run; raise maxmemory, "
                f"or wait for them ({error})"
            )
        return StoreUnavailable(f"Redis did not answer for queue {self.queue!r}: {error}")


def _rules(config: QueueConfig) -> str:
    """Return ARGV 1 of the scripts; see ``state.lua``."""
    carried = config.completed_retention and max(config.completed_retention, CARRIED)
    rules = (config.partition_limit, config.most_of_one, None, config.max_timeouts, carried)
    words = ["-" if rule is None else str(rule) for rule in rules]
    words[2] = "1" if config.cost == "runtime" else "0"
    return " ".join(words)
