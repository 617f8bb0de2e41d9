"""Counts and lists of any length in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

_COMMA = ", "


def counted(count: int, noun: str) -> str:
    """Write a count: ``1 trial``, ``2 trials``, ``1,024 switches``."""
    more = "" if count == 1 else "es" if noun.endswith(("s", "ch", "x")) else "s"
    return f"{count:,} {noun}{more}"


def shortened(items: Sequence[str], most: int, between: str = _COMMA, rest: str = "more") -> str:
    """Write a list: ``a, b and 3 more``: the first ``most`` of the items, and how many others there are.

    ``between`` stands between two items and, unless it is a comma, before ``and``; ``rest`` is what the others are
    called, if they are several: ``more arms``.
    """
    named, left = between.join(items[:most]), len(items) - most
    rest = rest.removesuffix("s") if left == 1 else rest
    return f"{named}{' ' if between == _COMMA else between}and {left:,} {rest}" if left > 0 else named
