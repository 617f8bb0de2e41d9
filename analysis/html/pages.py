"""Pages of ours: templates that escape whatever is put into them, and fail over what is missing.

Each begins with ``{% include "head.html" %}``, which wants its ``title`` and its own ``style``, and looks like the
others by ``page.css``.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup


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
