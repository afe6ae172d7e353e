"""The README's proxy with TLS: its block in a real nginx, before a real server."""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import httpx
import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from tests import services
from tests.api.signing import SECRET, encoded, headers
from tests.api.test_serve import Serve, serve
from tests.ports import claim_port
from tests.races.waiting import PATIENCE, until
from tests.test_readme import section
from vtrr_django.client import RemoteQueue
from vtrr_django.models import Job

__all__ = ["serve"]

pytestmark = pytest.mark.django_db(transaction=True)

[BLOCK] = re.findall(r"```nginx\n(.*?)```", section("HTTP"), re.DOTALL)
[NAME] = re.findall(r"server_name (\S+);", BLOCK)
VTRR = {
    "SECRET": SECRET,
    "QUEUES": {"default": {}, "large": {"MAX_PAYLOAD_BYTES": 16 * 1024 * 1024}},
}
JOB = encoded({"task": "t", "partition_key": "acme"})
JSON = {"Content-Type": "application/json"}

# It forks nothing, and keeps all it writes in its folder.
AROUND = """
daemon off;
master_process off;
pid nginx.pid;
error_log stderr warn;
events {}
http {
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
%s
}
"""


class Proxy(NamedTuple):
    """An nginx.

    Attributes:
        port: where it listens, with TLS.
        trusted: who trusts its certificate.
    """

    port: int
    trusted: ssl.SSLContext

    def client(self) -> httpx.Client:
        """Return whoever has looked up the server's name, and found this machine."""
        return httpx.Client(
            base_url=f"https://127.0.0.1:{self.port}",
            verify=self.trusted,
            headers={"Host": NAME},
            timeout=PATIENCE,
            trust_env=False,
        )

    def ask(self, method: str, path: str, body: bytes = b"", **more: str) -> httpx.Response:
        """Ask as who has the secret, or with other headers."""
        told = more or headers(method, path, body=body)
        with self.client() as client:
            return client.request(
                method,
                path,
                content=body or None,
                headers=told | JSON,
                extensions={"sni_hostname": NAME},
            )

    def ask_raw(self, path: str) -> tuple[int, Any]:
        """GET a path as it is written; httpx would tidy it up."""
        with closing(
            http.client.HTTPSConnection(
                "localhost", self.port, context=self.trusted, timeout=PATIENCE
            )
        ) as connection:
            connection.request("GET", path, headers={"Host": NAME})
            response = connection.getresponse()
            return response.status, json.loads(response.read())

    def queue(self, path: str = "") -> RemoteQueue:
        """Return a client's queue; the certificate is for its machine too."""
        options = {"verify": self.trusted, "trust_env": False}
        url = f"https://localhost:{self.port}{path}"
        return RemoteQueue("default", base_url=url, secret=SECRET, http_options=options)


Start = Callable[..., Proxy]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    services.need_program("openssl")
    folder = tmp_path_factory.mktemp("certificate")
    public, private = folder / "public.pem", folder / "private.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-nodes", "-days", "2", "-subj", f"/CN={NAME}"),
            *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-addext", f"subjectAltName=DNS:{NAME},DNS:localhost"),
            *("-out", public, "-keyout", private),
        ],
        check=True,
        capture_output=True,
    )
    return public, private


def configuration(port: int, server: int, certificate: tuple[Path, Path]) -> str:
    """Return the block of the README, with what is different here."""
    found = BLOCK
    for pattern, here in (
        (r"(?<=listen )443(?= ssl;)", f"127.0.0.1:{port}"),
        (r"(?<=ssl_certificate )\S+(?=;)", str(certificate[0])),
        (r"(?<=ssl_certificate_key )\S+(?=;)", str(certificate[1])),
        (r"(?<=proxy_pass http://127.0.0.1:)8000(?=;)", str(server)),
    ):
        found, count = re.subn(pattern, here, found)
        assert count == 1, pattern
    return found


@pytest.fixture
def proxied(
    serve: Serve,
    tmp_path: Path,
    certificate: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Start]:
    """Start the server and an nginx before it."""
    services.need_program("nginx")
    monkeypatch.setenv("VTRR_TEST_HOSTS", f"{NAME} localhost")
    with ExitStack() as stack:

        def start(change: Callable[[str], str] = str) -> Proxy:
            server = serve(vtrr=VTRR)
            port = claim_port()
            folder = tmp_path / "nginx"
            folder.mkdir()
            block = change(configuration(port, server.port, certificate))
            (folder / "nginx.conf").write_text(AROUND % block)
            log = stack.enter_context((folder / "log").open("w+"))
            process = subprocess.Popen(
                ["nginx", "-e", "stderr", "-p", folder, "-c", folder / "nginx.conf"], stderr=log
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            until(
                lambda: listens(port) or process.poll() is not None,
                lambda: f"nginx: {(folder / 'log').read_text()}",
            )
            assert process.poll() is None, (folder / "log").read_text()
            return Proxy(port, ssl.create_default_context(cafile=certificate[0]))

        yield start


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()
    except ConnectionRefusedError:
        return False
    return True


def test_clients_and_what_they_send_get_through(proxied: Start) -> None:
    proxy = proxied()
    # It has waited, or it would be told when to ask again.
    wanted = encoded({"worker_id": "w", "wait": 1})
    assert proxy.ask("POST", "/default/claim", wanted).json() == {"jobs": []}
    run_one(proxy.queue())
    # A proxy might write it in another way, and would break the signature.
    job_id = "a//b;c=1,%2F"
    told = encoded({"task": "t", "id": job_id})
    assert proxy.ask("POST", "/default/jobs", told).json() == {"ids": [job_id]}
    [job] = proxy.ask("POST", "/default/claim", wanted).json()["jobs"]
    path, query = f"/default/jobs/{job_id}", urlencode({"token": job["token"]})
    signed = headers("DELETE", path, query)
    assert proxy.ask("DELETE", f"{quote(path)}?{query}", **signed).json() == {"done": True}
    large = encoded({"task": "t", "args": ["x" * 10_000_000]})
    assert proxy.ask("POST", "/large/jobs", large).status_code == 201
    too_large = b"x" * (16 * 1024 * 1024 + 1)
    assert proxy.ask("POST", "/large/jobs", too_large).status_code == 413


def run_one(queue: RemoteQueue) -> None:
    """Publish a job and run it, with a worker that waits for it at the server."""
    ran: list[str] = []
    with queue:
        worker = queue.worker(wait=5, poll_interval=0.01)

        @queue.task
        def note(self: Any, text: str) -> None:
            ran.append(text)
            worker.stop()

        note.enqueue("through TLS", partition_key="acme")
        worker.run()
    assert ran == ["through TLS"]


def test_a_body_of_unknown_length_gets_one(proxied: Start) -> None:
    proxy = proxied()
    signed = headers("POST", "/default/jobs", body=JOB)
    with proxy.client() as client:
        found = client.post(
            "/default/jobs",
            content=iter([JOB]),
            headers=signed | JSON,
            extensions={"sni_hostname": NAME},
        )
    assert found.status_code == 201
    assert Job.objects.get().partition_key == "acme"


# -- staff -------------------------------------------------------------------------


def bound(address: str) -> Callable[[str], str]:
    """Have nginx ask from another address, as from another machine."""

    def change(block: str) -> str:
        return block.replace("location / {", f"location / {{ proxy_bind {address};")

    return change


@pytest.mark.parametrize(
    ("change", "trusted", "status"),
    [
        (str, None, 201),
        (lambda block: block.replace("proxy_set_header Host", "#"), None, 403),
        (lambda block: block.replace("proxy_set_header X-Forwarded-Proto", "#"), None, 403),
        (bound("127.0.0.2"), None, 403),
        (bound("127.0.0.2"), "127.0.0.2", 201),
    ],
    ids=["as_written", "without_host", "without_scheme", "from_elsewhere", "from_elsewhere_told"],
)
def test_staff_may_steer_from_the_dashboard(
    proxied: Start,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[str], str],
    trusted: str | None,
    status: int,
) -> None:
    if trusted:
        monkeypatch.setenv("FORWARDED_ALLOW_IPS", trusted)
    user = User.objects.create_user("ann", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename="enqueue_jobs"))
    browser = Client()
    browser.force_login(user)
    cookie = f"sessionid={browser.cookies['sessionid'].value}"
    proxy = proxied(change)
    page = proxy.ask("GET", "/", Cookie=cookie)
    [token] = re.findall(r'data-csrf="(\w+)"', page.text)
    more = {
        "Cookie": f"{cookie}; csrftoken={page.cookies['csrftoken']}",
        "Origin": f"https://{NAME}",
        "Referer": f"https://{NAME}/",
        "X-CSRFToken": token,
    }
    answer = proxy.ask("POST", "/default/jobs", JOB, **more)
    assert answer.status_code == status, answer.text


# -- below a path ------------------------------------------------------------------


def below(*lines: str, ends: str = "") -> Callable[[str], str]:
    """Have what is below a path go to the server."""

    def change(block: str) -> str:
        added = "".join(f" {line}" for line in lines)
        found, count = re.subn(r"location / \{", f"location /jobs/ {{{added}", block)
        assert count == 1
        return re.sub(r"(proxy_pass \S+);", rf"\1{ends};", found)

    return change


def test_below_a_path_as_written(proxied: Start) -> None:
    text = " ".join(section("HTTP").split())
    [name] = re.findall(r"call the location `(/jobs/)`", text)
    [line] = re.findall(r"add `(proxy_set_header SCRIPT_NAME .+?;)`", text)
    proxy = proxied(below(line))
    run_one(proxy.queue(name.rstrip("/")))
    document = proxy.ask("GET", f"{name}openapi.json").json()
    assert document["servers"] == [{"url": name.rstrip("/")}]
    # nginx takes all these to be below it, and passes them on as they came.
    for written in ("//jobs/default/stats", "/x/../jobs/default/stats", "/%6aobs/default/stats"):
        status, told = proxy.ask_raw(written)
        assert status == 400, told
        assert told["error"].startswith("expected an address that begins, as it is written"), told


@pytest.mark.parametrize(("ends", "status"), [("/", 401), ("", 404)])
def test_below_a_path_that_is_not_said(proxied: Start, ends: str, status: int) -> None:
    proxy = proxied(below(ends=ends))
    assert proxy.ask("POST", "/jobs/default/jobs", JOB).status_code == status
