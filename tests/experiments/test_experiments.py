"""Every experiment that comes with us can be planned, and the one that shows a scheme of one's own runs.

:mod:`tests.testbed.cli.test_same_bytes` plans all but those whose plans depend on the version of Python."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from multiprocessing.connection import Client, Listener
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

from testbed.analysis.load import load as load_run
from testbed.base.extras import install
from testbed.experiment.planning import plan
from testbed.spec import load
from tests.shipped import EXPERIMENTS
from tests.testbed.cli.test_same_bytes import OF_PYTHON, ROOT, can_be_run


@pytest.mark.parametrize("words", sorted(OF_PYTHON))
def test_can_be_planned(words: str) -> None:
    can_be_run(plan(load(ROOT / words.removeprefix("plan "))))


@pytest.mark.parametrize(
    ("path", "package"),
    [
        ("torch/gpt2.py", "transformers"),
        ("torch/accelerated.py", "accelerate"),
        ("collectives/lambdarank.py", "lightgbm"),
    ],
)
def test_a_script_says_which_package_it_lacks(path: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, script = (EXPERIMENTS / path).parent, Path(path).name
    monkeypatch.syspath_prepend(str(folder))
    for missing in (package, "sklearn"):  # one of them does without, and leaves that to all that come after it
        monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(folder / script))
    monkeypatch.delitem(sys.modules, "gpt", raising=False)
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
    """Run an experiment into ``folder/out``."""
    command = [sys.executable, "-P", "-m", "testbed", "run", str(EXPERIMENTS / spec), "--out", "out"]
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


@pytest.mark.rehearse
@pytest.mark.lab
def test_a_program_trains_over_mlfabric(tmp_path: Path) -> None:
    command = "workload.command=python fabric.py --updates 40 --rate 1e9"
    run("own/fabric.yaml", tmp_path, command, "links.rate=1 Gbit/s", "arms=[{topology: star(hosts=5)}]")
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
    run("own/own.yaml", tmp_path, "links.rate=200 Mbit/s", *quick)
    results = pd.read_csv(tmp_path / "out" / "results.csv")
    assert list(results["trial"]) == ["ring-b16", "PS-b16", "tree-b16"]
    assert (results["weights_error"] < 1e-4).all()


@pytest.mark.rehearse
@pytest.mark.lab
def test_lightgbm_trains_the_same_trees_on_all_ranks(tmp_path: Path) -> None:
    """LightGBM finds its rank by its address: rank 0, to which the others send what they predict, is on h2."""
    command = "workload.command=python lambdarank.py --rows 40 --columns 20 --trees 3"
    run("collectives/lightgbm.yaml", tmp_path, command, "arms=[{topology: star(hosts=4), order: [h2, h0, h3, h1]}]")
    (trial,) = load_run(tmp_path / "out").trials
    assert [len(times) for times in trial.logged["tree_s"]] == [3] * 4
    assert len({tuple(ndcg) for ndcg in trial.logged["ndcg"]}) == 1
    (logs,) = (tmp_path / "out" / "logs").iterdir()
    assert (logs / "h2.log").read_text().endswith("all 4 ranks predict the same\n")


def test_ranks_that_predict_otherwise_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    for needless in ("lightgbm", "sklearn"):
        monkeypatch.setitem(sys.modules, needless, ModuleType(needless))
    agree = runpy.run_path(str(EXPERIMENTS / "collectives" / "lambdarank.py"))["agree"]
    with Listener(("127.0.0.1", 0), backlog=3) as others:
        for predicted in (b"same", b"else", b"same"):
            with Client(others.address) as other:
                other.send_bytes(predicted)
        with pytest.raises(SystemExit, match="1 of 4 ranks predict otherwise than rank 0"):
            agree(b"same", others, 4)
