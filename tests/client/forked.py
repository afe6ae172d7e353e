"""A process that forks while a thread of it makes the first use of a queue behind HTTP.

Run it with ``python -m tests.client.forked``. It prints how its children ended (0: well), what
they and it published, and how many names they and it leased under.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from dataclasses import dataclass
from typing import Any

import httpx

from tests.client.fakes import SECRET, FakeApi
from tests.client.proxies import proxy_before
from vtrr_django.client import RemoteQueue

# Python warns of just what is tried here.
warnings.simplefilter("ignore", DeprecationWarning)

PATIENCE = 20
"""Seconds after which a child that hangs is killed, and the parent sees it."""


@dataclass
class Note:
    text: str


def fork_and_publish(queue: RemoteQueue, text: str) -> int:
    """Publish in a forked process, over a connection of its own; return how that ended."""
    parents = queue._transport._connections._of_threads
    child = os.fork()
    if child == 0:
        signal.alarm(PATIENCE)
        queue.publish(Note(text))
        queue.lease()
        own = queue._transport._connections._of_threads
        queue.close()
        os._exit(own is None or own is parents)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def slowly(make: Any, begun: threading.Event, forking: threading.Event) -> Any:
    """Let what is made be made while somebody forks, if that does not wait for it."""

    def made(*arguments: Any, **options: Any) -> Any:
        begun.set()
        forking.wait()
        time.sleep(0.3)
        return make(*arguments, **options)

    return made


def main() -> None:
    api = FakeApi()
    begun, forking = threading.Event(), threading.Event()
    httpx.create_ssl_context = slowly(httpx.create_ssl_context, begun, forking)
    os.register_at_fork(before=forking.set)
    with proxy_before(api) as url:
        queue = RemoteQueue(base_url=url, secret=SECRET, patience=0)
        first_use = threading.Thread(target=queue.publish, args=(Note("first use"),))
        first_use.start()
        begun.wait()
        ended = [fork_and_publish(queue, "child of the first use")]
        first_use.join()
        queue.lease()
        client = queue._transport._connections.of_threads()
        ended.append(fork_and_publish(queue, "child of its end"))
        assert queue._transport._connections.of_threads() is client
        assert not client.is_closed
        queue.publish(Note("parent"))
        queue.lease()
        queue.close()
    told = [job["kwargs"]["text"] for job in api.jobs.values()]
    names = {one.body["worker_id"] for one in api.seen if one.path.endswith("/claim")}
    sys.stdout.write(f"{ended} {sorted(told)} {len(names)}\n")


if __name__ == "__main__":
    main()
