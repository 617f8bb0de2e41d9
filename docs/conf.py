"""How Sphinx builds the documentation: ``make docs``. Pages that are made from the code are written first."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from docs.generate import write

write()

project = "testbed"
author = "the authors of testbed"
extensions = ["myst_parser"]
exclude_patterns = ["_build", "generate"]
html_theme = "furo"
html_title = "testbed"
html_show_copyright = False
myst_heading_anchors = 4  # links to headings are the same as on GitHub
