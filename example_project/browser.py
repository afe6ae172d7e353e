"""The few things of a web browser that the demo needs: cookies, forms, files."""

from __future__ import annotations

import json
import secrets
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from http.cookiejar import CookieJar
from typing import Any

JSON = "application/json"
HTML = "text/html"


@dataclass(frozen=True, slots=True)
class File:
    name: str
    content: bytes


class _TokenFinder(HTMLParser):
    token = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "input" and values.get("name") == "csrfmiddlewaretoken":
            self.token = values.get("value") or ""


class Browser:
    """One person's browser: it keeps cookies and the CSRF token of the last page."""

    def __init__(self, address: str, *, timeout: float = 30.0) -> None:
        self.address = address
        self.timeout = timeout
        self._token = ""
        # No proxy: the server is on this machine, whatever the environment says.
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),
            urllib.request.HTTPCookieProcessor(CookieJar()),
        )

    def sign_in(self, username: str, password: str) -> None:
        """Sign in by the login form; raise ``PermissionError`` when it says no."""
        self._open_page("login/")
        fields = {
            "csrfmiddlewaretoken": self._token,
            "username": username,
            "password": password,
            "next": "",
        }
        body = urllib.parse.urlencode(fields).encode()
        _, address = self._request("login/", HTML, body, "application/x-www-form-urlencoded")
        if urllib.parse.urlsplit(address).path != "/":
            raise PermissionError(f"{username} could not sign in")
        self._open_page("")

    def upload(self, files: Sequence[File]) -> list[int]:
        """Post ``files`` by the upload form and return the ids of the uploads."""
        boundary = secrets.token_hex(16)
        body = multipart({"csrfmiddlewaretoken": self._token}, files, boundary)
        content, _ = self._request("", JSON, body, f"multipart/form-data; boundary={boundary}")
        created: list[int] = json.loads(content)["created"]
        return created

    def state(self, page: int = 1) -> dict[str, Any]:
        """Return what the page with the live list polls."""
        content, _ = self._request(f"state/?page={page}", JSON)
        answer: dict[str, Any] = json.loads(content)
        return answer

    def _open_page(self, path: str) -> None:
        content, _ = self._request(path, HTML)
        finder = _TokenFinder()
        finder.feed(content.decode())
        self._token = finder.token

    def _request(
        self, path: str, accept: str, body: bytes | None = None, content_type: str = ""
    ) -> tuple[bytes, str]:
        headers = {"Accept": accept} | ({"Content-Type": content_type} if content_type else {})
        request = urllib.request.Request(  # noqa: S310 - the address is our own server's
            self.address + path, data=body, headers=headers
        )
        with self._opener.open(request, timeout=self.timeout) as response:
            return response.read(), response.url


def multipart(fields: Mapping[str, str], files: Sequence[File], boundary: str) -> bytes:
    """Return the body of a form with ``fields`` and with ``files`` in the field ``files``."""
    parts = []
    for name, value in fields.items():
        parts += [f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n', value]
        parts += ["\r\n"]
    body = [part.encode() for part in parts]
    for file in files:
        name = file.name.replace("\\", "\\\\").replace('"', "%22")
        head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="files"; filename="{name}"\r\n'
            "Content-Type: application/octet-stream\r\n\r\n"
        )
        body += [head.encode(), file.content, b"\r\n"]
    return b"".join([*body, f"--{boundary}--\r\n".encode()])
