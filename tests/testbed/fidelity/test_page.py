"""The page about all checks is what they say of themselves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from testbed.fidelity import abouts
from testbed.fidelity.page import page

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "checks.md"


def test_the_page_in_docs_is_the_one_that_the_checks_make() -> None:
    assert PAGE.read_text() == page(), f"run python -m testbed.fidelity > {PAGE}"


def test_every_check_has_a_row() -> None:
    rows = [line for line in page().splitlines() if line.startswith("| ")]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows[2:]] == [about.name for about in abouts()]


def test_it_is_printed() -> None:
    done = subprocess.run([sys.executable, "-m", "testbed.fidelity"], capture_output=True, text=True, check=True)
    assert done.stdout == page()
