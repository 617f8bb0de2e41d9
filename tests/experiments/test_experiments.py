"""Every experiment that comes with us can be planned, and the one that shows a scheme of one's own runs.

:mod:`tests.testbed.cli.test_same_bytes` plans all but those whose plans depend on the version of Python."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from testbed.base.extras import install
from testbed.experiment.planning import plan
from testbed.spec import load
from tests.shipped import EXPERIMENTS
from tests.testbed.cli.test_same_bytes import OF_PYTHON, ROOT, can_be_run


@pytest.mark.parametrize("words", sorted(OF_PYTHON))
def test_can_be_planned(words: str) -> None:
    can_be_run(plan(load(ROOT / words.removeprefix("plan "))))


@pytest.mark.parametrize(("script", "package"), [("gpt2.py", "transformers"), ("accelerated.py", "accelerate")])
def test_a_script_says_which_package_it_lacks(script: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = EXPERIMENTS / "torch"
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(folder / script))
    monkeypatch.delitem(sys.modules, "gpt")
    assert ended.value.code == f"{script} needs the package {package}\n  fix: {install(package)}"


def test_the_quickstart_is_as_promised() -> None:
    assert load(EXPERIMENTS / "quickstart.yaml").wants_pace
    planned = plan(load(EXPERIMENTS / "quickstart.yaml", ["workload.compute.pace={16: 0.3 s, 64: 0.8 s}"]))
    assert planned["duration_s"] < 180
    assert {trial["world"] for trial in planned["trials"]} == {9}
    assert {trial["gradient_bytes"] for trial in planned["trials"]} == {4 * 3_274_634}
    assert {(trial["topology"], trial["scheme"]) for trial in planned["trials"]} == {
        ("fat_tree(k=4,hosts=9)", "ps"),
        ("fat_tree(k=4,hosts=9)", "ring"),
        ("bcube(n=3,k=2)", "bml"),
    }
    assert {trial["topology"] for trial in planned["trials"] if "fat-tree" in trial["label"]} == {
        "fat_tree(k=4,hosts=9)"
    }


def run(spec: str, folder: Path, *settings: str) -> None:
    """Run an experiment of one's own into ``folder/out``."""
    command = [sys.executable, "-m", "testbed", "run", str(EXPERIMENTS / "own" / spec), "--out", "out"]
    quick = [*settings, "retries=0", "quiet=0"]
    done = subprocess.run(
        [*command, *(word for setting in quick for word in ("--set", setting))],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.lab
def test_a_program_trains_over_mlfabric(tmp_path: Path) -> None:
    command = "workload.command=python fabric.py --updates 40 --rate 1e9"
    run("fabric.yaml", tmp_path, command, "links.rate=1 Gbit/s", "arms=[{topology: star(hosts=5)}]")
    (logs,) = (tmp_path / "out" / "logs").iterdir()
    for host in ("h0", "h1"):
        first, last = (line.split() for line in (logs / f"{host}.log").read_text().splitlines())
        assert first[2:4] == ["loss", "2.303"]
        assert float(last[3]) < 1.9
        assert last[-1] == "samples/s"
    served = re.fullmatch(r"server: (\d+) of 40 updates were applied, in \d+ steps\n", (logs / "h2.log").read_text())
    assert served
    assert (logs / "h3.log").read_text() == f"replica: has {served[1]} updates\n"


@pytest.mark.lab
def test_a_scheme_and_a_network_of_ones_own_run(tmp_path: Path) -> None:
    quick = ["workload.model=resnet8", "workload.iterations=2", "workload.compute=none"]
    run("own.yaml", tmp_path, "links.rate=200 Mbit/s", *quick)
    results = pd.read_csv(tmp_path / "out" / "results.csv")
    assert list(results["trial"]) == ["ring-b16", "PS-b16", "tree-b16"]
    assert (results["weights_error"] < 1e-4).all()
