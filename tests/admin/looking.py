"""Short ways to open the queue pages and to press what is on them."""

from __future__ import annotations

import re
from typing import Any

from django.test import Client
from django.urls import reverse

from tests.admin.html import Page


def address(page: str, *args: str, site: str = "admin") -> str:
    return reverse(f"admin:vtrr_django_queuestate_{page}", args=args, current_app=site)


def look(client: Client, path: str, *, status: int = 200) -> Page:
    """Open a page; whatever it shows, a strict policy has nothing to refuse."""
    response = client.get(path)
    assert response.status_code == status, response.content.decode()[:2000]
    page = Page(response.content.decode())
    assert page.refused == []
    return page


def press(client: Client, path: str, label: str, **entered: Any) -> Page:
    """Press the button that begins so, on the page at ``path``; return the page it leads to."""
    page = look(client, path)
    [button] = [name for name in page.buttons if name.startswith(label)]
    form = page.buttons[button]
    assert form.method == "post"
    response = client.post(form.action or path, form.fields | entered)
    assert response.status_code == 302, response.content.decode()[:2000]
    return look(client, response.headers["Location"])


def messages(page: Page) -> str:
    """Return what the page says about what was done, without marks of direction."""
    return re.sub("[\u2068\u2069]", "", page.text)
