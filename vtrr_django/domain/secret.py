"""Whether a secret is one: what somebody could guess, or find where it is not kept secret."""

from __future__ import annotations

import itertools
import re
from typing import Final

SHORTEST: Final = 16
"""Characters below which a secret is none, whatever they are."""

LONG_ENOUGH: Final = 32
"""Characters from which on nothing is said: 128 bits as hexadecimal digits."""

_FEWEST_DIFFERENT = 6
_FEWEST_OF_ITS_OWN = 8

_WORDS = re.compile(
    "secret|passw(or)?d|passphrase|change|please|this|replace|insecure|default|example|"
    "placeholder|sample|demo|test(ing)?|token|admin|root|guest|letmein|welcome|qwert[yz]|asdf|"
    "correct|horse|battery|staple|vtrr|django|liteworks|jobs?|queue|your|key|here|me|the|"
    "0?1234?5?6?7?8?9?0?"
)


def weakness(secret: str) -> str | None:
    """Return what makes a secret unfit, as the end of "The secret ..."; None: nothing does.

    It does not hold what the secret holds.
    """
    if secret != secret.strip():
        return "begins or ends with white space, which not every client sends"
    if len(secret) < SHORTEST:
        return f"has {len(secret)} characters"
    if len(set(secret)) < _FEWEST_DIFFERENT:
        return f"consists of {len(set(secret))} different characters"
    if _is_counted_up(secret):
        return "is mostly a row of neighbours, such as abcd or 4321"
    if len(_WORDS.sub("", re.sub(r"[\W_]+", "", secret.lower()))) < _FEWEST_OF_ITS_OWN:
        return "consists of words that everybody tries"
    return None


def _is_counted_up(secret: str) -> bool:
    steps = [abs(ord(one) - ord(other)) for one, other in itertools.pairwise(secret)]
    return sum(step <= 1 for step in steps) > len(steps) / 2
