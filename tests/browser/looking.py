"""What a page looks like, measured: contrast, names, focus, width."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.browser.pages import Browser

PHONE = 390
"""Pixels across a phone."""

LEAST_CONTRAST = 4.5
"""What WCAG 2 (AA) asks of text of normal size; of large text, 3."""

# Texts whose contrast is too low. Colours are read by painting them: style sheets may mix them.
_CONTRAST = """
const [root, least] = arguments;
const brush = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
const read = (colour) => {
  brush.clearRect(0, 0, 1, 1);
  brush.fillStyle = colour;
  brush.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = brush.getImageData(0, 0, 1, 1).data;
  return [r, g, b, a / 255];
};
const over = ([r, g, b, a], [R, G, B]) =>
  [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
const ground = (one) => {
  if (one === null) return [255, 255, 255, 1];
  return over(read(getComputedStyle(one).backgroundColor), ground(one.parentElement));
};
const light = (colour) => {
  const [r, g, b] = colour.slice(0, 3).map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const faint = [];
for (const one of document.querySelectorAll(`${root}, ${root} *`)) {
  const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  if (!own || !one.checkVisibility({visibilityProperty: true}) || one.closest("svg")) continue;
  const style = getComputedStyle(one), behind = ground(one);
  const [a, b] = [light(over(read(style.color), behind)), light(behind)].sort((x, y) => y - x);
  const ratio = (a + 0.05) / (b + 0.05), size = parseFloat(style.fontSize);
  const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
  if (ratio < (large ? 3 : least))
    faint.push(`${one.tagName}.${one.className} ${one.textContent.trim().slice(0, 40)}: `
      + ratio.toFixed(2));
}
return [...new Set(faint)];
"""

# What a screen reader could not say. The rows of lists are Django's own.
_UNNAMED = """
const [root] = arguments, found = [], all = (css) => document.querySelectorAll(`${root} ${css}`);
const say = (what, one) => found.push(`${what}: ${one.outerHTML.slice(0, 120)}`);
const named = (one) => one.getAttribute("aria-label") || one.getAttribute("title")
  || (one.getAttribute("aria-labelledby") || "").split(" ").some(
    (id) => id && document.getElementById(id)?.textContent.trim());
if (!document.documentElement.lang) found.push("the page says no language");
if (document.querySelectorAll("h1:not(#site-name)").length !== 1) found.push("not one h1");
for (const one of all("input:not([type=hidden], [type=submit]), select, textarea"))
  if (!named(one) && ![...one.labels].some(
    (label) => label.textContent.trim() || label.querySelector("img[alt]")))
    say("a field without a label", one);
for (const one of all("button, a[href]"))
  if (!named(one) && !one.textContent.trim()) say("a control without a name", one);
for (const one of all("table")) {
  if (!one.querySelector("th")) say("a table without headers", one);
  for (const head of one.querySelectorAll("th"))
    if (!head.scope && !head.closest("#result_list tbody")) say("a header without scope", head);
}
for (const one of all("svg")) {
  if (one.ariaHidden === "true" || one.closest("[aria-hidden=true]")) continue;
  if (one.getAttribute("role") !== "img") say("a plot that is no image", one);
  if (!named(one) && !one.querySelector(":scope > title")?.textContent.trim())
    say("a plot without a name", one);
}
let level = 1;
for (const one of all("h1, h2, h3, h4, h5, h6")) {
  if (Number(one.tagName[1]) > level + 1) say("a heading that skips a level", one);
  level = Number(one.tagName[1]);
}
const regions = [...all("[role=region], section, nav")].map((one) => one.ariaLabel
  || document.getElementById(one.getAttribute("aria-labelledby"))?.textContent);
for (const name of regions.filter((one, index) => regions.indexOf(one) !== index))
  found.push(`two regions named ${name}`);
const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
for (const id of ids.filter((id, index) => ids.indexOf(id) !== index))
  found.push(`two elements with the id ${id}`);
for (const one of all("[tabindex]"))
  if (one.tabIndex > 0) say("a place of its own in the order of focus", one);
return found;
"""

_WATCH_FOCUS = """
window.watching?.abort();
window.watching = new AbortController();
window.focused = new Set();
window.faint = [];
document.addEventListener("focusin", ({target}) => {
  const style = getComputedStyle(target);
  const ring = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
  if (!ring && style.boxShadow === "none" && !target.matches("input") && target !== main)
    window.faint.push(target.outerHTML.slice(0, 120));
  window.focused.add(target);
}, {signal: window.watching.signal});
const focusable = "a[href], button, summary, input:not([type=hidden]), select, textarea, "
  + "[tabindex='0']";
const [root] = arguments, main = document.querySelector(root);
window.expected = [...main.querySelectorAll(focusable)].filter(
  (one) => one.checkVisibility({visibilityProperty: true}) && !one.disabled);
// What comes before it is Django's.
main.tabIndex = -1;
main.focus();
return window.expected.length;
"""

_UNFOCUSED = """
const name = (one) => one.outerHTML.slice(0, 120);
return [window.expected.filter((one) => !window.focused.has(one)).map(name), window.faint];
"""


def faint_texts(browser: Browser, root: str = "#content-main") -> list[str]:
    """Return the texts that stand out too little from what is behind them."""
    found: list[str] = browser.ask(_CONTRAST, root, LEAST_CONTRAST)
    return found


def unnamed(browser: Browser, root: str = "#content-main") -> list[str]:
    """Return what a screen reader could not say."""
    found: list[str] = browser.ask(_UNNAMED, root)
    return found


def walk(browser: Browser, root: str = "#content-main") -> tuple[list[str], list[str]]:
    """Press Tab through the page; return what was not reached, and what showed no focus."""
    from selenium.webdriver import ActionChains, Keys

    count = browser.ask(_WATCH_FOCUS, root)
    keys: Any = ActionChains(browser.driver, duration=0)
    for _ in range(count + 2):
        keys.send_keys(Keys.TAB)
    keys.perform()
    missed, unseen = browser.ask(_UNFOCUSED)
    return missed, unseen


def is_too_wide(browser: Browser, width: int = PHONE) -> str:
    """Return what sticks out of the screen; "" if nothing does."""
    found: str = browser.ask(
        """
        const [width] = arguments, page = document.documentElement;
        if (page.scrollWidth <= width) return "";
        const out = [...document.querySelectorAll("#container *")].filter(
          (one) => one.getBoundingClientRect().right > width + 1 && !one.closest(".vtrr-scroll *"));
        return `${page.scrollWidth} > ${width}: `
          + out.slice(0, 3).map((one) => one.outerHTML.slice(0, 100)).join(" | ");
        """,
        width,
    )
    return found
