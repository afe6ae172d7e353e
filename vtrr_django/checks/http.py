"""Who may use HTTP: the secrets, and whether any is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Error

from vtrr_django import conf
from vtrr_django.domain.secret import LONG_ENOUGH, weakness
from vtrr_django.exceptions import ConfigurationError

_SECRET_PATH = "settings.VTRR['SECRET']"
_GOOD_SECRET = "Use 32 or more random characters, such as openssl rand -hex 32 prints."


def check_secrets(**kwargs: Any) -> list[CheckMessage]:
    """E016: a secret that is none; W016: one that could be better. None of it is shown."""
    secrets = _secrets()
    messages = [message for one in secrets for message in _check_secret(*one)]
    if len({secret for _, secret in secrets}) < len(secrets):
        messages.append(
            checks.Warning(
                "The two secrets are the same: nothing is changed by changing over to it.",
                hint="Put the new one beside the old one, and take the old one out later.",
                obj=_SECRET_PATH,
                id="vtrr.W016",
            )
        )
    return messages


def _check_secret(which: str, secret: str) -> Iterator[CheckMessage]:
    why = weakness(secret)
    if secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
        why = "is Django's SECRET_KEY: who may publish jobs could forge sessions"
    if why is not None:
        yield Error(
            f"The secret {why}: whoever has it, or guesses it, may do everything over HTTP.",
            hint=_GOOD_SECRET,
            obj=which,
            id="vtrr.E016",
        )
    elif len(secret) < LONG_ENOUGH:
        yield checks.Warning(
            f"The secret has {len(secret)} characters: a signature that somebody has seen lets "
            "him try as many others as he has time for.",
            hint=_GOOD_SECRET,
            obj=which,
            id="vtrr.W016",
        )


def _secrets() -> list[tuple[str, str]]:
    """Return each secret with where it is; none when settings are wrong, which E001 says."""
    try:
        found = conf.get_settings().secret
    except ConfigurationError:
        return []
    if found is None or isinstance(found, str):
        return [(_SECRET_PATH, found)] if found else []
    return [(f"{_SECRET_PATH}[{index}]", one) for index, one in enumerate(found)]


def check_loopback(**kwargs: Any) -> list[CheckMessage]:
    """W017: HTTP is open to whoever is on this machine; only for ``--deploy``."""
    try:
        parsed = conf.get_settings()
    except ConfigurationError:
        return []
    if parsed.secret is not None or not parsed.allow_loopback:
        return []
    return [
        checks.Warning(
            "There is no SECRET, and ALLOW_LOOPBACK lets whoever is on this machine do everything "
            "over HTTP: so may the world, if a proxy leads here that adds no header.",
            hint=f"Set a SECRET and take ALLOW_LOOPBACK out. {_GOOD_SECRET}",
            obj="settings.VTRR['ALLOW_LOOPBACK']",
            id="vtrr.W017",
        )
    ]
