"""The peers: django-tasks-db in an environment of its own, vtrr-queue in the app's.

What the one needs never meets what the app needs; the other needs the same.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

import django

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".bench-venv"
PIP_SECONDS = 180

PEER = "django-tasks-db"

OLD = "vtrr-queue 0.1.0"


class PeerMissing(Exception):
    """The peer could not be installed."""


def why_no_vtrr_queue() -> str | None:
    """Return why vtrr-queue cannot be measured; None: it can."""
    if importlib.util.find_spec("vtrr_queue") is not None:
        found = metadata.version("vtrr-queue")
        return None if found == OLD.split()[1] else f"expected {OLD}, got {found}"
    if sys.version_info < (3, 12):
        return f"it needs Python 3.12, this is {sys.version_info[0]}.{sys.version_info[1]}"
    return "it is not installed; pip install --group dev"


def python() -> Path:
    """Return the interpreter of the peer's environment, which is made when it is not there.

    It has the same Python, the same Django and the same database drivers as this one.

    Raises:
        PeerMissing: pip failed, for want of a network perhaps.
    """
    wanted = _requirements()
    home = CACHE / f"python-{sys.version_info[0]}.{sys.version_info[1]}"
    interpreter, stamp = home / "bin" / "python", home / "made-of"
    made_of = "\n".join([sys.version, *wanted])
    if stamp.is_file() and stamp.read_text() == made_of and interpreter.exists():
        return interpreter
    print(f"Installing {', '.join(wanted)} in {home.relative_to(ROOT)} ...", flush=True)
    shutil.rmtree(home, ignore_errors=True)
    try:
        venv.create(home, with_pip=True)
        (CACHE / ".gitignore").write_text("*\n")
        subprocess.run(  # noqa: S603 - our own interpreter and our own list
            [interpreter, "-m", "pip", "--no-input", "-qq", "install", *wanted],
            check=True,
            timeout=PIP_SECONDS,
            capture_output=True,
            text=True,
        )
    except subprocess.CalledProcessError as error:
        raise PeerMissing(f"pip could not install {PEER}: {error.stderr.strip()}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerMissing(f"{PEER} could not be installed: {error}") from error
    stamp.write_text(made_of)
    return interpreter


def _requirements() -> list[str]:
    wanted = [f"Django=={django.__version__}", f"{PEER}>=0.13,<0.14"]
    if django.VERSION < (6, 0):
        wanted.append("django-tasks>=0.12,<0.13")  # Django's own Tasks come with 6.0
    for driver in ("psycopg", "psycopg-binary", "mysqlclient", "PyMySQL"):
        try:
            wanted.append(f"{driver}=={metadata.version(driver)}")
        except metadata.PackageNotFoundError:
            continue
    return wanted
