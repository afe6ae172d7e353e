"""A browser, a site, two queues (one in the database, one in Redis), and people who sign in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests import services
from tests.browser.site_process import Site
from tests.own_redis import PROGRAM, OwnRedis
from vtrr_django import get_queue
from vtrr_django.queue import Queue

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

    from tests.browser.board import Board
    from tests.browser.pages import Browser

QUEUES = {"orm": "orders", "redis": "uploads"}

SECRET = "CANARY-of-the-settings"


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chrome]:
    services.need_package("selenium")
    from tests.browser import chromium

    driver = chromium.start()
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[OwnRedis]:
    services.need_program(PROGRAM)
    server = OwnRedis()
    try:
        yield server
    finally:
        server.close()


@pytest.fixture(scope="session")
def vtrr(redis_server: OwnRedis) -> dict[str, Any]:
    return {
        "SECRET": SECRET,
        "REDACT": "tests.browser.site.choices.redact",
        "QUEUES": {
            "orders": {"ENGINE": "orm", "LEASE_SECONDS": 60, "PARTITION_LIMIT": 700},
            "uploads": {"ENGINE": "redis", "URL": redis_server.url(), "SHARES": {"acme": 2}},
        },
    }


@pytest.fixture(scope="session")
def site(django_db_setup: None, vtrr: dict[str, Any]) -> Iterator[Site]:
    site = Site(vtrr)
    try:
        yield site
    finally:
        site.close()


@pytest.fixture(scope="session")
def unfold_site(django_db_setup: None, vtrr: dict[str, Any]) -> Iterator[Site]:
    services.need_package("unfold")
    # Unfold calls what a newer Django deprecates.
    site = Site(vtrr, "tests.browser.site.unfold_settings", warnings="ignore")
    try:
        yield site
    finally:
        site.close()


@pytest.fixture(autouse=True)
def fresh(
    transactional_db: None, settings: Any, vtrr: dict[str, Any], redis_server: OwnRedis
) -> Iterator[None]:
    """Begin with empty stores, and the site's queues in this process too."""
    settings.VTRR = vtrr
    yield
    with redis_server.client() as client:
        client.flushall()


@pytest.fixture(params=QUEUES)
def queue(request: pytest.FixtureRequest) -> Queue:
    return get_queue(QUEUES[request.param])


@pytest.fixture
def browser(chromium: Chrome, site: Site) -> Iterator[Browser]:
    """The browser, and nobody signed in; in the end no page may have done what none may do."""
    from tests.browser.pages import Browser

    browser = Browser(chromium, site)
    yield browser
    browser.check()


@pytest.fixture
def board(browser: Browser) -> Iterator[Board]:
    """The dashboard, in a browser that knows no secret."""
    from tests.browser.board import Board

    board = Board(browser)
    yield board
    board.forget()


@pytest.fixture
def unfold(chromium: Chrome, unfold_site: Site) -> Iterator[Browser]:
    """The browser at the site that django-unfold draws."""
    from tests.browser.pages import Browser

    browser = Browser(chromium, unfold_site)
    yield browser
    browser.check()


@pytest.fixture
def boss(browser: Browser, person: Callable[..., Any]) -> Browser:
    """The browser, with a superuser signed in."""
    browser.sign_in(person("boss", superuser=True))
    return browser


@pytest.fixture
def watcher(browser: Browser, person: Callable[..., Any]) -> Browser:
    """The browser, with somebody signed in who may see everything but payloads."""
    browser.sign_in(person("watcher", "view_queuestate", "view_failedjob", "view_completedjob"))
    return browser


@pytest.fixture
def person(transactional_db: None) -> Callable[..., Any]:
    """Return what makes a member of staff with these permissions of the app."""
    from django.contrib.auth.models import Permission, User

    def make(name: str, *permissions: str, superuser: bool = False, staff: bool = True) -> Any:
        user = User.objects.create_user(
            name, password=f"password of {name}", is_staff=staff, is_superuser=superuser
        )
        rights = Permission.objects.filter(
            content_type__app_label="vtrr_django", codename__in=permissions
        )
        assert rights.count() == len(permissions)
        user.user_permissions.set(rights)
        return user

    return make
