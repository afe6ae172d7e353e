"""The Lua files as scripts: parts put together, keys declared, run by their digests.

A file's header says what it ``NEEDS`` (files whose functions it uses; they come before
it), what it ``USES`` (modules: they are made when they are first called, since making
functions is much of what a short script costs) and which ``KEYS`` it uses. In Lua,
``key.<name>`` stands for the full name of one.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import redis
from redis.exceptions import NoScriptError

from vtrr_django.engines.redis.keys import KEYS

_HEADER = re.compile(r"^-- (NEEDS|USES|KEYS) +(.*(?:\n--  +[a-z_]+(?: [a-z_]+)*$)*)", re.MULTILINE)
_KEY = re.compile(r"\bkey\.(\w+)")
_COMMENT = re.compile(r"^ *--.*\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """One transition, as Redis is sent it.

    Attributes:
        name: of the file, without its suffix.
        source: the whole Lua source.
        keys: the keys it uses, in the order of its KEYS.
        digest: SHA-1 of the source, by which Redis knows it.
    """

    name: str
    source: str
    keys: tuple[str, ...]
    digest: str

    def bind(self, client: redis.Redis, names: Mapping[str, str]) -> BoundScript:
        """Return the script for one queue's keys."""
        return BoundScript(self, client, [names[key] for key in self.keys])


class BoundScript:
    """A script with the keys of one queue.

    Attributes:
        by_source: the command that runs it whether or not Redis knows it, without arguments.
    """

    def __init__(self, script: Script, client: redis.Redis, keys: Sequence[str]) -> None:
        # Untyped in redis-py, as is whatever a script may return.
        self._execute: Callable[..., Any] = client.execute_command
        self._by_digest = ("EVALSHA", script.digest, len(keys), *keys)
        self.by_source = ("EVAL", script.source, len(keys), *keys)

    def __call__(self, *args: Any) -> Any:
        """Run it; after a restart or a SCRIPT FLUSH its source is sent once more.

        Its reply comes as bytes, also from a client that decodes: what somebody else has
        written into Redis need not be text.
        """
        try:
            return self._execute(*self._by_digest, *args, NEVER_DECODE=True)
        except NoScriptError:
            return self._execute(*self.by_source, *args, NEVER_DECODE=True)


def read_source(name: str) -> str:
    """Return the Lua file of that name."""
    path = resources.files("vtrr_django.engines.redis") / "lua" / f"{name}.lua"
    return path.read_text(encoding="utf-8")


def read_header(source: str) -> dict[str, list[str]]:
    """Return what a file says it ``NEEDS``, ``USES`` and of ``KEYS``."""
    return {word: values.replace("--", "").split() for word, values in _HEADER.findall(source)}


def _needed(name: str, seen: list[str]) -> list[str]:
    """Return a file and all it needs, what is needed first."""
    for needed in read_header(read_source(name)).get("NEEDS", []):
        _needed(needed, seen)
    if name not in seen:
        seen.append(name)
    return seen


def _used(names: Iterable[str], seen: list[str]) -> list[str]:
    """Return the modules that files use, and those that they use."""
    for name in names:
        for module in read_header(read_source(name)).get("USES", []):
            if module not in seen:
                seen.append(module)
                _used(_needed(module, []), seen)
    return seen


def _module(name: str, outside: Sequence[str]) -> str:
    inside = [part for part in _needed(name, []) if part not in outside]
    body = "\n".join(map(read_source, inside))
    return (
        f"do\nlocal made\n{name} = function()\nif not made then made = (function()\n{body}\n"
        f"end)() end\nreturn made\nend\nend\n"
    )


@functools.cache
def load(name: str) -> Script:
    """Return the script of that name."""
    *parts, body = _needed(name, [])
    modules = _used([*parts, body], [])
    lua = f"local KEYS, ARGV = KEYS, ARGV\nlocal {', '.join(modules) or '_'}\n"
    lua += "\n".join(map(read_source, parts))
    lua += "\n" + "".join(_module(module, parts) for module in modules) + read_source(body)
    lua = _COMMENT.sub("", lua)
    used = set(_KEY.findall(lua))
    keys = tuple(key for key in KEYS if key in used)
    source = _KEY.sub(lambda found: f"KEYS[{keys.index(found[1]) + 1}]", lua)
    digest = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
    return Script(name, source, keys, digest)
