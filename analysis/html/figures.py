"""The library that draws figures, as it stands in a page: Plotly, packed (:mod:`testbed.analysis.html.packed`).

``templates/plotly.html`` puts it into a page, and ``templates/plotly.js`` unpacks it there. Nothing is fetched.
"""

from __future__ import annotations

from functools import cache

from markupsafe import Markup
from plotly.offline import get_plotlyjs

from testbed.analysis.html.packed import packed


@cache
def plotly() -> Markup:
    """Plotly for ``templates/plotly.html``; the same bytes each time with the same versions of Plotly and zlib."""
    return packed(get_plotlyjs())
