"""How Sphinx builds the documentation: ``make docs``. Pages that are made from the code are written first."""

from __future__ import annotations

import sys
from pathlib import Path

from sphinx.application import Sphinx

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent))

project = "testbed"
author = "the authors of testbed"
extensions = ["myst_parser"]
exclude_patterns = ["_build", "generate"]
html_theme = "furo"
html_title = "testbed"
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["tables.css"]
smartquotes_action = "qe"  # quotes and dots; two dashes stay as they are, for options of commands begin with them
myst_heading_anchors = 4  # links to headings are the same as on GitHub


def setup(app: Sphinx) -> None:
    """Sphinx calls this first."""
    app.connect("builder-inited", _write_pages)


def _write_pages(app: Sphinx) -> None:
    from docs.generate import write

    if Path(app.srcdir) == FOLDER:  # tests build other folders with these settings
        write()
