"""A real Chromium, without a window, that reaches nothing but this machine."""

from __future__ import annotations

import shutil

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

from tests import services

PROGRAMS = ("chromium", "chromedriver")

WIDTH, HEIGHT = 1200, 900

_ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",  # which needs more than root in a container has
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--no-proxy-server",
    "--hide-scrollbars",
    "--lang=en-US",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    f"--window-size={WIDTH},{HEIGHT}",
)


def start() -> webdriver.Chrome:
    """Start one; skip the running test where it is not installed."""
    for program in PROGRAMS:
        services.need_program(program)
    options = Options()
    options.binary_location = str(shutil.which("chromium"))
    for argument in _ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    # A dialog stays open, so that the next command stumbles over it.
    options.unhandled_prompt_behavior = "ignore"
    # The path is given: nothing is looked for, or downloaded.
    return webdriver.Chrome(options, Service(str(shutil.which("chromedriver"))))
