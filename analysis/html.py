"""Pages of ours: templates that escape whatever is put into them, and fail over what is missing; and large texts that
stand in a page compressed, so that a small page stays small: Plotly, and the data of figures.

A template begins with ``{% include "head.html" %}``, which wants its ``title`` and its own ``style``, and looks like
the others by ``page.css``. ``templates/plotly.html`` puts Plotly into a page, and ``templates/plotly.js`` unpacks it
there. Nothing is fetched. ``templates/packed.js`` unpacks all texts with the browser's own ``DecompressionStream``.
Base 85 takes 6 % less than base 64. Its letters ``<`` and ``&`` are written as two that it does not have, so that
nothing in it can end a script element or look like markup.
"""

from __future__ import annotations

import zlib
from functools import cache
from importlib.resources import files

import numpy as np
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

_LEVEL = 6
"""Plotly is 0.2 % larger than with 9, and takes 0.13 s in place of 0.18."""
_LETTERS = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%,()*+-;.=>?@^_`{|}~"
"""Digits of base 85: those of Python's ``base64.b85encode``, with ``.`` for ``<`` and ``,`` for ``&``."""


@cache
def template(package: str, name: str) -> Template:
    """A page in ``templates/`` of a package, which may include what is in ours; compiled once."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("testbed.analysis")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name, globals={"source": source})


def source(package: str, name: str) -> Markup:
    """A style sheet or script there, to stand inside the page."""
    return Markup(files(package).joinpath("templates", name).read_text(encoding="utf-8"))


def packed(text: str) -> Markup:
    """The content of a script element of type ``text/plain``; the same each time with the same version of zlib.

    Five letters for four bytes, and for a rest one letter more than it has bytes. Python's own base 85 takes 0.1 s for
    Plotly, seven times as long.
    """
    data = zlib.compress(text.encode(), _LEVEL)
    missing = -len(data) % 4
    words = np.frombuffer(data + bytes(missing), ">u4").astype(np.uint32)
    digits = words[:, None] // np.array([85**4, 85**3, 85**2, 85, 1], np.uint32) % 85
    letters = np.frombuffer(_LETTERS, np.uint8)[digits].tobytes().decode()
    return Markup(letters[: len(letters) - missing])


@cache
def plotly() -> Markup:
    """Plotly for ``templates/plotly.html``; the same bytes each time with the same versions of Plotly and zlib."""
    from plotly.offline import get_plotlyjs  # here, for other pages do without it

    return packed(get_plotlyjs())
