"""A word that is not known, answered with the one that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from testbed.base.listing import shortened

MOST = 40
"""The most words that are listed: a run may have thousands of trials."""


def nearest(word: str, known: Sequence[str]) -> str:
    """Answer ``did you mean 'iterations'?``, or the list of what there is where nothing is near."""
    near = difflib.get_close_matches(word.lower(), known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"use one of: {shortened(known, MOST)}"
