"""``vtrr_serve``: serve the HTTP API."""

from __future__ import annotations

import ipaddress
from typing import Any

from django.core.management.base import CommandError, CommandParser

from vtrr_django.api.auth import allow_loopback
from vtrr_django.conf import get_settings
from vtrr_django.management.commands._base import QueueCommand, refuse_without_tables
from vtrr_django.management.commands._logging import crashes_to_stderr, log_to_stderr
from vtrr_django.registry import all_queues


class Command(QueueCommand):
    """Run the server in this process and its children."""

    help = (
        "Serve queues over HTTP, to workers and publishers anywhere, and a dashboard. SIGTERM or "
        "Ctrl-C lets the running requests finish. For other machines put a proxy with TLS in "
        "front, and set VTRR['SECRET']."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        parser.add_argument(
            "--host",
            default="127.0.0.1",
            help="Address to listen on. Default: 127.0.0.1; any other needs VTRR['SECRET'].",
        )
        parser.add_argument(
            "--port",
            type=int,
            default=8000,
            help="Default: 8000. 0: one that is free, which is printed.",
        )
        parser.add_argument(
            "--workers", type=int, default=1, metavar="N", help="Processes. Default: 1."
        )
        parser.add_argument(
            "--threads",
            type=int,
            default=16,
            metavar="N",
            help="Requests that each process serves at once; half of them, 8 at most, may be long "
            "polls, unless VTRR['LONG_POLLS'] says otherwise. Default: 16.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Serve until told to end.

        Raises:
            CommandError: it may not or cannot start.
        """
        _refuse_out_of_range("--port", options["port"], 0, 65535)
        _refuse_out_of_range("--workers", options["workers"], 1, 256)
        _refuse_out_of_range("--threads", options["threads"], 1, 256)
        _refuse_without_secret(options["host"])
        try:
            from vtrr_django.api.serving import Serving, serve  # noqa: PLC0415 - optional
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "gunicorn":
                raise
            raise CommandError(
                "expected gunicorn to be installed; run pip install 'vtrr-django[server]'"
            ) from error
        refuse_without_tables(all_queues())
        if get_settings().secret is None:
            self._open_to_this_machine()
        serving = Serving(
            host=options["host"],
            port=options["port"],
            workers=options["workers"],
            threads=options["threads"],
            verbose=options["verbosity"] >= 2,
            announce=self._announce,
        )
        with log_to_stderr(options["verbosity"]), crashes_to_stderr():
            try:
                serve(serving)
            except (OSError, UnicodeError) as error:
                why = getattr(error, "strerror", None) or error
                raise CommandError(
                    f"expected an address to listen on, got {serving.host!r} port {serving.port}: "
                    f"{why}; choose another with --host and --port, or end "
                    "what listens there"
                ) from error

    def _open_to_this_machine(self) -> None:
        allow_loopback()
        self.stderr.write(
            "WARNING: there is no VTRR['SECRET'], so whoever is on this machine may do everything "
            "here, and so may the world if a proxy or tunnel leads here, which this server cannot "
            "always see. Set VTRR = {'SECRET': ...} before there is one."
        )

    def _announce(self, address: str) -> None:
        self.stdout.write(f"listening on {address}")
        self.stdout.flush()


def _refuse_out_of_range(option: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise CommandError(
            f"expected {option} to be a whole number from {least} to {most}, got {value}"
        )


def _refuse_without_secret(host: str) -> None:
    if get_settings().secret is None and not _is_loopback(host):
        raise CommandError(
            f"without VTRR['SECRET'] everybody who reaches the server may do everything, so it "
            f"listens on loopback only, and not on {host!r}; set VTRR = {{'SECRET': ...}} to a "
            "long random string, which clients then need, or leave out --host"
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
