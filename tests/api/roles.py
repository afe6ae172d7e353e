"""What the processes of these tests do."""

from __future__ import annotations

from tests.races.child import Part
from vtrr_django.api import nonces


def use_nonces(part: Part, count: int) -> None:
    """Use the same nonces as all others who play this, each when its flag is raised."""
    part.say("begun")
    for number in range(count):
        part.wait_for(f"nonce {number}")
        part.say("used", number, nonces.use(f"nonce-number-{number:05}"))
