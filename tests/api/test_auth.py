"""Who gets in, and that who does not learns nothing from it."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client

from tests.api.signing import SECRET, SignedClient, encoded, headers, send
from vtrr_django.api import auth, nonces
from vtrr_django.domain import signature
from vtrr_django.models import Nonce

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("echoes")]

BODY = {"a": [1, "é"]}

LOCAL = {"REMOTE_ADDR": "127.0.0.1", "HTTP_HOST": "localhost:8000"}


def basic(user: bytes = b"vtrr", password: bytes = SECRET.encode()) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(user + b":" + password).decode()}


def refused(response: Any) -> bool:
    """Return whether it is the one answer for all that are refused."""
    told = (response.status_code, response.json(), response.headers["WWW-Authenticate"])
    return told == (401, {"error": "unauthorized"}, "VTRR")


# -- signatures --------------------------------------------------------------------


def test_a_signed_request_gets_in(signed: SignedClient) -> None:
    response = signed.post("/echo", BODY)
    assert (response.status_code, response.json()) == (200, {"body": BODY, "user": "vtrr"})
    assert Nonce.objects.count() == 1


def test_a_read_may_be_signed_too(signed: SignedClient) -> None:
    assert signed.get("/who", query="text=%C3%A9&n=1").json()["user"] == "vtrr"


@pytest.mark.parametrize("job_id", ["a/b", "100%", "%2F", "what?x=1&y", "a%2Fb/%", "~!@#$^*()"])
def test_what_is_signed_is_the_decoded_path(signed: SignedClient, job_id: str) -> None:
    assert signed.get(f"/jobs/{job_id}").json() == {"user": "vtrr", "query": {}, "id": job_id}


def test_the_path_that_is_signed_begins_where_the_client_sees_it(echoes: Any) -> None:
    client = Client(SCRIPT_NAME="/vtrr", HTTP_HOST="localhost")
    good = headers("POST", "/vtrr/echo", body=encoded(BODY))
    assert send(client, "POST", "/echo", encoded(BODY), headers=good).status_code == 200
    without = headers("POST", "/echo", body=encoded(BODY))
    assert refused(send(client, "POST", "/echo", encoded(BODY), headers=without))


@pytest.mark.parametrize("secret", ["old", "new"])
def test_two_secrets_may_be_active(echoes: Any, secret: str) -> None:
    echoes.VTRR = {"SECRET": ["new", "old"]}
    assert SignedClient(secret).post("/echo").status_code == 200
    assert refused(SignedClient("older").post("/echo"))
    assert send(Client(), "GET", "/who", headers=basic(password=secret.encode())).json()["user"]


def test_a_captured_request_works_once() -> None:
    captured = headers("POST", "/default/named", body=b"{}")
    moved = headers("POST", "/default/named", body=b"{}")
    client = Client()

    def replay(method: str, path: str, body: bytes = b"{}", query: str = "") -> Any:
        return send(client, method, path, body, query=query, headers=captured)

    assert refused(replay("POST", "/mails/named"))
    assert refused(replay("PATCH", "/default/named"))
    assert refused(replay("POST", "/default/named", b"{} "))
    assert refused(replay("POST", "/default/named", query="n=1"))
    assert replay("POST", "/default/named").status_code == 200
    assert refused(replay("POST", "/default/named"))
    # What was refused has used nothing up.
    assert send(client, "POST", "/default/named", b"{}", headers=moved).status_code == 200


def test_another_verb_needs_another_signature() -> None:
    captured = headers("POST", "/echo", body=b"{}")
    assert refused(send(Client(), "PATCH", "/echo", b"{}", headers=captured))
    captured = headers("GET", "/jobs/x")
    assert refused(send(Client(), "DELETE", "/jobs/x", headers=captured))
    assert send(Client(), "HEAD", "/jobs/x", headers=captured).status_code == 401
    assert send(Client(), "GET", "/jobs/x", headers=captured).status_code == 200


@pytest.mark.parametrize(
    ("drift", "status"), [(-299, 200), (299, 200), (-360, 401), (360, 401), (-(10**11), 401)]
)
def test_clocks_may_differ_by_five_minutes(
    monkeypatch: pytest.MonkeyPatch, drift: int, status: int
) -> None:
    now = time.time()
    monkeypatch.setattr(auth.time, "time", lambda: now)
    told = headers("POST", "/echo", body=b"{}", timestamp=str(int(now) + drift))
    response = send(Client(), "POST", "/echo", b"{}", headers=told)
    assert response.status_code == status
    assert status == 200 or refused(response)


def test_a_captured_request_does_not_work_after_six_minutes_though_its_nonce_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    captured = headers("POST", "/echo", body=b"{}")
    assert send(Client(), "POST", "/echo", b"{}", headers=captured).status_code == 200
    Nonce.objects.all().delete()
    later = time.time() + 360
    monkeypatch.setattr(auth.time, "time", lambda: later)
    assert refused(send(Client(), "POST", "/echo", b"{}", headers=captured))


@pytest.mark.parametrize(
    "timestamp", ["", "x", "1e9", "-1", " 1", "١٢٣", "1.5", "99999999999999999999", "0x10"]
)
def test_a_timestamp_is_a_number(timestamp: str) -> None:
    told = headers("POST", "/echo", body=b"{}", timestamp=timestamp)
    assert refused(send(Client(), "POST", "/echo", b"{}", headers=told))


@pytest.mark.parametrize("nonce", ["", "short", "n" * 65, "é" * 20, "a b" * 8, "n" * 5000])
def test_a_nonce_is_16_to_64_characters(nonce: str) -> None:
    told = headers("POST", "/echo", body=b"{}", nonce=nonce)
    assert refused(send(Client(), "POST", "/echo", b"{}", headers=told))
    assert not Nonce.objects.exists()


def test_a_signature_that_is_refused_uses_up_no_nonce() -> None:
    assert refused(SignedClient("wrong").post("/echo"))
    assert not Nonce.objects.exists()


def test_whether_a_nonce_was_used_is_known_or_nobody_gets_in(
    signed: SignedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nonces, "TABLE", "no_such_table")
    response = signed.post("/echo")
    assert response.status_code == 503
    assert response.headers["Retry-After"] == "1"
    assert "no_such_table" not in response.content.decode()
    # Those that use none are not concerned.
    assert send(Client(), "GET", "/who", headers=basic()).status_code == 200


def test_who_signs_wrongly_gets_in_by_no_other_way(staff: Callable[..., Client]) -> None:
    client = staff("view_queuestate")
    assert client.get("/who").status_code == 200
    told = headers("GET", "/who", secret="wrong")
    assert refused(client.get("/who", headers=told))
    assert refused(client.get("/who", headers=told | basic()))


# -- the secret as a password ------------------------------------------------------


def test_the_secret_is_a_password() -> None:
    for method in ("GET", "HEAD"):
        assert send(Client(), method, "/who", headers=basic()).status_code == 200
    assert send(Client(), "POST", "/echo", b"{}", headers=basic()).json()["user"] == "vtrr"
    lower = {"Authorization": basic()["Authorization"].replace("Basic", "bASIC")}
    assert send(Client(), "GET", "/who", headers=lower).status_code == 200


def test_a_secret_may_hold_a_colon_and_accents(echoes: Any) -> None:
    echoes.VTRR = {"SECRET": "a:b:é"}
    password = "a:b:é".encode()
    assert send(Client(), "GET", "/who", headers=basic(password=password)).status_code == 200
    assert SignedClient("a:b:é").get("/who").status_code == 200
    latin = "a:b:é".encode("latin-1")
    assert refused(send(Client(), "GET", "/who", headers=basic(password=latin)))


# -- the answer of those who are refused -------------------------------------------

NOBODY: dict[str, dict[str, str]] = {
    "nothing": {},
    "Basic, garbled": {"Authorization": "Basic foo"},
    "Basic, nothing": {"Authorization": "Basic"},
    "Basic, no colon": {"Authorization": "Basic " + base64.b64encode(SECRET.encode()).decode()},
    "Basic, no ASCII": {"Authorization": "Basic é"},
    "Basic, no UTF-8": basic(b"\xff", b"\xff"),
    "Basic, wrong secret": basic(password=b"wrong"),
    "Basic, wrong user": basic(user=b"admin"),
    "Basic, both wrong": basic(user=b"admin", password=b"wrong"),
    "Basic, no password": basic(password=b""),
    "Basic, long": basic(password=b"x" * 5000),
    "Bearer": {"Authorization": f"Bearer {SECRET}"},
    "signed, garbled": {"x-signature": "é"},
    "signed, no hex": {"x-signature": "zz" * 32},
    "signed, empty": {"x-signature": ""},
    "signed, nothing else": {"x-signature": "00" * 32},
    "signed, wrong secret": headers("POST", "/echo", body=b"{}", secret="wrong"),
    "signed, no nonce": {
        name: value
        for name, value in headers("POST", "/echo", body=b"{}").items()
        if name != signature.NONCE
    },
    "signed, no time": {
        name: value
        for name, value in headers("POST", "/echo", body=b"{}").items()
        if name != signature.TIMESTAMP
    },
    "signed, in capitals": {
        name: value.upper() if name == signature.SIGNATURE else value
        for name, value in headers("POST", "/echo", body=b"{}").items()
    },
    "unsigned, fresh": {"x-timestamp": str(int(time.time())), "x-nonce": "n" * 20},
    "local, as it says": {"X-Forwarded-For": "127.0.0.1", "Host": "localhost"},
}


@pytest.mark.parametrize("secrets", [SECRET, [SECRET, "another"]], ids=["one", "two"])
def test_who_is_refused_gets_the_same_answer_after_the_same_work(
    echoes: Any, monkeypatch: pytest.MonkeyPatch, secrets: Any
) -> None:
    echoes.VTRR = {"SECRET": secrets}
    computed: list[int] = []
    compared: list[int] = []
    sign, compare = signature.sign, signature.hmac.compare_digest

    def counting_sign(secret: str, message: bytes) -> str:
        computed.append(1)
        return sign(secret, message)

    def counting_compare(first: Any, second: Any) -> bool:
        compared.append(1)
        return compare(first, second)

    monkeypatch.setattr(signature, "sign", counting_sign)
    monkeypatch.setattr(signature.hmac, "compare_digest", counting_compare)
    seen = set()
    for told in NOBODY.values():
        computed.clear()
        compared.clear()
        response = send(Client(**LOCAL), "POST", "/echo", b"{}", headers=told)
        kept = {name: value for name, value in response.items() if name != "Expires"}
        seen.add((len(computed), len(compared), response.content, str(sorted(kept.items()))))
        assert refused(response)
    assert len(seen) == 1
    ((computations, comparisons, *_),) = seen
    assert computations
    assert comparisons


@pytest.mark.parametrize("told", NOBODY.values(), ids=list(NOBODY))
def test_none_of_them_costs_a_query(told: dict[str, str], django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0, connection=connection):
        assert refused(send(Client(), "POST", "/echo", b"{}", headers=told))


def test_who_is_refused_does_not_learn_which_queues_there_are(signed: SignedClient) -> None:
    assert signed.post("/nothere/named").status_code == 404
    for path in ("/nothere/named", "/default/named"):
        assert refused(send(Client(), "POST", path, b"{}"))
        assert refused(send(Client(), "POST", path, b"no JSON"))


# -- staff -------------------------------------------------------------------------


@pytest.fixture
def staff() -> Callable[..., Client]:
    """Return a browser of a member of staff who has these permissions."""

    def sign_in(*permissions: str, csrf: bool = False, **user: Any) -> Client:
        person = User.objects.create_user(f"p{User.objects.count()}", **{"is_staff": True} | user)
        person.user_permissions.set(Permission.objects.filter(codename__in=permissions))
        client = Client(enforce_csrf_checks=csrf)
        client.force_login(person)
        return client

    return sign_in


def write(client: Client, path: str = "/echo", **told: str) -> Any:
    return send(client, "POST", path, b"{}", headers=told)


def test_staff_may_do_what_they_have_a_permission_for(staff: Callable[..., Client]) -> None:
    client = staff("view_queuestate")
    assert client.get("/who").json() == {"user": "p0", "query": {}}
    answer = write(client)
    assert answer.status_code == 403
    assert answer.json() == {
        "error": "expected a user with the permission vtrr_django.steer_queues"
    }
    client = staff("steer_queues")
    assert client.get("/who").status_code == 403
    assert write(client).json()["user"] == "p1"
    assert write(client, "/default/named").status_code == 403
    assert write(staff("requeue_jobs"), "/default/named").json() == {"queue": "default"}
    assert write(staff(is_superuser=True), "/default/named").status_code == 200


@pytest.mark.parametrize("user", [{"is_staff": False}, {"is_active": False}])
def test_others_who_are_signed_in_are_nobody(
    staff: Callable[..., Client], user: dict[str, Any]
) -> None:
    assert refused(staff("view_queuestate", **user).get("/who"))


def test_what_staff_write_needs_a_csrf_token(staff: Callable[..., Client]) -> None:
    client = staff("view_queuestate", "steer_queues", csrf=True)
    assert client.get("/who").status_code == 200
    answer = write(client)
    assert answer.status_code == 403
    assert "CSRF" in answer.json()["error"]
    client.cookies["csrftoken"] = token = "t" * 32
    assert write(client, **{"X-CSRFToken": "u" * 32}).status_code == 403
    assert write(client, **{"X-CSRFToken": token}).status_code == 200
    evil = {"X-CSRFToken": token, "Origin": "https://evil.example"}
    assert write(client, **evil).status_code == 403


def test_who_has_the_secret_needs_no_csrf_token(signed: SignedClient) -> None:
    signed.django = Client(enforce_csrf_checks=True)
    assert signed.post("/echo").status_code == 200
    assert send(signed.django, "POST", "/echo", b"{}", headers=basic()).status_code == 200


def test_a_project_without_sessions(echoes: Any, signed: SignedClient) -> None:
    echoes.MIDDLEWARE = []
    assert signed.get("/who").status_code == 200
    assert refused(Client().get("/who"))


def test_a_project_that_demands_a_login_everywhere(echoes: Any, signed: SignedClient) -> None:
    echoes.MIDDLEWARE = [
        *echoes.MIDDLEWARE,
        "django.contrib.auth.middleware.LoginRequiredMiddleware",
    ]
    assert signed.get("/who").status_code == 200
    assert refused(Client().get("/who"))
    assert Client().get("/nowhere/at/all").status_code == 404


# -- without a secret --------------------------------------------------------------


@pytest.fixture
def open_house(echoes: Any) -> None:
    echoes.VTRR = {}


@pytest.mark.usefixtures("open_house")
@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("127.0.0.1", "localhost"),
        ("127.0.0.1", "LOCALHOST:8000"),
        ("127.8.8.8", "127.0.0.1:1"),
        ("::1", "[::1]:8000"),
        ("::ffff:127.0.0.1", "[::1]"),
    ],
)
def test_without_a_secret_this_machine_gets_in(address: str, host: str) -> None:
    client = Client(REMOTE_ADDR=address, HTTP_HOST=host)
    assert client.get("/who").json()["user"] == "loopback"
    assert send(client, "POST", "/echo", b"{}").json()["user"] == "loopback"
    # A client that was given one all the same.
    assert SignedClient(REMOTE_ADDR=address, HTTP_HOST=host).post("/echo").status_code == 200


@pytest.mark.usefixtures("open_house")
@pytest.mark.parametrize(
    "more",
    [
        {"REMOTE_ADDR": "192.0.2.1"},
        {"REMOTE_ADDR": "10.0.0.1"},
        {"REMOTE_ADDR": "::ffff:10.0.0.1"},
        {"REMOTE_ADDR": "0.0.0.0"},  # noqa: S104 - nobody listens there
        {"REMOTE_ADDR": ""},
        {"REMOTE_ADDR": "localhost"},
        {"HTTP_HOST": "jobs.example"},
        {"HTTP_HOST": "localhost.evil.example"},
        {"HTTP_HOST": "127.0.0.1.evil.example:8000"},
        {"HTTP_HOST": "localhost:8000\n"},
        {"HTTP_HOST": ""},
        {"HTTP_X_FORWARDED_FOR": "127.0.0.1"},
        {"HTTP_X_FORWARDED_FOR": ""},
        {"HTTP_X_FORWARDED_PROTO": "https"},
        {"HTTP_FORWARDED": "for=127.0.0.1"},
        {"HTTP_VIA": "1.1 proxy"},
        {"HTTP_X_REAL_IP": "127.0.0.1"},
        {"HTTP_X_FORWARDED": "for=127.0.0.1"},
        {"HTTP_CF_RAY": "1"},
        {"HTTP_CDN_LOOP": "proxy"},
        {"HTTP_X_ENVOY_ATTEMPT_COUNT": "1"},
        {"HTTP_X_AMZN_TRACE_ID": "Root=1"},
        {"SERVER_PROTOCOL": "HTTP/1.0"},
    ],
    ids=lambda more: " ".join(map(str, *more.items())),
)
def test_without_a_secret_nobody_else_does(more: dict[str, str]) -> None:
    client = Client(**LOCAL | more)
    assert refused(client.get("/who"))
    assert refused(send(client, "POST", "/echo", b"{}"))
    assert refused(SignedClient(**LOCAL | more).get("/who"))
    assert refused(send(client, "GET", "/who", headers=basic()))


@pytest.mark.usefixtures("open_house")
@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
def test_no_form_of_another_site_gets_in(kind: str) -> None:
    client = Client(**LOCAL)
    assert client.generic("POST", "/echo", b'{"a": 1}', content_type=kind).status_code == 415


@pytest.mark.usefixtures("open_house")
def test_without_a_secret_staff_get_in_from_anywhere(staff: Callable[..., Client]) -> None:
    client = staff("view_queuestate")
    assert client.get("/who", REMOTE_ADDR="192.0.2.1").json()["user"] == "p0"
    assert client.get("/who", REMOTE_ADDR="192.0.2.1").status_code == 200


@pytest.mark.usefixtures("open_house")
def test_without_a_secret_a_project_lets_in_staff_only_unless_it_says_otherwise(
    echoes: Any,
    machine: threading.Event,
    staff: Callable[..., Client],
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine.clear()
    here = Client(**LOCAL)
    for _ in range(3):
        assert refused(here.get("/who"))
        assert refused(send(here, "POST", "/echo", b"{}"))
        assert refused(Client(**LOCAL | {"HTTP_VIA": "1.1 proxy"}).get("/who"))
    [said] = [one.getMessage() for one in caplog.records if one.name == "vtrr_django.api"]
    assert "VTRR['ALLOW_LOOPBACK'] = True" in said
    assert staff("view_queuestate").get("/who", **LOCAL).json()["user"] == "p0"
    echoes.VTRR = {"ALLOW_LOOPBACK": False}
    assert refused(here.get("/who"))
    echoes.VTRR = {"ALLOW_LOOPBACK": True}
    assert here.get("/who").json()["user"] == "loopback"
    assert refused(Client(**LOCAL | {"HTTP_VIA": "1.1 proxy"}).get("/who"))
    echoes.VTRR = {"ALLOW_LOOPBACK": True, "SECRET": SECRET}
    assert refused(here.get("/who"))


@pytest.mark.parametrize("more", [LOCAL, LOCAL | {"REMOTE_ADDR": "::1"}])
def test_with_a_secret_being_local_does_not_count(more: dict[str, str]) -> None:
    assert refused(Client(**more).get("/who"))


def test_what_is_public_is_so(echoes: Any) -> None:
    for vtrr in ({}, {"SECRET": SECRET}):
        echoes.VTRR = vtrr
        answer = Client(REMOTE_ADDR="192.0.2.1").get("/public")
        assert answer.json() == {"user": "", "nothing": True}
