"""``make rehearse`` starts what is here, which nobody needs who has installed testbed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_make_starts_a_rehearsal_of_a_clone() -> None:
    (command,) = re.findall(
        r"^rehearse:\n(?:\t.*\n)*\t@\.venv/bin/python (.*)\n\t@\.venv/bin/pytest -m rehearse\n",
        (ROOT / "Makefile").read_text(),
        re.M,
    )
    done = subprocess.run([sys.executable, *command.split(), "--help"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--hosts" in done.stdout


def test_no_module_of_the_package_is_for_rehearsals() -> None:
    assert not [str(path) for path in (ROOT / "testbed").rglob("*.py") if "rehears" in path.read_text()]
