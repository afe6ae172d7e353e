"""Make the pictures of the README: ``python -m tests.browser.screenshots [FOLDER]``.

It starts a site with queues in a database and in a Redis server of its own, and writes the
pictures into ``docs``, or that folder, where ``--more`` puts views for a look as well.
"""

from __future__ import annotations

import base64
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

from tests.own_redis import OwnRedis

WIDTH = 1200
MOST_BYTES = 120_000
ROOT = Path(__file__).resolve().parents[2]

DASHBOARD = "../../../vtrr/#/"

PICTURES = {
    # Name: address, scheme, width, most pixels of height.
    "admin-queues": ("", "light", WIDTH, 620),
    "admin-queue": ("uploads/", "light", WIDTH, 1500),
    "admin-queue-dark": ("uploads/", "dark", WIDTH, 1500),
    "admin-failed": ("../failedjob/", "light", WIDTH, 900),
    "dashboard": (f"{DASHBOARD}uploads", "light", WIDTH, 1104),
}
MORE = {
    "phone-queues": ("", "light", 390, 3000),
    "phone-queue": ("uploads/", "light", 390, 5000),
    "phone-queue-dark": ("uploads/", "dark", 390, 5000),
    "phone-failed": ("../failedjob/", "light", 390, 3000),
    "dark-queues": ("", "dark", WIDTH, 1200),
    "dark-failed": ("../failedjob/", "dark", WIDTH, 1200),
    "jobs": ("uploads/jobs/ready/", "light", WIDTH, 1000),
    "partition": ("uploads/partition/?key=acme", "light", WIDTH, 1000),
    "purge": ("uploads/purge/", "light", WIDTH, 800),
    "phone-jobs": ("uploads/jobs/ready/", "dark", 390, 1500),
    "phone-partition": ("uploads/partition/?key=acme", "light", 390, 2000),
    "dashboard-queues": (DASHBOARD, "light", WIDTH, 600),
    "dashboard-dark": (f"{DASHBOARD}uploads", "dark", WIDTH, 2400),
    "phone-dashboard-queues": (DASHBOARD, "dark", 390, 1500),
    "phone-dashboard": (f"{DASHBOARD}uploads", "light", 390, 3000),
}


def main() -> None:
    """Make them."""
    arguments = [one for one in sys.argv[1:] if one != "--more"]
    pictures = PICTURES | MORE if "--more" in sys.argv else PICTURES
    folder = Path(arguments[0]) if arguments else ROOT / "docs"
    folder.mkdir(parents=True, exist_ok=True)
    redis = OwnRedis()
    try:
        with tempfile.TemporaryDirectory() as scratch:
            _take(pictures, folder, redis, Path(scratch))
    finally:
        redis.close()


def _take(pictures: dict[str, Any], folder: Path, redis: OwnRedis, scratch: Path) -> None:
    vtrr = _prepare(redis, scratch)
    from django.contrib.auth.models import User

    from tests.browser import addresses, chromium, demonstration
    from tests.browser.board import Board
    from tests.browser.pages import Browser
    from tests.browser.site_process import Site

    demonstration.fill()
    site, driver = Site(vtrr), chromium.start()
    try:
        browser = Browser(driver, site)
        browser.sign_in(User.objects.create_superuser("ada"))
        browser.open(addresses.QUEUES)
        browser.ask("localStorage.setItem('django.admin.navSidebarIsOpen', 'false')")
        for name, (path, scheme, width, height) in pictures.items():
            browser.resize(width)
            browser.prefer(scheme)
            demonstration.refresh()
            browser.driver.get("about:blank")
            browser.open(addresses.QUEUES + path)
            if path.startswith(DASHBOARD):
                Board(browser).wait_until_shown()
            _save(folder / f"{name}.png", _picture(browser, width, height))
        browser.check()
    finally:
        driver.quit()
        site.close()


def _prepare(redis: OwnRedis, scratch: Path) -> dict[str, Any]:
    """Set Django up on an empty database; return ``settings.VTRR``."""
    import django
    from django.core.management import call_command

    from tests.browser.demonstration_settings import SETTINGS

    queues = {
        name: one | ({"URL": redis.url()} if one["ENGINE"] == "redis" else {})
        for name, one in SETTINGS.items()
    }
    vtrr = {"QUEUES": queues}
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "tests.browser.site.settings",
        "VTRR_TEST_DATABASES": json.dumps({"default": str(scratch / "pictures.sqlite3")}),
        "VTRR_TEST_SETTINGS": json.dumps(vtrr),
    }
    django.setup()
    call_command("migrate", verbosity=0)
    return vtrr


def _picture(browser: Any, width: int, height: int) -> Image.Image:
    """Return the page as a picture, no higher than so many pixels."""
    whole = browser.ask("return document.documentElement.scrollHeight")
    clip = {"x": 0, "y": 0, "width": width, "height": min(whole, height), "scale": 1}
    taken = browser.driver.execute_cdp_cmd(
        "Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True}
    )
    return Image.open(io.BytesIO(base64.b64decode(taken["data"])))


def _save(path: Path, picture: Image.Image) -> None:
    """Write a picture, with as many colours as its size allows."""
    for colours in (256, 128, 64, 32, 16):
        few = picture.convert("RGB").quantize(
            colours, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
        )
        few.save(path, optimize=True)
        if path.stat().st_size < MOST_BYTES:
            break
    sys.stdout.write(f"{path}: {path.stat().st_size:,} bytes, {colours} colours\n")


if __name__ == "__main__":
    main()
