"""Looking at a page as a browser does that runs nothing but what a strict policy allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urlsplit

VOID = {"br", "hr", "img", "input", "link", "meta", "rect", "line", "path", "use"}


@dataclass
class Form:
    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict)
    buttons: list[str] = field(default_factory=list)


class Page(HTMLParser):
    """What is in a page: its text, links, forms, and what a strict policy would refuse."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: list[str] = []
        self.links: dict[str, str] = {}
        self.forms: list[Form] = []
        self.tags: list[tuple[str, Mapping[str, str]]] = []
        self.refused: list[str] = []
        self._open: list[str] = []
        self._href = ""
        self._label: list[str] = []
        self.feed(html)
        self.close()

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    @property
    def buttons(self) -> dict[str, Form]:
        return {label: form for form in self.forms for label in form.buttons}

    def find(self, tag: str) -> list[Mapping[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.tags.append((tag, values))
        self._look(tag, values)
        if tag not in VOID:
            self._open.append(tag)
        if tag == "form":
            self.forms.append(Form(values.get("action", ""), values.get("method", "get").lower()))
        if tag == "input" and self.forms and values.get("type") != "checkbox":
            self.forms[-1].fields[values.get("name", "")] = values.get("value", "")
        if tag in ("a", "button"):
            self._href, self._label = values.get("href", ""), []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> ends nothing"
        opened = self._open.pop()
        assert opened == tag, f"</{tag}> ends <{opened}>"
        label = " ".join(" ".join(self._label).split())
        if tag == "a":
            self.links[label] = self._href
        if tag == "button" and self.forms:
            self.forms[-1].buttons.append(label)

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "script" and data.strip():
            self.refused.append(f"script {data[:60]!r}")
        self.texts.append(data)
        self._label.append(data)

    def _look(self, tag: str, values: Mapping[str, str]) -> None:
        for name, value in values.items():
            if name == "style" or name.startswith("on"):
                self.refused.append(f"<{tag} {name}={value[:60]!r}>")
            if name in ("src", "href", "action") and not _is_ours(value):
                self.refused.append(f"<{tag} {name}={value[:60]!r}>")
        if tag in ("style", "iframe", "object", "embed", "base"):
            self.refused.append(f"<{tag}>")
        if tag == "script" and not values.get("src"):
            self.refused.append("a script without a source")


def _is_ours(address: str) -> bool:
    parts = urlsplit(address)
    return not parts.scheme and not parts.netloc
