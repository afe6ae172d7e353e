"""Queues on another machine, over the HTTP API of ``vtrr_serve``; needs no Django settings.

``Liteworks`` is liteworks' class; :class:`~vtrr_django.client.remote.RemoteQueue` is what is
behind it, with all that ``Queue`` offers to publishers and workers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vtrr_django.client.liteworks import Liteworks

if TYPE_CHECKING:
    from vtrr_django.client.remote import RemoteQueue

__all__ = ["Liteworks", "RemoteQueue"]

if not TYPE_CHECKING:  # a type checker that saw __getattr__ would accept every name

    def __getattr__(name: str) -> Any:
        # Liteworks on a queue of this process needs no httpx.
        if name != "RemoteQueue":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from vtrr_django.client.remote import RemoteQueue  # noqa: PLC0415

        return RemoteQueue
