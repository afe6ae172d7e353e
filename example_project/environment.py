"""What the environment says about the example: read by its settings, and by what starts it.

See :mod:`example_project.settings` for the variables. Django need not be set up.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REDIS_VARIABLE = "VTRR_EXAMPLE_REDIS"
REDIS_FILE = "redis-url"
USUAL_REDIS = "redis://127.0.0.1:6379"


def engine() -> str:
    """Return where the jobs are kept."""
    return os.environ.get("VTRR_ENGINE") or "orm"


def data_dir() -> Path:
    """Return the folder of everything that is kept.

    One for each engine: the rows of uploads that wait belong to the jobs in its store.
    """
    said = os.environ.get("VTRR_EXAMPLE_DATA")
    if said:
        return Path(said).absolute()
    folder = ROOT / ".example-data"
    return folder / "redis" if engine() == "redis" else folder


def redis_url() -> str:
    """Return where Redis is: as said, else where ``make serve`` had it last."""
    said = os.environ.get(REDIS_VARIABLE)
    with contextlib.suppress(FileNotFoundError):
        return said or (data_dir() / REDIS_FILE).read_text("utf-8")
    return f"{USUAL_REDIS}/15"


def remember_redis(url: str) -> None:
    """Keep where Redis is for programs that are started by hand; it may hold a password."""
    path = data_dir() / REDIS_FILE
    path.touch(mode=0o600)
    path.write_text(url, "utf-8")
