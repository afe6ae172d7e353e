"""Clients that send slowly, read slowly or send too much: none of them keeps others waiting."""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress

import pytest

from tests.api.signing import headers
from tests.api.test_serve import JOB, JSON, Serve, Server, received, serve, terminate
from tests.races.waiting import until
from vtrr_django.api import gathering
from vtrr_django.api.answers import Refused
from vtrr_django.api.body import LARGEST
from vtrr_django.api.gathering import Incoming
from vtrr_django.models import Job

__all__ = ["serve"]

IMPATIENT = "tests.api.impatient.Impatient"  # a request has to be there within a second or so

HEAD = b"POST /default/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
SIGNED = b"x-signature: %s\r\nx-timestamp: 1\r\nx-nonce: nnnnnnnnnnnnnnnnnnnn\r\n" % (b"0" * 64)


def status(answer: bytes) -> int:
    """Return the status of an answer, which is JSON."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert json.loads(body)["error"], answer
    return int(head.split(b" ", 2)[1])


@contextmanager
def dribbling(clients: list[socket.socket], piece: bytes) -> Iterator[None]:
    """Send ``piece`` on all connections, again and again, whatever is answered."""
    over = threading.Event()

    def dribble() -> None:
        while not over.wait(0.05):
            for client in clients:
                with suppress(OSError):
                    client.sendall(piece)

    thread = threading.Thread(target=dribble)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def connected(server: Server, count: int, begin: bytes) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        clients = [stack.enter_context(closing(server.socket())) for _ in range(count)]
        for client in clients:
            client.sendall(begin)
        yield clients


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        (HEAD + SIGNED + b"Content-Length: 9999\r\n\r\n", b"x"),
        (HEAD + SIGNED + b"Content-Length: 9999\r\nExpect: 100-continue\r\n\r\n", b"x"),
        (HEAD + b"x-signature: ", b"0"),
        (b"GE", b"T"),
    ],
    ids=["body", "body, with leave", "header", "line"],
)
def test_a_byte_at_a_time_costs_no_thread_and_ends(
    serve: Serve, workers: str, begin: bytes, piece: bytes
) -> None:
    server = serve("--threads", "2", "--workers", workers, apps=IMPATIENT)
    began = time.monotonic()
    with connected(server, 20, begin) as clients, dribbling(clients, piece):
        for _ in range(10):
            assert server.signed("GET", "/queues").status == 200
        answers = [received(client) for client in clients]
        assert time.monotonic() - began < 30  # with threads that wait it is 1 s for each two
    told = [one.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n") for one in answers]
    assert [status(one) for one in told] == [408] * 20


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("begin", "refusal"),
    [
        (HEAD + b"Content-Length: 99999999999\r\n\r\n", 413),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", 411),
        (HEAD + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\n", 400),
        (b"GET /" + b"x" * 100_000, 431),
    ],
    ids=["too long", "chunked", "twice", "no end"],
)
def test_what_is_refused_before_it_has_come_costs_no_thread(
    serve: Serve, begin: bytes, refusal: int
) -> None:
    server = serve("--threads", "1")
    with connected(server, 10, begin) as clients, dribbling(clients, b"x" * 1000):
        assert server.signed("GET", "/queues").status == 200
        assert {status(received(client)) for client in clients} == {refusal}
        assert server.signed("GET", "/queues").status == 200


@pytest.mark.django_db(transaction=True)
def test_who_does_not_read_costs_no_thread(serve: Serve) -> None:
    server = serve("--threads", "1")
    many = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000
    with connected(server, 5, b"") as clients:
        for client in clients:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
        # They ask for ever more, until nobody listens to them.
        for _ in range(3):
            for client in clients:
                with suppress(BlockingIOError):
                    while True:
                        client.sendall(many)
            began = time.monotonic()
            for _ in range(10):
                assert server.signed("GET", "/queues").status == 200
            assert time.monotonic() - began < 10  # a thread waits 15 s for who does not read


@pytest.mark.django_db(transaction=True)
def test_what_is_held_is_bounded_and_the_small_are_spared(serve: Serve) -> None:
    server = serve("--threads", "1", apps=IMPATIENT)
    large = HEAD + SIGNED + b"Content-Length: 16000000\r\n\r\n" + b"x" * 900_000
    with connected(server, 3, large) as clients:
        until(lambda: bool(select.select(clients, [], [], 0)[0]), "one to be given up")
        [given_up] = select.select(clients, [], [], 0)[0]
        assert status(received(given_up)) == 503
        assert server.signed("POST", "/default/jobs", JOB).status == 201
    assert Job.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_requests_may_come_together_and_in_pieces(serve: Serve) -> None:
    server = serve("--threads", "2")
    raw = b""
    for number in range(3):
        told = headers("POST", "/default/jobs", body=JOB) | JSON
        told |= {"Host": "localhost", "Content-Length": str(len(JOB))}
        told |= {"Connection": "close"} if number == 2 else {}
        lines = "".join(f"{name}: {value}\r\n" for name, value in told.items())
        raw += f"POST /default/jobs HTTP/1.1\r\n{lines}\r\n".encode() + JOB
    with closing(server.socket()) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(raw), 97):
            client.sendall(raw[start : start + 97])
        assert received(client).count(b"HTTP/1.1 201 Created") == 3
    assert server.send(raw).count(b"HTTP/1.1 401") == 3  # the same at once; nonces count once


@pytest.mark.django_db(transaction=True)
def test_half_a_request_and_no_more_is_answered(serve: Serve) -> None:
    server = serve()
    with connected(server, 1, HEAD + b"Content-Length: 9\r\n\r\nx") as [client]:
        client.shutdown(socket.SHUT_WR)
        assert status(received(client)) == 400


@pytest.mark.django_db(transaction=True)
def test_who_says_nothing_does_not_keep_it_from_ending(serve: Serve) -> None:
    server = serve()
    with connected(server, 3, b""):
        assert server.signed("GET", "/queues").status == 200
        began = time.monotonic()
        terminate(server.process)
        until(lambda: not server.process.running, "the server to end")
        assert time.monotonic() - began < 15  # it would be 30 s


# -- the rules by themselves -------------------------------------------------------


def fed(*pieces: bytes) -> Incoming:
    incoming = Incoming()
    for piece in pieces:
        incoming.feed(piece)
    return incoming


def test_a_request_is_complete_with_its_last_byte() -> None:
    raw = HEAD + b"content-LENGTH:  3 \r\n\r\nabc"
    incoming = Incoming()
    assert not incoming.began
    for at in range(len(raw)):
        assert not incoming.complete
        incoming.feed(raw[at : at + 1])
    assert incoming.complete
    assert incoming.whole
    assert (incoming.take(), len(incoming)) == ((raw[:-3], b"abc"), 0)
    assert not incoming.complete


def test_what_comes_after_it_is_the_next_one() -> None:
    incoming = fed(HEAD + b"Content-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\n\r\nGE")
    assert incoming.take()[1] == b"abc"
    incoming.feed(b"")
    assert incoming.complete
    assert incoming.take() == (b"GET / HTTP/1.1\r\n\r\n", b"")
    incoming.feed(b"")
    assert not incoming.complete
    assert incoming.began


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 3\r\nContent-Length: 3",
        b"Content-Length: -3",
        b"Content-Length: x",
        b"Content-Length : 3",
        b"Content-Length: 3, 3",
        b"Content-Length: " + b"9" * 19,
        b"Content-Length: %d" % (LARGEST + 1),
        b"Transfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nContent-Length: 3",
    ],
)
def test_a_body_whose_length_cannot_be_believed_is_not_waited_for(framing: bytes) -> None:
    incoming = fed(HEAD + framing + b"\r\nExpect: 100-continue\r\n\r\n")
    assert incoming.complete
    assert not incoming.whole
    assert not incoming.wants_leave


def test_leave_to_send_is_given_once() -> None:
    incoming = fed(HEAD + b"Expect: 100-Continue\r\nContent-Length: 3\r\n\r\n")
    assert incoming.wants_leave
    incoming.feed(b"abc")
    assert incoming.take() == (HEAD + b"Content-Length: 3\r\n\r\n", b"abc")


def test_a_head_has_an_end() -> None:
    with pytest.raises(Refused) as told:
        fed(*[b"a: b\r\n"] * (gathering.LONGEST_HEAD // 6 + 1))
    assert told.value.status == 431


def test_the_time_does_not_begin_anew_with_each_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(gathering.time, "monotonic", lambda: now)
    incoming = Incoming()
    assert incoming.deadline() == now + gathering.SILENCE
    assert incoming.deadline(2) == now + 2
    now = 110.0
    incoming.feed(HEAD)
    assert incoming.deadline() == now + gathering.PATIENCE
    now = 120.0
    incoming.feed(b"Content-Length: %d\r\n\r\n" % (10 * gathering.SLOWEST))
    assert incoming.deadline() == 110 + gathering.PATIENCE + 10
