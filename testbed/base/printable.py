"""Text from elsewhere, made such that a terminal can have it: nothing moves the cursor, or turns what follows."""

from __future__ import annotations

import re

_TURNING = "\u202a-\u202e\u2066-\u2069"
"""Explicit formatting of Unicode's Bidirectional Algorithm: embeddings, overrides and isolates."""
_OTHERS = f"\x7f-\x9f\u2028\u2029{_TURNING}\ud800-\udfff"
"""Besides: control characters, what ends a line or a paragraph, and halves of characters, which no file can hold."""
NOT_ON_A_LINE = re.compile(f"[\0-\x1f{_OTHERS}]")
CONTROL = re.compile(f"[\0-\x08\x0b-\x1f{_OTHERS}]")
"""Pattern of the same characters but for tabs and ends of lines, which text of several lines may have."""


def printable(text: str) -> str:
    """Write control characters of ``text`` out, such as ``\\x1b``; ends of lines and tabs stay."""
    return CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
