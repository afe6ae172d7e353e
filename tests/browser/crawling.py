"""Following every link of the app's pages."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from tests.browser import addresses

if TYPE_CHECKING:
    from tests.browser.pages import Browser

PAGES = "/admin/vtrr_django/"
"""What the addresses of all pages of the app begin with."""

START = (addresses.QUEUES, addresses.FAILED, addresses.COMPLETED)

MOST_VARIANTS = 1
"""Pages of one path whose queries have the same names."""

MOST_NAMES = 1
"""Names in a query: filters can be combined without end."""

MOST_PAGES = 100

_LINKS = "return [...document.querySelectorAll('a[href]')].map((one) => one.href)"


def crawl(browser: Browser, *start: str, within: str = PAGES) -> Iterator[str]:
    """Open page after page of those whose addresses begin so; name each while it is open."""
    waiting, seen = deque(start or START), set(start or START)
    variants: Counter[tuple[str, str]] = Counter()
    for _ in range(MOST_PAGES):
        if not waiting:
            return
        here = waiting.popleft()
        browser.open(here)
        yield here
        for address in browser.ask(_LINKS):
            parts = urlsplit(address)
            link = f"{parts.path}?{parts.query}" if parts.query else parts.path
            names = sorted(parse_qs(parts.query, keep_blank_values=True))
            kind = (parts.path, ",".join(names))
            ours = address.startswith(f"{browser.site.address}{within}")
            new = link not in seen and variants[kind] < MOST_VARIANTS
            if ours and new and len(names) <= MOST_NAMES:
                variants[kind] += 1
                seen.add(link)
                waiting.append(link)
    raise AssertionError(f"more than {MOST_PAGES} pages; what is left: {list(waiting)[:20]}")
