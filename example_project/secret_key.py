"""A secret key that is made once and kept in a file only its owner can read."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path


def read_or_create(path: Path) -> str:
    """Return the key kept in ``path``; processes that start together agree on one."""
    with contextlib.suppress(FileNotFoundError):
        return path.read_text("ascii")
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(secrets.token_urlsafe(50))
    try:
        # A link appears with its content and never replaces: the first process wins.
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()
    return path.read_text("ascii")
