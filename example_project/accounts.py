"""The accounts of the example. The server listens on this machine only, so they are fixed."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth import get_user_model


@dataclass(frozen=True, slots=True)
class Account:
    username: str
    password: str
    is_staff: bool = False


BIG_TENANT = Account("bigcorp", "bigcorp-demo")
SMALL_TENANT = Account("solo", "solo-demo")
OPERATOR = Account("operator", "operator-demo", is_staff=True)
ACCOUNTS = (BIG_TENANT, SMALL_TENANT, OPERATOR)


def create_accounts() -> None:
    """Create those that do not exist; one whose password was changed stays as it is."""
    users = get_user_model().objects
    for account in ACCOUNTS:
        if not users.filter(username=account.username).exists():
            users.create_user(
                account.username,
                password=account.password,
                is_staff=account.is_staff,
                is_superuser=account.is_staff,
            )
