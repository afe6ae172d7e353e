"""Using the site as people do: reading, ticking, filling in, pressing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from selenium.common.exceptions import (
    NoAlertPresentException,
    StaleElementReferenceException,
    WebDriverException,
)
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select, WebDriverWait

from tests.browser.chromium import HEIGHT, WIDTH
from tests.browser.site_process import Site
from tests.races.waiting import PATIENCE

_CONTROLS = """
const said = (one) => one.getAttribute("aria-label") || (one.matches("input") ? one.value
  : one.textContent);
return [...document.querySelectorAll("button, a[href], input[type=submit], summary")].filter(
  (one) => one.checkVisibility() && (arguments[0] === null
    || said(one).replace(/\\s+/g, " ").trim() === arguments[0]));
"""

_NAMES = (
    _CONTROLS.replace("return [", "return (() => { return [", 1).rstrip().removesuffix(";")
    + '})().map((one) => said(one).replace(/\\s+/g, " ").trim());'
)

_FIELD = """
const said = (one) => one.getAttribute("aria-label") || [...one.childNodes].map((node) =>
  node.alt || (node.matches?.("input, select, textarea") ? "" : node.textContent)).join("");
return [...document.querySelectorAll("label, [aria-label]")].filter((one) =>
  said(one).replace(/\\s+/g, " ").trim().replace(/:$/, "") === arguments[0]
).map((one) => one.control || one)[0] || null;
"""

_POST = """
const [address, fields, done] = arguments;
const token = document.cookie.match(/csrftoken=([^;]+)/)[1];
const body = new URLSearchParams(fields);
body.append("csrfmiddlewaretoken", token);
fetch(address, {method: "POST", body, redirect: "manual"})
  .then((response) => done(response.status || response.type), (error) => done(String(error)));
"""


class Browser:
    """One browser, at one site.

    Attributes:
        driver: for what is not here.
        site: the site.
    """

    def __init__(self, driver: Chrome, site: Site) -> None:
        self.driver = driver
        self.site = site
        self._allowed: list[str] = []
        self._reset()

    def _reset(self) -> None:
        # It stays at its page: to leave the site and come back costs two processes.
        self.driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
        self.run_scripts(True)
        self.prefer("light")
        self.resize(WIDTH, HEIGHT)
        self.driver.get_log("browser")
        self.site.told()

    # -- who and where -------------------------------------------------------------

    def sign_in(self, user: Any) -> None:
        """Be this user from now on."""
        session = SessionStore()
        session[SESSION_KEY] = str(user.pk)
        session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
        session[HASH_SESSION_KEY] = user.get_session_auth_hash()
        session.save()
        self._cookie("sessionid", str(session.session_key))

    def sign_out(self) -> None:
        """Be nobody."""
        self.driver.execute_cdp_cmd("Network.clearBrowserCookies", {})

    def _cookie(self, name: str, value: str) -> None:
        cookie = {"name": name, "value": value, "url": self.site.address}
        assert self.driver.execute_cdp_cmd("Network.setCookie", cookie)["success"]

    def open(self, path: str) -> None:
        """Go to a page of the site."""
        self.driver.get(f"{self.site.address}{path}")

    @property
    def path(self) -> str:
        """Where it is."""
        return urlsplit(self.driver.current_url).path

    # -- how it looks --------------------------------------------------------------

    def resize(self, width: int, height: int = HEIGHT) -> None:
        """Have a screen of this size; a narrow one is a phone's."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def prefer(self, scheme: str) -> None:
        """Prefer light or dark pages."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def run_scripts(self, on: bool) -> None:
        """Run the scripts of pages, or not."""
        self.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not on})

    # -- reading -------------------------------------------------------------------

    def ask(self, script: str, *arguments: Any) -> Any:
        """Return what a script finds in the page."""
        return self.driver.execute_script(script, *arguments)

    @property
    def text(self) -> str:
        """What the page shows."""
        shown: str = self.ask("return document.body?.innerText ?? ''")
        return shown

    @property
    def source(self) -> str:
        """The page itself."""
        return self.driver.page_source

    @property
    def messages(self) -> list[str]:
        """What the page says was done."""
        return self.texts(".messagelist li")

    @property
    def controls(self) -> list[str]:
        """What is on the buttons and links one sees."""
        found: list[str] = self.ask(_NAMES, None)
        return found

    def all(self, selector: str) -> list[WebElement]:
        """Return what a CSS selector finds."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        """Return the texts of what a CSS selector finds."""
        # One call: asking each of a hundred cells takes seconds.
        found: list[str] = self.ask(
            "return [...document.querySelectorAll(arguments[0])].map((x) => x.innerText.trim());",
            selector,
        )
        return found

    # -- acting --------------------------------------------------------------------

    def press(self, label: str) -> None:
        """Press what has this on it, and wait for the page it leads to."""
        self.leave(self.control(label).click)

    def control(self, label: str) -> WebElement:
        """Return the one button or link that has this on it."""
        found: list[WebElement] = self.ask(_CONTROLS, label)
        assert len(found) == 1, f"{len(found)} of {label!r} among {self.controls}"
        return found[0]

    def leave(self, act: Callable[[], object]) -> None:
        """Do what leads to another page, and wait until it is there."""
        page = self.driver.find_element(By.TAG_NAME, "html")
        act()
        # Each look costs the browser some work, so not as often as it could be.
        WebDriverWait(self.driver, PATIENCE, 0.04).until(lambda _: _is_gone(page))

    def field(self, label: str) -> WebElement:
        """Return the field with this label."""
        found: WebElement | None = self.ask(_FIELD, label)
        assert found is not None, f"no field is labelled {label!r}"
        return found

    def fill(self, label: str, text: str) -> None:
        """Enter a text into the field with this label."""
        field = self.field(label)
        field.clear()
        field.send_keys(text)

    def tick(self, *labels: str) -> None:
        """Tick the boxes with these labels."""
        for label in labels:
            self.field(label).click()

    def choose(self, label: str, text: str) -> None:
        """Choose from the list with this label."""
        Select(self.field(label)).select_by_visible_text(text)

    def post(self, path: str, fields: Sequence[tuple[str, str]] = ()) -> Any:
        """Send a form that no page has, as this user, with the token of this page.

        Returns the status, or ``opaqueredirect``.
        """
        return self.driver.execute_async_script(_POST, path, [list(pair) for pair in fields])

    # -- whether it went well --------------------------------------------------------

    def allow(self, text: str) -> None:
        """Let what the browser complains of pass if it contains this."""
        self._allowed.append(text)

    def check(self) -> None:
        """Fail if a page did what none may do."""
        try:
            opened = self.driver.switch_to.alert.text
            self.driver.switch_to.alert.dismiss()
            pytest.fail(f"a page opened a dialog: {opened}")
        except NoAlertPresentException:
            pass
        severe = [entry["message"] for entry in self.driver.get_log("browser")]
        severe = [one for one in severe if not any(text in one for text in self._allowed)]
        told = self.site.told()
        errors = [text for level, text in told["logged"] if level >= 40]
        reports = [one for one in told["reports"] if not any(text in one for text in self._allowed)]
        problems = {"console": severe, "policy": reports, "log": errors}
        assert not any(problems.values()), json.dumps(problems, indent=1)


def _is_gone(one: WebElement) -> bool:
    try:
        one.is_enabled()
    except StaleElementReferenceException:
        return True
    except WebDriverException as error:
        # In the midst of it the driver says this instead.
        if "does not belong to the document" in str(error.msg):
            return True
        raise
    return False
