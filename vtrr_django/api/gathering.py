"""Requests as they come in: a thread serves one once all of it is there.

Who sends slowly, or sends nothing, or does not read, thereby occupies a socket and some memory,
for a bounded time, and no thread. That matters because the signature is over the body: until
the last byte nobody can tell a client from a stranger.
"""

from __future__ import annotations

import re
import time
from http import HTTPStatus
from typing import Final

from vtrr_django.api.answers import Refused
from vtrr_django.api.body import LARGEST

PATIENCE: Final = 15.0
"""Seconds in which a request has to be there, whoever sends it, ..."""

SLOWEST: Final = 64 * 1024
"""... besides one for each so many bytes of its body."""

SILENCE: Final = 30.0
"""Seconds in which it has to begin."""

LONGEST_HEAD: Final = 64 * 1024
"""Bytes of the request line and all headers."""

_END: Final = b"\r\n\r\n"
_FRAMING = re.compile(rb"\r\n(?:content-length|transfer-encoding)[ \t]*:", re.IGNORECASE)
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,18})[ \t]*(?=\r\n)", re.IGNORECASE)
_EXPECT = re.compile(rb"\r\nexpect:[ \t]*100-continue[ \t]*(?=\r\n)", re.IGNORECASE)


class Incoming:
    """What has come of a connection's next request. Used by one thread at a time.

    Attributes:
        complete: whether it can be served.
        whole: whether the last one came with its body. A body whose length is not said, or is
            too much, is not waited for: the request is served to be refused.
        wants_leave: whether the client waits to be told that it may send the body.
    """

    def __init__(self) -> None:
        self._held = bytearray()
        self.whole = True
        self._renew()

    def _renew(self) -> None:
        self.complete = self.wants_leave = False
        self._head = self._length = self._searched = 0
        self._began = bool(self._held)
        self.start()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def began(self) -> bool:
        """Whether any of it has come."""
        return self._began

    def start(self) -> None:
        """Count the time from now."""
        self._since = time.monotonic()

    def deadline(self, silence: float = SILENCE) -> float:
        """Return when it has to be complete, or to begin, by the monotonic clock."""
        if not self._began:
            return self._since + silence
        return self._since + PATIENCE + self._length / SLOWEST

    def feed(self, piece: bytes) -> None:
        """Take what has come.

        Raises:
            Refused: the head is too long.
        """
        if piece and not self._began:
            self._began, self._since = True, time.monotonic()
        self._held += piece
        if not self._head:
            end = self._held.find(_END, max(0, self._searched - len(_END) + 1))
            if end < 0:
                self._searched = len(self._held)
                if len(self._held) > LONGEST_HEAD:
                    raise Refused(431, f"expected at most {LONGEST_HEAD:,} bytes of headers")
                return
            self._read_head(end + len(_END))
        self.complete = len(self._held) >= self._head + self._length

    def _read_head(self, end: int) -> None:
        head = bytes(self._held[:end])
        framing, lengths = _FRAMING.findall(head), _LENGTH.findall(head)
        length = int(lengths[0]) if lengths else 0
        self.whole = len(lengths) == len(framing) <= 1 and length <= LARGEST
        self._length = length if self.whole else 0
        # Leave is given from here, and only for what will be read.
        self.wants_leave = bool(self._length and _EXPECT.search(head))
        head = _EXPECT.sub(b"", head)
        self._held[:end] = head
        self._head = len(head)

    def take(self) -> tuple[bytes, bytes]:
        """Return head and body of the request, which is complete, and begin with the next one."""
        end = self._head + self._length
        head, body = bytes(self._held[: self._head]), bytes(self._held[self._head : end])
        del self._held[:end]
        self._renew()
        return head, body


def raw_answer(status: int, message: str) -> bytes:
    """Return an error as the bytes of an answer, after which the connection ends."""
    response = Refused(status, message).answer()
    try:
        reason = HTTPStatus(status).phrase
    except ValueError:
        reason = "Refused"
    headers = {"Connection": "close", **response.headers}
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = "1"
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} {reason}\r\n{lines}\r\n".encode("latin-1") + response.content
