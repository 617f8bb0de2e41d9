"""The notebook of the first hour as a page: its text and its code. The suite runs it."""

from __future__ import annotations

import json
from pathlib import Path

NOTEBOOK = Path(__file__).parents[1] / "start" / "first.ipynb"


def page() -> str:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    return "\n\n".join(_shown(cell["cell_type"], "".join(cell["source"])) for cell in cells) + "\n"


def _shown(kind: str, text: str) -> str:
    return text if kind == "markdown" else f"```python\n{text}\n```"
