"""The dashboard while time goes by: it follows, it does not get in the way, it waits."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.browser.board import Board
from tests.browser.conftest import SECRET
from tests.browser.data import complete, fail, one_store, put
from tests.commands.manage import manage
from tests.ports import claim_port
from tests.races.waiting import until

if TYPE_CHECKING:
    from tests.browser.pages import Browser
    from vtrr_django.queue import Queue

SITE = {"DJANGO_SETTINGS_MODULE": "tests.browser.site.settings"}


def test_it_follows_by_itself(board: Board, queue: Queue) -> None:
    board.enter(queue.name)
    board.wait_for_facts(ready="0")
    assert board.rows("partitions") == []

    put(queue, "acme", "globex")
    board.wait_for_facts(ready="2")
    board.wait_for_rows("partitions", 2)
    queue.purge("globex")
    board.wait_for_rows("partitions", 1)
    queue.purge()
    fail(queue, "initech")
    board.wait_for_rows("failures", 1)
    queue.requeue()
    board.wait_for_rows("failures", 0)


@one_store
def test_it_leaves_alone_what_one_is_at(board: Board, browser: Browser, queue: Queue) -> None:
    complete(queue, *["acme"] * 20)
    put(queue, "acme", "globex")
    browser.resize(1200, 500)
    board.enter(queue.name)
    button = browser.control("Pause partition acme")
    browser.fill("Partition key, in full", "half a ke")
    browser.ask(
        """
        const [button] = arguments;
        button.scrollIntoView({block: "center"});
        button.focus();
        const cell = document.querySelector("#runs bdi");
        getSelection().selectAllChildren(cell);
        """,
        button,
    )
    at, selected = browser.ask("return [scrollY, getSelection().toString()]")
    assert at > 0
    assert selected

    put(queue, *["globex"] * 50, "initech")
    board.wait_for_facts(ready="53")

    assert board.focused == button
    assert browser.ask("return [scrollY, getSelection().toString()]") == [at, selected]
    assert browser.field("Partition key, in full").get_property("value") == "half a ke"
    # In order once nobody is at it: the longest line is the first.
    assert [row["Partition"] for row in board.rows("partitions")] == ["acme", "globex", "initech"]
    browser.ask("getSelection().empty(); document.activeElement.blur()")
    corner = {"type": "mouseMoved", "x": 1, "y": 1}
    browser.driver.execute_cdp_cmd("Input.dispatchMouseEvent", corner)
    until(lambda: board.rows("partitions")[0]["Partition"] == "globex", "the order")
    assert browser.field("Partition key, in full").get_property("value") == "half a ke"


@one_store
def test_nobody_looks_while_the_tab_is_hidden(board: Board, browser: Browser, queue: Queue) -> None:
    board.enter(queue.name)
    hide = """
    Object.defineProperty(document, "hidden", {configurable: true, value: arguments[0]});
    document.dispatchEvent(new Event("visibilitychange"));
    """
    browser.ask(hide, True)
    planned = browser.driver.execute_async_script(
        """
        const done = arguments[arguments.length - 1], found = [];
        const [later, ask] = [window.setTimeout, window.fetch];
        window.setTimeout = (...all) => { found.push("a look later"); return later(...all); };
        window.fetch = (...all) => { found.push("a look"); return ask(...all); };
        looking.now().then(() => {
          [window.setTimeout, window.fetch] = [later, ask];
          done(found);
        });
        """
    )
    assert planned == []
    put(queue, "acme")

    browser.ask(hide, False)

    board.wait_for_facts(ready="1")


def test_it_waits_for_a_server_that_is_gone(
    browser: Browser, queue: Queue, vtrr: dict[str, Any], tmp_path: Path
) -> None:
    browser.allow("ERR_CONNECTION_REFUSED")
    browser.allow("ERR_EMPTY_RESPONSE")
    browser.allow("ERR_CONNECTION_RESET")
    port = claim_port()
    board = Board(browser, f"http://127.0.0.1:{port}/")
    command = ("vtrr_serve", "--port", str(port))

    with manage(tmp_path, *command, vtrr=vtrr, env=SITE) as server:
        until(lambda: answers(port) or not server.running, lambda: server.err)
        board.enter(queue.name)
        board.wait_for_facts(ready="0")
        assert board.trouble == ""
    until(lambda: board.trouble, "the trouble to be told")
    assert board.trouble == "The server does not answer. This page goes on by itself."
    assert board.facts["ready"] == "0"
    board.press("Pause queue")
    board.wait_for("The server does not answer.")
    put(queue, "acme")

    with manage(tmp_path, *command, vtrr=vtrr, env=SITE) as server:
        until(lambda: answers(port) or not server.running, lambda: server.err)
        board.wait_for_facts(ready="1")
        until(lambda: board.trouble == "", "the trouble to be over")
        board.press("Pause queue")
        board.wait_for(f"Queue {queue.name} is paused.")
        assert queue.depth().paused
        assert SECRET not in server.err
        browser.driver.get("about:blank")


def answers(port: int) -> bool:
    """Return whether something listens."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
