"""A command that is typed in a stranger's folder imports nothing from there, nor does a process that it starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = ("testbed", "topologies", "workloads", "analysis")
SPEC = """\
links: {rate: 200 Mbit/s}
workload: {model: "./net.py:Net", dataset: digits, batch: 2, iterations: 2, compute: none}
arms: [{topology: star(hosts=2), scheme: ring}]
retries: 0
quiet: 0 s
"""
COMMAND = """\
links: {rate: 200 Mbit/s}
workload: {kind: command, command: "true"}
arms: [{topology: star(hosts=2)}]
retries: 0
quiet: 0 s
"""
NET = """\
from torch import nn
class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(784, 10))
"""
SUITE = """\
import pytest

@pytest.mark.testbed("missing.yaml", baseline="baseline.json")
def test_gst(testbed_run):
    pass
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with packages of our names, which leave a mark if they are imported, and specs of the user's."""
    for name in PACKAGES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write('{name}\\n')\n")
    for name, text in {"spec.yaml": SPEC, "command.yaml": COMMAND, "net.py": NET, "test_mine.py": SUITE}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def call(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Python in that folder; nothing was imported from there."""
    command = [sys.executable, "-P", "-m", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert not (folder / "ran").exists(), (folder / "ran").read_text()
    return done


def test_the_marks_would_be_left(folder: Path) -> None:
    subprocess.run([sys.executable, "-c", "import testbed"], cwd=folder, check=True, env={"PATH": os.environ["PATH"]})
    assert (folder / "ran").read_text() == "testbed\n"


def test_the_plug_in_does_not(folder: Path) -> None:
    """Its process tells that the spec is missing, so it ran."""
    done = call(folder, "pytest", "-p", "no:cacheprovider", "--import-mode=importlib", "test_mine.py")
    assert "missing.yaml" in done.stdout


@pytest.mark.lab
@pytest.mark.parametrize("spec", ["spec.yaml", pytest.param("command.yaml", marks=pytest.mark.rehearse)])
def test_a_training_with_its_plan_referee_and_bursts_does_not(folder: Path, spec: str) -> None:
    done = call(folder, "testbed", "run", spec, "--out", "out")
    assert done.returncode == 0, done.stdout + done.stderr
