"""Every experiment that comes with us can be planned, and the one that shows a scheme of one's own runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from testbed.experiment.planning import plan
from testbed.spec import load
from tests.shipped import EXPERIMENTS, SPECS


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: str(spec.relative_to(EXPERIMENTS)))
def test_can_be_planned(spec: Path) -> None:
    planned = plan(load(spec))
    assert planned["trials"]
    assert all(trial["command"] or trial["gst_theory_s"] > 0 for trial in planned["trials"])


def test_the_quickstart_is_as_promised() -> None:
    planned = plan(load(EXPERIMENTS / "quickstart.yaml"))
    assert planned["duration_s"] < 180
    assert {trial["world"] for trial in planned["trials"]} == {9}
    assert {trial["gradient_bytes"] for trial in planned["trials"]} == {4 * 3_274_634}
    assert {(trial["topology"], trial["scheme"]) for trial in planned["trials"]} == {
        ("star(hosts=9)", "ps"),
        ("star(hosts=9)", "ring"),
        ("bcube(n=3,k=2)", "bml"),
    }


@pytest.mark.lab
def test_a_scheme_and_a_network_of_ones_own_run(tmp_path: Path) -> None:
    quick = ["links.rate=1 Gbit/s", "workload.iterations=2", "workload.compute=none", "retries=0", "quiet=0"]
    command = [sys.executable, "-m", "testbed", "run", str(EXPERIMENTS / "own" / "own.yaml"), "--out", "out"]
    done = subprocess.run(
        [*command, *(word for setting in quick for word in ("--set", setting))],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results = pd.read_csv(tmp_path / "out" / "results.csv")
    assert list(results["trial"]) == ["ring-b16", "PS-b16", "tree-b16"]
    assert (results["weights_error"] < 1e-4).all()
