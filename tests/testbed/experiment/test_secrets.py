"""What is in the caller's environment stays there: nothing of a run's directory, output or report holds it."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from ..conftest import SPEC

pytestmark = pytest.mark.lab

SECRETS = {
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
    "GITHUB_TOKEN": "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "DATABASE_URL": "postgres://admin:hunter2-of-the-database@db/x",
    "HTTPS_PROXY": "http://user:hunter2-of-the-proxy@proxy:3128",
    "PIP_INDEX_URL": "https://token-of-the-index@index/simple",
    "OMP_NUM_THREADS_SECRET": "not-of-the-list-7f3a",
}
TOLD = f"""\
import hashlib, os
told = sorted((name, os.environ[name]) for name in {list(SECRETS)})
print(hashlib.sha256(repr(told).encode()).hexdigest())
print(os.environ["RANK"], "of", os.environ["WORLD_SIZE"])
"""
COMMAND = """\
name: told
links: {rate: 100 Mbit/s}
workload: {kind: command, command: python3 told.py}
arms: [{topology: star(hosts=2)}]
retries: 0
quiet: 0 s
"""


def run(folder: Path, spec: str) -> subprocess.CompletedProcess[bytes]:
    (folder / "spec.yaml").write_text(spec)
    command = [sys.executable, "-m", "testbed", "run", "spec.yaml", "--out", "out"]
    return subprocess.run(
        command, cwd=folder, env={**os.environ, **SECRETS}, capture_output=True, timeout=180, check=False
    )


def everything(out: Path) -> bytes:
    """Every byte of every file, those of tables as they are and unpacked, and every path."""
    files = [path for path in out.rglob("*") if path.is_file()]
    tables = [pd.read_parquet(path).to_csv() for path in files if path.suffix == ".parquet"]
    return b"\n".join(
        [*(path.read_bytes() for path in files), *(text.encode() for text in [*tables, *map(str, files)])]
    )


def leaked(found: bytes) -> list[str]:
    """The variables whose value, or a telling part of it, is in ``found``."""
    return [name for name, value in SECRETS.items() if any(part.encode() in found for part in (value, value[:20]))]


def test_a_run_with_a_failure_holds_no_secret(tmp_path: Path) -> None:
    """One arm is done and reported, the other one fails, with what its processes said."""
    played = "kind: profile\n  model: lenet5\n  scale: 10\n  batch: [32]"
    spec = SPEC.replace("model: lenet5\n  dataset: digits\n  batch: [2]", played) + "\nperturb: []\n"
    spec = spec.replace("200 Mbit/s", "2 Gbit/s").replace("scheme: ring", "scheme: './mine.py:mine'")
    (tmp_path / "mine.py").write_text(
        "import os, sys\n"
        "from testbed.workloads.sync.schemes import build\n"
        "def mine(topology, tensor_sizes):\n"
        "    return build('ring', topology, tensor_sizes)\n"
    )
    spec = spec.replace("timeout: 20 s", "timeout: 5 s")
    spec = spec.replace("{label: ring, ", "{label: ring, perturb: [{kind: kill, at: iteration 1, nodes: [h1]}], ")
    done = run(tmp_path, spec)
    assert done.returncode == 1, done.stderr
    assert b"killed" in done.stdout
    found = everything(tmp_path / "out")
    assert b"plotly" in found  # the report is among it
    assert leaked(found + done.stdout + done.stderr) == []
    assert leaked(b"x" + SECRETS["GITHUB_TOKEN"].encode()) == ["GITHUB_TOKEN"]


def digest(secrets: dict[str, str]) -> str:
    """As :data:`TOLD` has it: what proves that it knows them, and tells nobody."""
    return hashlib.sha256(repr(sorted(secrets.items())).encode()).hexdigest()


def test_a_command_has_the_callers_environment_and_nothing_of_it_is_kept(tmp_path: Path) -> None:
    (tmp_path / "told.py").write_text(TOLD)
    done = run(tmp_path, COMMAND)
    assert done.returncode == 0, done.stderr
    for rank in range(2):
        (log,) = (tmp_path / "out").rglob(f"h{rank}.log")
        assert log.read_text().splitlines() == [digest(SECRETS), f"{rank} of 2"]
    assert leaked(everything(tmp_path / "out") + done.stdout + done.stderr) == []
