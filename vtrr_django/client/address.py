"""Where a server is, and what of that is signed."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

import httpx

from vtrr_django.domain.values import describe
from vtrr_django.exceptions import ConfigurationError


@dataclass(frozen=True, slots=True)
class Address:
    """Where the API is.

    Attributes:
        url: of its root, without a slash at the end.
        prefix: its path as the server sees it: without percent-encoding.
    """

    url: httpx.URL
    prefix: str

    @classmethod
    def of(cls, base_url: object) -> Address:
        """Read a ``base_url``.

        Raises:
            ConfigurationError: it is none; it is not shown where it may hold a password.
        """
        url = _parsed(base_url)
        if url.userinfo:
            raise ConfigurationError(
                "base_url: expected a URL without user name and password, got one with; give the "
                "secret as secret="
            )
        whole = url.scheme in {"http", "https"} and url.host and (url.port or 1) <= 65_535
        if not whole or url.query or url.fragment:
            raise ConfigurationError(
                "base_url: expected http(s)://host[:port][/path], got " + describe(base_url)
            )
        path = url.raw_path.rstrip(b"/")
        try:
            prefix = unquote(path.decode("ascii"), errors="strict")
        except UnicodeDecodeError:
            raise ConfigurationError(
                f"base_url: expected a path in UTF-8, got {describe(base_url)}"
            ) from None
        return cls(url.copy_with(raw_path=path or b"/"), prefix)

    def __str__(self) -> str:
        return str(self.url).rstrip("/")

    def under(self, path: str) -> httpx.URL:
        """Return the URL of a path below, which needs no percent-encoding."""
        return self.url.copy_with(raw_path=self.url.raw_path.rstrip(b"/") + path.encode("ascii"))


def _parsed(base_url: object) -> httpx.URL:
    if isinstance(base_url, str):
        try:
            return httpx.URL(base_url.strip())
        except httpx.InvalidURL:
            pass
    raise ConfigurationError(
        "base_url: expected a URL such as https://jobs.example.com, got "
        + (describe(base_url) if not isinstance(base_url, str) else "something else")
    )
