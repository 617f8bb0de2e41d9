"""Traces that are made of an experiment's schemes."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import testbed
from testbed.api.traces import FORMS, export, export_measured, show
from testbed.base.errors import SchemeError, SpecError, UsageError
from testbed.experiment.expand import trials
from testbed.spec import load
from testbed.trial.model import identity

SPEC = """
name: swept
links: {rate: [50 Mbit/s, 100 Mbit/s]}
workload: {kind: profile, model: lenet5, batch: [2, 4], iterations: 2, compute: none}
arms: [{label: ring, topology: star(hosts=3), scheme: ring}]
"""


@pytest.mark.parametrize(
    ("points", "written", "told"),
    [
        (
            [],
            "ring-b2-rate50Mbit-s",
            "the first of 4 points is written, ring-b2-rate50Mbit-s; for another one: --point links.rate=VALUE "
            "--point workload.batch=VALUE",
        ),
        (
            ["rate=100 Mbit/s"],
            "ring-b2-rate100Mbit-s",
            "the first of 2 points is written, ring-b2-rate100Mbit-s; for another one: --point workload.batch=VALUE",
        ),
        (["rate=100 Mbit/s", "batch=4"], "ring-b4-rate100Mbit-s", ""),
    ],
)
def test_of_a_sweep_it_says_which_point_is_written(tmp_path: Path, points: list[str], written: str, told: str) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC)
    found = export(spec, "ring", tmp_path / "out", points=points)
    assert (found["trial"], found["point"]) == (written, told)
    assert (tmp_path / "out" / f"{written}.0.et").exists()


@pytest.mark.parametrize(("form", "written"), [("goal", "num_ranks 3"), ("msccl", 'ngpus="3"')])
def test_other_forms_are_one_file(tmp_path: Path, form: str, written: str) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC)
    told = export(spec, "ring", tmp_path / "out", points=["rate=100 Mbit/s", "batch=4"], form=form)
    (path,) = map(Path, told["files"])
    assert (told["ranks"], told["sends"], list((tmp_path / "out").iterdir())) == (3, 12, [path])
    assert written in path.read_text()


def test_a_rank_is_chosen_among_those_of_one_file(tmp_path: Path) -> None:
    (path := tmp_path / "x.goal").write_text("num_ranks 2\nrank 0 {\n}\nrank 1 {\ncalc 2000\n}\n")
    assert [show(path, rank=rank)["computes_us"] for rank in (None, 0, 1)] == [0, 0, 2]
    with pytest.raises(UsageError, match=r"x\.et is of one rank"):
        show(tmp_path / "x.et", rank=1)


def test_chunks_are_messages_of_their_own(tmp_path: Path) -> None:
    (spec := tmp_path / "spec.yaml").write_text(SPEC)
    points = ["rate=100 Mbit/s", "batch=4"]
    told = export(spec, "ring", tmp_path / "out", ["workload.chunk=8 KiB"], points, chunks=True)
    merged = export(spec, "ring", tmp_path / "merged", ["workload.chunk=8 KiB"], points)
    assert (told["ranks"], merged["sends"]) == (3, 12)
    assert told["sends"] % 12 == 0
    assert told["sends"] > 12 * 8
    sizes = [sum(one["bytes"] for one in show(Path(some["files"][0]))["types"]) for some in (told, merged)]
    assert sizes[0] == sizes[1]
    with pytest.raises(UsageError, match="MSCCL's XML has chunks of its own"):
        export(spec, "ring", tmp_path / "xml", points=points, form="msccl", chunks=True)


def test_the_metadata_says_who_wrote_it_and_of_which_trial(tmp_path: Path) -> None:
    pytest.importorskip("google.protobuf")
    (spec := tmp_path / "spec.yaml").write_text(SPEC)
    told = export(spec, "ring", tmp_path / "out", points=["rate=100 Mbit/s", "batch=4"])
    about = show(Path(told["files"][1]))["about"]
    (trial,) = trials(load(spec, ["links.rate=100 Mbit/s", "workload.batch=4"]))
    assert about == {
        "writer": f"testbed {version('testbed')}",
        "trial": "ring-b4-rate100Mbit-s",
        "identity": identity(trial),
        "scheme": "ring",
        "units": "us, bytes",
        "rank": "1",
        "node": "h1",
    }


def test_what_a_script_asks_for_is_not_known_beforehand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.goal").write_text("num_ranks 2\nrank 0 {\nsend 64b to 1\n}\nrank 1 {\nrecv 64b from 0\n}\n")
    (spec := Path("spec.yaml")).write_text(
        "name: x\nlab: simulator\nlinks: {rate: 100 Mbit/s}\nworkload: {kind: trace, file: x.goal, iterations: 2}\n"
        "arms: [{label: x, topology: star(hosts=2), scheme: ring}]\n"
    )
    for form in FORMS:
        with pytest.raises(SchemeError, match="transfers of ring in a trial of the kind script are not known"):
            export(spec, "x", Path("out"), form=form)
    ran = testbed.run(spec)
    with pytest.raises(SpecError, match="x: no trace is made of what its iterations did, as the kind is script"):
        export_measured(ran.path, "x", Path("out"))


@pytest.mark.rehearse
def test_a_hybrid_trial_that_is_exported_and_played_takes_as_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("google.protobuf")
    monkeypatch.chdir(tmp_path)
    workload = {"kind": "profile", "model": "dlrm_tiny", "batch": 64, "iterations": 2, "scale": 2}
    compute = {"pace": {64: "300 ms"}}
    spec: dict[str, Any] = {"name": "x", "lab": "simulator", "links": {"rate": "25 Mbit/s"}}
    arm = {"label": "x", "topology": "star(hosts=4)", "scheme": "ring"}
    strategy = {"e0": [0], "e1": [1, 3], "rest": "all"}
    ran = testbed.run({**spec, "workload": {**workload, "compute": compute}, "arms": [{**arm, "strategy": strategy}]})
    told = export_measured(ran.path, "x-b64", Path("out"), 1)
    assert json.loads(Path("out/x-b64.groups.json").read_text()) == {"0": [0, 1, 2, 3], "1": [1, 3]}
    assert (told["ranks"], len(told["files"])) == (4, 5)
    trace = {"kind": "trace", "file": "out/x-b64.%d.et", "groups": "out/x-b64.groups.json", "iterations": 2, "scale": 2}
    again = testbed.run({**spec, "workload": trace, "arms": [arm]})
    took_s = [next(iter(run.trials.values())).metrics["iteration_median_s"] for run in (ran, again)]
    assert took_s[1] == pytest.approx(took_s[0], rel=1e-4)
