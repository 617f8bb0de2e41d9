"""What tests of the Python interface share: the notebook of docs/start, run once, and who may interrupt."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[3] / "docs" / "start" / "first.ipynb"


@pytest.fixture(scope="session")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The names that the notebook's cells have bound; they ran in a directory of their own."""
    here, names = Path.cwd(), dict[str, Any]()
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    os.chdir(tmp_path_factory.mktemp("notebook"))
    try:
        for cell in cells:
            if cell["cell_type"] == "code":
                exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    finally:
        os.chdir(here)
    return names


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Commands that other tests call in this process leave their own handler behind, which interrupts once."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
