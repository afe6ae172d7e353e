"""Lengths of time, for people."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Return ``5 ms``, ``0.4 s``, ``12 s``, ``3 min``, ``2 h 5 min`` or ``4 d 1 h``."""
    if 0 < seconds < 0.1:
        return f"{max(1, round(seconds * 1000))} ms"
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    hours = minutes // 60
    return f"{hours // 24} d {hours % 24} h"
