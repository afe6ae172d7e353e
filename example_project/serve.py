"""Run the example until it is stopped: ``make serve``.

The data stay in ``.example-data/`` (or where ``VTRR_EXAMPLE_DATA`` says) for the next time.
``VTRR_ENGINE=redis make serve`` runs it on Redis and Celery: see ``redis_server.py``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from django.core.management import CommandError

from example_project import environment, site_processes
from example_project.accounts import ACCOUNTS
from example_project.processes import (
    DeadlinePassed,
    ProcessEnded,
    Processes,
    signals_end_this_process,
    time_limit,
)

START_SECONDS = 60.0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m example_project.serve", description=__doc__)
    parser.add_argument("--port", type=int, default=8000, help="taken: any free one (default 8000)")
    parser.add_argument("--workers", type=int, default=2, help="jobs at once (default 2)")
    options = parser.parse_args(argv)
    with signals_end_this_process():
        try:
            return _serve(environment.data_dir(), options.port, options.workers)
        except CommandError as error:
            print(error, file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("Stopped.", flush=True)
            return 0


def _serve(data_dir: Path, port: int, workers: int) -> int:
    with Processes({}) as processes:
        try:
            with time_limit(START_SECONDS):
                site_processes.prepare(processes, data_dir, _say)
                address = site_processes.start(processes, data_dir, workers=workers, port=port)
            _welcome(address, data_dir, processes)
            while True:
                processes.check()
                time.sleep(0.5)
        except (ProcessEnded, DeadlinePassed) as error:
            print(f"Stopping: {error}. Its last words are above.", file=sys.stderr)
            return 1


def _say(text: str) -> None:
    print(f"{text} ...", flush=True)


def _welcome(address: str, data_dir: Path, processes: Processes) -> None:
    print(f"\nThe example runs at {address} (data in {data_dir}).")
    print(f"Started: {', '.join(processes.running)}.\n")
    for account in ACCOUNTS:
        role = f"staff: who waits, and why, at {address}admin/" if account.is_staff else "a tenant"
        print(f"  sign in as  {account.username:10} password  {account.password:15} {role}")
    print("\nCtrl-C stops it.", flush=True)


if __name__ == "__main__":
    sys.exit(main())
