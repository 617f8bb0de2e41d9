"""Texts that stand in a page compressed, so that a small page stays small: Plotly, and the data of figures.

``templates/plotly.html`` puts Plotly into a page, and ``templates/plotly.js`` unpacks it there. Nothing is fetched.

``templates/packed.js`` unpacks them there with the browser's own ``DecompressionStream``. Base 85 takes 6 % less than
base 64. Its letters ``<`` and ``&`` are written as two that it does not have, so that nothing in it can end a script
element or look like markup.
"""

from __future__ import annotations

import zlib
from functools import cache

import numpy as np
from markupsafe import Markup
from plotly.offline import get_plotlyjs

_LEVEL = 6
"""Plotly is 0.2 % larger than with 9, and takes 0.13 s in place of 0.18."""
_LETTERS = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%,()*+-;.=>?@^_`{|}~"
"""Digits of base 85: those of Python's ``base64.b85encode``, with ``.`` for ``<`` and ``,`` for ``&``."""


def packed(text: str) -> Markup:
    """The content of a script element of type ``text/plain``; the same each time with the same version of zlib."""
    return Markup(_base_85(zlib.compress(text.encode(), _LEVEL)).decode())


@cache
def plotly() -> Markup:
    """Plotly for ``templates/plotly.html``; the same bytes each time with the same versions of Plotly and zlib."""
    return packed(get_plotlyjs())


def _base_85(data: bytes) -> bytes:
    """Five letters for four bytes, and for a rest one letter more than it has bytes. Python's own takes seven times as
    long, 0.1 s for Plotly."""
    missing = -len(data) % 4
    words = np.frombuffer(data + bytes(missing), ">u4").astype(np.uint32)
    digits = words[:, None] // np.array([85**4, 85**3, 85**2, 85, 1], np.uint32) % 85
    letters = np.frombuffer(_LETTERS, np.uint8)[digits].tobytes()
    return letters[: len(letters) - missing]
