"""Using the dashboard as people do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.browser.conftest import SECRET
from tests.races.waiting import until

if TYPE_CHECKING:
    from selenium.webdriver.remote.webelement import WebElement

    from tests.browser.pages import Browser

HOME = "/vtrr/"
"""Where the site has it."""

REFUSED = "401 (Unauthorized)"
"""What a browser notes of a request without the secret, or with a wrong one."""

_ROWS = """
const heads = [...document.querySelectorAll(`#${arguments[0]} thead th`)].map((one) =>
  one.textContent);
return [...document.querySelectorAll(`#${arguments[0]} tbody tr`)].map((row) =>
  Object.fromEntries([...row.cells].map((cell, index) => [heads[index], cell.textContent])));
"""

_STRAY = """
return [...document.querySelectorAll("script, style, img, iframe, object, embed, [style]")]
  .filter((one) => !one.matches("body > script:last-child, head > style"))
  .map((one) => one.outerHTML);
"""


class Board:
    """The dashboard in a browser.

    Attributes:
        browser: in which it is.
        home: its address; None: where the site has it.
    """

    def __init__(self, browser: Browser, home: str | None = None) -> None:
        self.browser = browser
        self.home = home or f"{browser.site.address}{HOME}"

    def open(self, queue: str = "") -> None:
        """Open the list of queues or the page of one, anew."""
        # Away first: an address that differs by what is behind # opens no page.
        self.browser.driver.get("about:blank")
        self.browser.driver.get(f"{self.home}#/{queue}")

    def enter(self, queue: str = "", *, keep: bool = False) -> None:
        """Open it and log in."""
        self.open(queue)
        self.give(SECRET, keep=keep)
        self.wait_until_shown()

    def give(self, secret: str, *, keep: bool = False) -> None:
        """Enter a secret."""
        self.browser.fill("Secret", secret)
        if keep:
            self.browser.tick("Keep it until this tab is closed")
        self.press("Show the queues")

    def forget(self) -> None:
        """Forget the secret, should it be kept."""
        self.browser.ask("try { sessionStorage.clear() } catch {}")

    @property
    def kept(self) -> str:
        """What the browser keeps for the site, whose admin pages keep things of their own."""
        told: str = self.browser.ask(
            "return JSON.stringify([{...sessionStorage}, {...localStorage}])"
        )
        return told

    def wait_until_shown(self) -> None:
        """Wait until it shows what it has found out about the queues."""
        until(lambda: self.shown, lambda: f"the queues to be shown, not {self.browser.text!r}")

    def follow(self, queue: str) -> None:
        """Press the link to a queue, and wait until its page shows it."""
        self.press(queue)
        heading = [f"Queue {queue}"]
        until(lambda: self.browser.texts("h1") == heading and self.shown, f"queue {queue}")

    @property
    def shown(self) -> bool:
        """Whether it shows queues, and how they stand."""
        found: bool = self.browser.ask(
            "return [...document.querySelectorAll('#queues, #queue')].some((one) =>"
            " one.checkVisibility({visibilityProperty: true}))"
        )
        return found

    @property
    def asks(self) -> bool:
        """Whether it asks for the secret."""
        found: bool = self.browser.ask("return document.getElementById('login').checkVisibility()")
        return found

    def press(self, label: str) -> None:
        """Press what has this on it; no other page comes."""
        self.browser.control(label).click()

    def rows(self, table: str) -> list[dict[str, str]]:
        """Return the rows of a table, by the heads of its columns."""
        found: list[dict[str, str]] = self.browser.ask(_ROWS, table)
        return found

    @property
    def facts(self) -> dict[str, str]:
        """The figures of the queue."""
        terms = self.browser.texts("#facts dt")
        return dict(zip(terms, self.browser.texts("#facts dd"), strict=True))

    @property
    def told(self) -> str:
        """What it says was done."""
        [text] = self.browser.texts("#message")
        return text

    def wait_for(self, text: str) -> None:
        """Wait until it says that this was done."""
        until(lambda: self.told == text, lambda: f"{text!r}, not {self.told!r}")

    def wait_for_facts(self, **expected: str) -> None:
        """Wait until the figures of the queue are these."""
        until(
            lambda: expected.items() <= self.facts.items(),
            lambda: f"{expected}, not {self.facts}",
        )

    def wait_for_rows(self, table: str, count: int) -> list[dict[str, str]]:
        """Wait until a table has so many rows; return them."""
        until(
            lambda: len(self.rows(table)) == count,
            lambda: f"{count} rows in {table}, not {self.rows(table)}",
        )
        return self.rows(table)

    @property
    def trouble(self) -> str:
        """What it says is wrong with the server."""
        [text] = self.browser.texts("#trouble")
        return text

    @property
    def focused(self) -> WebElement:
        """What has the focus."""
        return self.browser.driver.switch_to.active_element

    def error(self, field: str) -> str:
        """Return what is said to be wrong with a field; screen readers say it with the field."""
        one: Any = self.browser.field(field)
        assert one.get_attribute("aria-invalid") == "true"
        ident = one.get_attribute("aria-describedby")
        [text] = self.browser.texts(f"[id='{ident}']")
        return text

    @property
    def stray(self) -> list[str]:
        """Elements and attributes that the page never has."""
        found: list[str] = self.browser.ask(_STRAY)
        return found

    @property
    def asked(self) -> list[str]:
        """The addresses the page has asked for."""
        found: list[str] = self.browser.ask(
            "return performance.getEntriesByType('resource').map((one) => one.name)"
        )
        return found
