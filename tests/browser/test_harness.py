"""What the other tests rest on: a page that does what none may do is noticed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

    from tests.browser.site_process import Site


def test_a_dialog_a_breach_of_the_policy_and_an_error_are_noticed(
    chromium: Chrome, site: Site
) -> None:
    from tests.browser.pages import Browser

    browser = Browser(chromium, site)
    browser.open("/probe")

    with pytest.raises(pytest.fail.Exception, match="a page opened a dialog: 1"):
        browser.check()
    with pytest.raises(AssertionError) as caught:
        browser.check()

    assert "script-src-elem" in str(caught.value)
    assert "style-src-elem" in str(caught.value)
    assert chromium.title == "probe"
