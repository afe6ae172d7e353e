"""``vtrr_serve``: a real process, real sockets, and clients of all kinds."""

from __future__ import annotations

import http.client
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import CommandError
from django.test import Client

from tests.api.signing import SECRET, encoded, headers
from tests.commands.manage import Process, call, manage, run
from tests.ports import claim_port
from tests.races.waiting import PATIENCE, until
from vtrr_django.api import serving
from vtrr_django.api.body import LARGEST
from vtrr_django.models import Job

pytestmark = pytest.mark.django_db(transaction=True)

EVERYWHERE = "0.0.0.0"  # noqa: S104 - what is tested is who may

VTRR = {"SECRET": SECRET, "QUEUES": {"default": {}}}
JSON = {"Content-Type": "application/json"}
JOB = encoded({"task": "t", "partition_key": "acme"})


class Answer(NamedTuple):
    status: int
    body: Any
    headers: Mapping[str, str]


class Server:
    """A server and the process it runs in."""

    def __init__(self, process: Process) -> None:
        self.process = process
        until(lambda: "\n" in process.out or not process.running, "the server to be ready")
        assert "\n" in process.out, process.err
        self.address = process.out.partition("listening on ")[2].strip()
        parts = urlsplit(self.address)
        self.host, self.port = parts.hostname or "", parts.port or 0

    def socket(self) -> socket.socket:
        return socket.create_connection((self.host, self.port), timeout=PATIENCE)

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)

    def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, Any] | None = None
    ) -> Answer:
        with closing(self.connection()) as connection:
            return ask(connection, method, path, body, headers)

    def signed(self, method: str, path: str, body: bytes = b"") -> Answer:
        told = headers(method, path, body=body)
        more = JSON if body else {}
        return self.ask(method, quote(path), body or None, told | more)

    def send(self, raw: bytes) -> bytes:
        """Send bytes; return all that comes back until the server closes."""
        with closing(self.socket()) as client:
            client.sendall(raw)
            return received(client)


def ask(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: Any = None,
    headers: Mapping[str, Any] | None = None,
) -> Answer:
    connection.request(method, path, body, dict(headers or {}))
    response = connection.getresponse()
    raw = response.read()
    is_json = response.headers["Content-Type"] == "application/json" and raw
    return Answer(response.status, json.loads(raw) if is_json else raw, response.headers)


def received(client: socket.socket) -> bytes:
    found = b""
    while piece := client.recv(65536):
        found += piece
    return found


Serve = Callable[..., Server]


@pytest.fixture
def serve(tmp_path: Path, transactional_db: None) -> Iterator[Serve]:
    """Start servers, which end with the test."""
    with ExitStack() as stack:

        def start(*arguments: str, vtrr: Any = VTRR, apps: str = "") -> Server:
            folder = tmp_path / str(len(list(tmp_path.iterdir())))
            folder.mkdir()
            env = {"VTRR_TEST_EXTRA_APP": apps}
            options = ("--port", "0", *arguments)
            process = manage(folder, "vtrr_serve", *options, vtrr=vtrr, env=env)
            return Server(stack.enter_context(process))

        yield start


# -- serving -----------------------------------------------------------------------


def test_it_serves_the_api_and_the_dashboard(serve: Serve) -> None:
    server = serve()
    assert server.process.out == f"listening on http://127.0.0.1:{server.port}\n"
    page = server.ask("GET", "/")
    assert (page.status, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert server.ask("GET", "/openapi.json").body["openapi"].startswith("3.1")
    assert server.ask("GET", "/queues").status == 401
    assert server.signed("GET", "/queues").status == 200
    assert server.signed("POST", "/default/jobs", JOB).status == 201
    assert Job.objects.get().partition_key == "acme"
    server.process.signal(signal.SIGTERM)
    ended = server.process.end()
    assert (ended.status, ended.err) == (0, "")


def test_a_captured_request_works_once_whichever_process_gets_it(serve: Serve) -> None:
    server = serve("--workers", "2")
    told = headers("POST", "/default/jobs", body=JOB) | JSON
    answers = [server.ask("POST", "/default/jobs", JOB, told) for _ in range(10)]
    assert sorted(one.status for one in answers) == [201] + [401] * 9
    assert Job.objects.count() == 1


def test_a_connection_serves_many_requests(serve: Serve) -> None:
    server = serve()
    with closing(server.connection()) as connection:
        for method, path, status in [
            ("HEAD", "/openapi.json", 200),
            ("GET", "/openapi.json", 200),
            ("DELETE", "/queues", 401),
            ("DELETE", "/openapi.json", 405),
            ("POST", "/default/jobs", 401),
            ("GET", "/nothing/here", 404),
            ("GET", "/openapi.json", 200),
        ]:
            body = JOB if method == "POST" else None
            assert ask(connection, method, path, body, JSON).status == status
            assert connection.sock is not None, "the server closed the connection"


def test_staff_of_the_project_may_look(serve: Serve) -> None:
    user = User.objects.create_user("ann", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename="view_queuestate"))
    browser = Client()
    browser.force_login(user)
    cookie = {"Cookie": f"sessionid={browser.cookies['sessionid'].value}"}
    server = serve()
    assert server.ask("GET", "/queues", None, cookie).status == 200
    assert server.ask("POST", "/default/jobs", JOB, cookie | JSON).status == 403


def test_without_a_secret_this_machine_gets_in_and_what_a_proxy_passes_on_does_not(
    serve: Serve,
) -> None:
    server = serve("--workers", "2", vtrr={})
    assert "WARNING: there is no VTRR['SECRET']" in server.process.err
    for _ in range(4):  # whichever process gets it
        assert server.ask("POST", "/default/jobs", JOB, JSON).status == 201
    assert server.ask("GET", "/queues", None, {"X-Forwarded-For": "192.0.2.1"}).status == 401
    assert server.ask("GET", "/queues", None, {"Host": "jobs.example"}).status == 401
    assert b" 401 " in server.send(b"GET /queues HTTP/1.0\r\nHost: localhost\r\n\r\n")


def test_it_listens_where_it_is_told_to_if_there_is_a_secret(serve: Serve) -> None:
    server = serve("--host", EVERYWHERE)
    assert server.address == f"http://{EVERYWHERE}:{server.port}"
    server.host = "127.0.0.1"
    assert server.ask("GET", "/queues").status == 401
    assert server.signed("GET", "/queues").status == 200


def test_it_listens_on_ipv6(serve: Serve) -> None:
    server = serve("--host", "::1", vtrr={})
    assert server.address == f"http://[::1]:{server.port}"
    assert server.ask("GET", "/queues").status == 200


# -- what comes in -----------------------------------------------------------------


def test_what_raw_requests_get(serve: Serve) -> None:
    server = serve()
    nobody: list[dict[str, str]] = [
        {},
        {"x-signature": "é"},
        {"Authorization": "Basic foo"},
        {"Authorization": "é"},
        {"x-signature": "0" * 64, "x-timestamp": "é", "x-nonce": "é"},
    ]
    answers = [server.ask("POST", "/default/jobs", JOB, JSON | told) for told in nobody]
    assert {(one.status, one.body["error"]) for one in answers} == {(401, "unauthorized")}

    def said(answer: Answer) -> tuple[int, bool]:
        return answer.status, bool(answer.body["error"])

    chunked = server.ask("POST", "/default/jobs", iter([JOB, JOB]), JSON)
    assert said(chunked) == (411, True)
    assert said(server.ask("POST", "/default/jobs", b"x" * 100_000_000, JSON)) == (413, True)
    assert said(server.signed("POST", "/default/jobs", b"[" * 40_000)) == (400, True)
    assert said(server.signed("POST", "/default/jobs", b'{"x":1e999}')) == (400, True)
    assert said(server.signed("POST", "/default/jobs", b'{"x":%s}' % (b"9" * 5000))) == (400, True)
    assert said(server.signed("POST", "/default/jobs", JOB.decode().encode("utf-16"))) == (
        400,
        True,
    )
    for path in ("/%00/jobs", "/default%00/jobs", "/%ff/jobs", "/../jobs", "//", "/default/%00"):
        assert said(server.ask("GET", path))[0] in {401, 404, 405}
    assert said(server.signed("POST", "/\x00/jobs", JOB)) == (404, True)
    # And it lives.
    assert server.signed("POST", "/default/jobs", JOB).status == 201


def test_the_largest_body_gets_through(serve: Serve) -> None:
    body = b'{"task": "t", "args": ["' + b"x" * (LARGEST - 27) + b'"]}'
    assert len(body) == LARGEST
    queue = {"MAX_PAYLOAD_BYTES": LARGEST}
    server = serve(vtrr={"SECRET": SECRET, "QUEUES": {"default": {}, "large": queue}})
    assert server.signed("POST", "/large/jobs", body).status == 201
    assert server.signed("POST", "/default/jobs", body).status == 413


def test_an_address_that_is_not_utf8_is_refused(serve: Serve) -> None:
    server = serve(vtrr={})
    for method, address, status in [
        ("GET", "/default/partitions?partition_key=%ff", 400),
        ("DELETE", "/default/jobs/%ff?token=x", 400),
        ("DELETE", "/default/jobs/%25FF?token=x", 409),
        ("GET", "/%ff/stats", 400),
    ]:
        assert server.ask(method, address).status == status, address


def test_addresses_that_are_no_paths_are_refused_as_all_is(serve: Serve) -> None:
    server = serve()
    for first, status in [
        (b"OPTIONS *", b"400"),
        (b"CONNECT 127.0.0.1:80", b"400"),
        (b"GET http://127.0.0.1/nothing", b"404"),
    ]:
        raw = first + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        head, _, body = server.send(raw).partition(b"\r\n\r\n")
        assert head[:12] == b"HTTP/1.1 " + status, first
        assert json.loads(body)["error"].startswith("expected a"), first


def test_an_address_outside_the_path_that_a_proxy_names_is_refused(serve: Serve) -> None:
    server = serve()
    for name, path in [("/x", "/default/stats"), ("/jobs", "//jobs/default/stats")]:
        answer = server.ask("GET", path, None, {"SCRIPT_NAME": name})
        assert (answer.status, list(answer.body)) == (400, ["error"])
        assert answer.body["error"].startswith("expected an address that begins, as it is written")
        assert name in answer.body["error"]
    assert server.ask("GET", "/x/openapi.json", None, {"SCRIPT_NAME": "/x"}).status == 200
    assert "Traceback" not in server.process.err


def test_a_signature_counts_for_the_whole_path_whatever_a_stranger_calls_its_beginning(
    serve: Serve,
) -> None:
    server = serve()
    prefix = {"SCRIPT_NAME": "/default"}
    for signed, status in [("/queues", 401), ("/default/queues", 200)]:
        told = headers("GET", signed)
        assert server.ask("GET", "/default/queues", None, told | prefix).status == status


def test_what_is_no_http_is_refused(serve: Serve) -> None:
    server = serve()
    for raw in (
        b"\x00\x01\x02\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n",
        b"GET /" + b"x" * 10_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n",
        b"GET / HTTP/1.1\r\na: " + b"b" * 20_000 + b"\r\n\r\n",
    ):
        head, _, body = server.send(raw).partition(b"\r\n\r\n")
        assert head[:10] == b"HTTP/1.1 4" or head[:12] == b"HTTP/1.1 501", raw
        assert b"\r\nContent-Type: application/json\r\n" in head, raw
        assert json.loads(body)["error"].startswith("expected "), raw
    assert server.signed("GET", "/queues").status == 200


def test_those_who_wait_for_jobs_leave_threads_to_others(serve: Serve) -> None:
    server = serve("--threads", "4")
    body = encoded({"worker_id": "w", "wait": 20})
    with ExitStack() as stack:
        polls = [Begun(server, "/default/claim", body) for _ in range(4)]
        for poll in polls:
            stack.enter_context(closing(poll.socket))
            poll.go_on()

        def answered() -> int:
            return len(select.select([poll.socket for poll in polls], [], [], 0)[0])

        until(lambda: answered() >= 2, "those too many to be answered at once")
        assert server.signed("GET", "/queues").status == 200
        assert answered() == 2


def test_an_error_that_nobody_foresaw_is_shown(serve: Serve) -> None:
    server = serve(apps="tests.api.impatient.Impatient")
    answer = server.ask("GET", "/health")
    assert (answer.status, list(answer.body)) == (500, ["error"])
    assert "ZeroDivisionError: a bug" in server.process.err


# -- ending ------------------------------------------------------------------------


class Begun:
    """A request the server has begun to read, and waits for the rest of."""

    def __init__(self, server: Server, path: str = "/default/jobs", body: bytes = JOB) -> None:
        self.socket, self._body = server.socket(), body
        told = {
            **headers("POST", path, body=body),
            **JSON,
            "Host": "localhost",
            "Content-Length": str(len(body)),
            "Expect": "100-continue",
        }
        lines = [f"{name}: {value}\r\n" for name, value in told.items()]
        self.socket.sendall(f"POST {path} HTTP/1.1\r\n{''.join(lines)}\r\n".encode())
        assert self.socket.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"

    def go_on(self) -> None:
        self.socket.sendall(self._body)


def refuses(server: Server) -> bool:
    """Return whether nobody listens any more."""
    try:
        server.socket().close()
    except ConnectionRefusedError:
        return True
    return False


def terminate(process: Process) -> None:
    process.signal(signal.SIGTERM)


def interrupt(process: Process) -> None:
    """Press Ctrl-C, which all processes of the terminal get."""
    os.killpg(process.pid, signal.SIGINT)


@pytest.mark.parametrize("end", [terminate, interrupt])
def test_requests_finish_before_it_ends(serve: Serve, end: Callable[[Process], None]) -> None:
    server = serve("--workers", "2")
    request = Begun(server)
    with closing(server.connection()) as idle, closing(request.socket):
        assert ask(idle, "GET", "/openapi.json").status == 200
        end(server.process)
        until(lambda: refuses(server), "the server to take no more")
        assert idle.sock.recv(1) == b""
        assert server.process.running
        request.go_on()
        answer = received(request.socket)
    assert answer.startswith(b"HTTP/1.1 201 ")
    ended = server.process.end()
    assert (ended.status, ended.err) == (0, "")
    assert Job.objects.count() == 1


def test_a_second_ctrl_c_does_not_wait(serve: Serve) -> None:
    server = serve()
    request = Begun(server)
    with closing(request.socket):
        interrupt(server.process)
        until(lambda: refuses(server), "the server to take no more")
        interrupt(server.process)
        assert server.process.end().status == 0
    assert not Job.objects.exists()


def test_who_waits_for_jobs_is_answered_when_it_ends(serve: Serve) -> None:
    server = serve()
    body = encoded({"worker_id": "w", "wait": 20})
    polls = [Begun(server, "/default/claim", body) for _ in range(3)]
    with ExitStack() as stack:
        for poll in polls:
            stack.enter_context(closing(poll.socket))
            poll.go_on()
        terminate(server.process)
        answers = [received(poll.socket) for poll in polls]
    assert server.process.end().status == 0
    assert [b'"jobs":[]}' in answer for answer in answers] == [True] * 3


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_a_worker_that_dies_is_replaced(serve: Serve) -> None:
    server = serve()
    (worker,) = children(server.process.pid)
    os.kill(worker, signal.SIGKILL)
    until(lambda: children(server.process.pid) not in ([], [worker]), "another worker")
    assert server.signed("GET", "/queues").status == 200
    assert server.process.out.count("listening on") == 1


def test_a_worker_that_has_just_been_forked_is_told_to_end(
    serve: Serve, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("unborn")
    monkeypatch.setenv("VTRR_TEST_UNBORN", str(folder))
    server = serve("--workers", "2", apps="tests.api.unborn.Unborn")
    until(lambda: len(children(server.process.pid)) == 2, "the second worker to be forked")
    server.process.signal(signal.SIGTERM)
    until(lambda: len(children(server.process.pid)) == 1, "the first worker to end")
    (folder / "born").touch()
    ended = server.process.end()
    assert (ended.status, ended.err) == (0, "")
    assert (folder / "ended").exists(), "it was killed"


def test_workers_do_not_outlive_their_server(serve: Serve) -> None:
    server = serve()
    (worker,) = children(server.process.pid)
    server.process.signal(signal.SIGKILL)
    until(lambda: not Path(f"/proc/{worker}").exists() or refuses(server), "the worker to end")


def test_workers_of_a_server_that_was_killed_end_as_if_told_to(serve: Serve) -> None:
    port = str(claim_port())
    server = serve("--workers", "2", "--port", port)
    workers = children(server.process.pid)
    body = encoded({"worker_id": "w", "wait": 20})
    polls = [Begun(server, "/default/claim", body) for _ in range(2)]
    request = Begun(server)
    with closing(server.connection()) as idle, ExitStack() as stack:
        assert ask(idle, "GET", "/openapi.json").status == 200
        for begun in (*polls, request):
            stack.enter_context(closing(begun.socket))
        for poll in polls:
            poll.go_on()
        server.process.signal(signal.SIGKILL)
        until(lambda: refuses(server), "the workers to take no more")
        another = serve("--port", port)
        assert another.signed("GET", "/queues").status == 200
        assert [b'"jobs":[]}' in received(poll.socket) for poll in polls] == [True] * 2
        assert idle.sock.recv(1) == b""
        request.go_on()
        assert received(request.socket).startswith(b"HTTP/1.1 201 ")
        until(lambda: not any(lives(one) for one in workers), "the workers to end")


# -- refusing to start -------------------------------------------------------------


@pytest.mark.parametrize("host", [EVERYWHERE, "::", "192.0.2.1", "jobs.example", ""])
def test_without_a_secret_it_listens_on_loopback_only(settings: Any, host: str) -> None:
    settings.VTRR = {}
    with pytest.raises(CommandError, match=r"set VTRR = \{'SECRET': \.\.\.\}"):
        call("vtrr_serve", "--host", host)


def test_it_says_so_and_ends(tmp_path: Path) -> None:
    ended = run(tmp_path, "vtrr_serve", "--host", EVERYWHERE, vtrr={})
    assert (ended.status, ended.out) == (1, "")
    assert "without VTRR['SECRET']" in ended.err
    assert "Traceback" not in ended.err


def test_without_gunicorn_it_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "vtrr_django.api.serving", raising=False)
    loaded = {name for name in sys.modules if name.partition(".")[0] == "gunicorn"}
    for name in loaded | {"gunicorn"}:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(CommandError, match=r"pip install 'vtrr-django\[server\]'"):
        call("vtrr_serve")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--port", -1),
        ("--port", 65536),
        ("--workers", 0),
        ("--threads", 0),
        ("--threads", 10_000),
    ],
)
def test_numbers_are_within_bounds(option: str, value: int) -> None:
    with pytest.raises(CommandError, match=f"expected {option} to be a whole number from"):
        call("vtrr_serve", option, str(value))


def test_a_port_that_is_taken(serve: Serve, tmp_path: Path) -> None:
    server = serve()
    folder = tmp_path / "second"
    folder.mkdir()
    ended = run(folder, "vtrr_serve", "--port", str(server.port), vtrr=VTRR)
    assert (ended.status, ended.out) == (1, "")
    assert f"got '127.0.0.1' port {server.port}: Address already in use" in ended.err
    assert "Traceback" not in ended.err


def test_a_port_that_is_given_back_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        monkeypatch.setattr(serving.time, "sleep", lambda seconds: holder.close())
        serving._try(*holder.getsockname())
        assert holder.fileno() == -1


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid", "2001:db8::1", "é" * 300])
def test_an_address_of_another_machine(settings: Any, host: str) -> None:
    settings.VTRR = VTRR
    with pytest.raises(CommandError, match="expected an address to listen on"):
        call("vtrr_serve", "--host", host)
