"""How names that somebody else chose are written."""

from __future__ import annotations

import pytest

from vtrr_django.admin import markup


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("acme", "acme"),
        ("Müller & Söhne", "Müller & Söhne"),
        ("日本", "日本"),
        ("\u05d0\u05d1", "\u05d0\u05d1"),
        ("🚀", "🚀"),
        ("👩\u200d🚀", "👩\u200d🚀"),
        ("\u0645\u06cc\u200c\u062e", "\u0645\u06cc\u200c\u062e"),
        ("\u200b", r"\u200b"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("acme\u200b", r"acme\u200b"),
        ("\u200dacme", r"\u200dacme"),
        ("acme\u200d", r"acme\u200d"),
        ("a\u200d\u200dcme", "a\u200d\\u200dcme"),
        (" acme", "␣acme"),
        ("acme ", "acme␣"),
        ("ac  me", "ac ␣me"),
        ("ac me", "ac me"),
        ("ac\u00a0me", r"ac\xa0me"),
        ("\u3164", r"\u3164"),
        ("\U000e0001", r"\U000e0001"),
        ("\ue000", r"\ue000"),
        ("a\tb", r"a\tb"),
        (r"\u200b", r"\u200b"),
    ],
)
def test_all_of_a_name_is_to_be_seen(given: str, shown: str) -> None:
    assert markup.visible(given) == shown
    assert markup.spoken(given) == f"\u2068{shown}\u2069"


def test_an_escape_is_told_from_a_name_that_looks_like_one() -> None:
    assert markup.name("\u200b") == (
        '<bdi dir="auto"><span class="vtrr-escape">\\u200b</span></bdi>'
    )
    assert markup.name(r"\u200b") == r'<bdi dir="auto">\u200b</bdi>'


def test_a_name_is_escaped_however_it_is_cut() -> None:
    name = f"<b>{'x' * 60}\u202e"
    assert markup.name(name) == (
        f'<bdi dir="auto" title="&lt;b&gt;{"x" * 60}\\u202e">&lt;b&gt;{"x" * 21}…{"x" * 22}'
        '<span class="vtrr-escape">\\u202e</span></bdi>'
    )
