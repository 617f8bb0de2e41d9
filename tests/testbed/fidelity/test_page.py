"""The page about all checks is what they say of themselves."""

from __future__ import annotations

import subprocess
import sys

from testbed.fidelity import abouts
from testbed.fidelity.page import page


def test_every_check_has_a_row() -> None:
    rows = [line for line in page().splitlines() if line.startswith("| ")]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows[2:]] == [about.name for about in abouts()]


def test_it_is_printed() -> None:
    done = subprocess.run([sys.executable, "-m", "testbed.fidelity"], capture_output=True, text=True, check=True)
    assert done.stdout == page()
