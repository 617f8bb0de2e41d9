"""What the module testbed_host finds out about a host."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

NEEDED = ["numpy", "torch", "sklearn"]
LIBRARY = Path(__file__).parents[2] / "playbooks/library"


@pytest.mark.parametrize(
    ("said", "found"),
    [("cuda: Optional[str] = '13.0'", "13.0"), ("cuda = '12.6'", "12.6"), ("cuda: Optional[str] = None", "None")],
)
def test_a_pytorch_for_cuda_is_told_without_importing_it(tmp_path: Path, said: str, found: str) -> None:
    pytest.importorskip("ansible")
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text("raise AssertionError('this takes seconds')\n")
    (tmp_path / "torch/version.py").write_text(f"__version__ = '2.13.0'\ndebug = False\n{said}\n")
    assert told("cuda_torch()", tmp_path) == found


def test_what_of_ours_is_there_is_told(tmp_path: Path) -> None:
    pytest.importorskip("ansible")
    for name in ("code-12ab/workloads/worker.py", "code-half/testbed/run.py", "venv/bin/python"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("#!/bin/sh\necho torch\n")
        (tmp_path / name).chmod(0o755)
    here, nowhere = str(tmp_path), str(tmp_path / "nowhere")
    expression = f"[(code(home), missing(home)) for home in ({here!r}, {nowhere!r})]"
    assert told(expression, tmp_path) == str([(["12ab"], ["torch"]), ([], NEEDED)])


def told(expression: str, path: Path) -> str:
    """What an expression over the module is, in a Python that imports from ``path``, too."""
    code = f"import sys; sys.path[:0] = {[str(path), str(LIBRARY)]}; from testbed_host import *; print({expression})"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
