"""Trials with a model and data of the user's own: trained and checked as ours, and known by their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.experiment.expand import trials
from testbed.spec import read
from testbed.trial.files import Files
from testbed.trial.inputs import check_unchanged
from testbed.trial.job_files import write
from testbed.trial.model import Trial
from testbed.workloads.job import Training, WorkerJob
from tests import own

from ..bench import Bench

SPEC = """\
name: own
links: {rate: 200 Mbit/s}
workload: {model: "./net.py:Net", dataset: "./data.py:load", batch: [4], iterations: 3, learning_rate: 0.01}
arms: [{topology: star(hosts=3), scheme: ring}, {topology: star(hosts=3), scheme: async_ps}]
retries: 0
quiet: 0 s
"""
SWEPT = SPEC.replace('"./net.py:Net"', '["./net.py:Net", "./net.py:Net(width=5)", lenet5]')
WHERE = """where: ["workload.model != 'lenet5'"]\n"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    own.write(tmp_path)
    own.in_this_process(monkeypatch)
    return tmp_path


def planned(folder: Path, spec: str = SPEC) -> list[Trial]:
    return trials(read(spec, "spec.yaml", folder))


@pytest.mark.lab
def test_sums_and_weights_are_checked_as_of_our_models(bench: Bench, folder: Path) -> None:
    """With batch normalisation and dropout, synchronous and asynchronous."""
    for outcome in bench.run(SPEC, folder):
        record = outcome.record
        assert record["status"] == "done", record["error"]
        assert record["accuracy"]["weights_equal"]
        assert record["accuracy"]["training_error"] <= record["accuracy"]["training_allowed"]
        assert (record["sums"] or {}).get("checked_sums") == (3 if "ring" in record["id"] else None)
        assert set(record["inputs"]) == {"net.py", "./net.py:Net, initial weights", "./data.py:load, samples"}


def test_a_sweep_over_models(folder: Path) -> None:
    found = planned(folder, SWEPT + WHERE)
    assert [trial.job.floats for trial in found[::2]] == [123, 63]
    assert len({trial.id for trial in found}) == 4


def test_a_trial_is_known_by_its_files_and_not_changed_by_edits_while_it_waits(folder: Path) -> None:
    before = planned(folder)[0]
    assert planned(folder)[0].identity == before.identity
    (folder / "net.py").write_text(own.NET.replace("nn.Dropout(0.3)", "nn.Dropout(0.4)"))
    assert planned(folder)[0].identity != before.identity
    (folder / "net.py").write_text(own.NET)
    (folder / "data.py").write_text(own.DATA.replace("torch.randn", "2 * torch.randn"))
    assert planned(folder)[0].identity != before.identity
    check_unchanged(before)


def test_every_job_names_the_files_that_it_needs(folder: Path) -> None:
    """Labs send or show them to workers, and look for no others."""
    trial = planned(folder)[0]
    files = Files(folder / "work", folder / "logs")
    files.work.mkdir()
    for launch in write(trial, files, "reno"):
        job = WorkerJob.load(Path(launch.job))
        assert isinstance(job.training, Training)
        names = {path.relative_to(files.prepared()) for path in files.prepared().rglob("*") if path.is_file()}
        assert {Path(name).relative_to(files.prepared()) for name in job.training.own} == names
        assert {"code/net.py", "inputs.npy", "weights.npy"} < set(map(str, names))


def test_ours_have_none(folder: Path) -> None:
    text = SPEC.replace("./net.py:Net", "lenet5").replace("./data.py:load", "digits")
    trial = planned(folder, text)[0]
    assert (trial.job.own, trial.inputs) == (None, {})
