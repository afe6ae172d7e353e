"""Opening pages as somebody who may do everything with the app, and counting what each needs."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from statistics import median
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.models import Permission, User
from django.db import connections
from django.test import Client

SLOW_MS = 50
"""Statements that take longer are named, where a page is too slow."""

_MARKS, _LONGEST = re.compile("%s(, %s){2,}"), 300


def staff() -> Client:
    """Return the browser of somebody who may do everything with the app, and nothing else."""
    user, _ = User.objects.get_or_create(username="staff", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(content_type__app_label="vtrr_django"))
    client = Client()
    client.force_login(user)
    return client


class Visitor:
    """Opens pages several times, and writes down what each needs.

    Args:
        client: their browser.
        rounds: how often each is opened, after once to warm up.
        only: opens those with this in their name; the others once, for their links.
    """

    def __init__(self, client: Client, rounds: int, only: str = "") -> None:
        self.rows: list[dict[str, Any]] = []
        self._client = client
        self._rounds = rounds
        self._only = only
        self._statements: list[tuple[float, str]] = []

    def get(self, name: str, address: str, **query: str) -> str:
        """Open a page; return its HTML."""
        address = f"{address}?{urlencode(query)}" if query else address
        return self._open(name, lambda: self._client.get(address))

    def post(self, name: str, address: str, sent: dict[str, Any]) -> str:
        """Send a form that changes nothing; return the HTML of the page it leads to."""
        return self._open(name, lambda: self._client.post(address, sent))

    def _open(self, name: str, send: Callable[[], Any]) -> str:
        text = _html(send(), name)  # which also warms up
        if self._only not in name:
            return text
        taken = [self._timed(name, send) for _ in range(self._rounds)]
        fastest = min(taken)
        self.rows.append(
            {
                "page": name,
                "ms": median(ms for ms, _ in taken),
                "best": fastest[0],
                "queries": max(len(statements) for _, statements in taken),
                "sql": Counter(sql for _, sql in fastest[1]),
                "slow": [(ms, sql) for ms, sql in fastest[1] if ms > SLOW_MS],
            }
        )
        return text

    def _timed(self, name: str, send: Callable[[], Any]) -> tuple[float, list[tuple[float, str]]]:
        self._statements = []
        with ExitStack() as stack:
            for connection in connections.all():
                stack.enter_context(connection.execute_wrapper(self._count))
            began = time.perf_counter()
            response = send()
            ms = (time.perf_counter() - began) * 1000
        _html(response, name)
        return ms, [(took, _MARKS.sub("%s, …", sql)[:_LONGEST]) for took, sql in self._statements]

    def _count(self, execute: Any, sql: str, *args: Any) -> Any:
        began = time.perf_counter()
        try:
            return execute(sql, *args)
        finally:
            self._statements.append(((time.perf_counter() - began) * 1000, sql))


def _html(response: Any, name: str) -> str:
    text: str = response.content.decode()
    if response.status_code != 200 or 'vtrr-trouble" role="alert">' in text:
        raise RuntimeError(f"{name}: {response.status_code}: {text[:2000]}")
    return text
