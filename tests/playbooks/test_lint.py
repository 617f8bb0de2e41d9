"""Playbooks as ansible-lint wants them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.rehearse
def test_ansible_lint_has_nothing_to_say(root: Path, tmp_path: Path) -> None:
    program = Path(sys.executable).parent / "ansible-lint"
    if not program.exists():
        pytest.skip("ansible-lint is not installed: ./setup.sh test")
    path = os.pathsep.join([str(program.parent), os.environ["PATH"]])
    home = {"ANSIBLE_HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    books = sorted(one.name for one in (root / "playbooks").glob("*.yml"))
    done = subprocess.run(
        [str(program), "--offline", "--nocolor", "--strict", *books],
        cwd=root / "playbooks",
        env={**os.environ, **home, "PATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
