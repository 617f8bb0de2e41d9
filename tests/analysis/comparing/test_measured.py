"""Run directories and baselines as sides of a comparison."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed.analysis.cell import Cell
from testbed.analysis.comparing.measured import SWEPT, conditions, read, replaced, write_baseline
from testbed.analysis.load import load
from testbed.base.errors import OutputError

from ..conftest import ITERATIONS, WARMUP, write_run
from ..sides import RING, about, side, with_verdicts

Edit = Callable[[Path, Callable[[dict[str, Any]], object]], None]


def test_a_run_says_what_each_trial_measured(run_dir: Path) -> None:
    found = read(run_dir)
    assert found.experiment == "quickstart"
    assert [one.verdict for one in found.trials] == ["VALID"] * 3 + ["FAILED", "INVALID", "VALID"]
    first = found.trials[0]
    assert (first.cell, first.repeat, first.gst_s) == (Cell("PS on fat-tree", 16), 0, ())
    record = json.loads((run_dir / "trials" / "ps-b16.json").read_text())["metrics"]
    assert first.values == {
        "gst": record["gst_median_s"],
        "jct": record["jct_s"],
        "throughput": record["throughput_sps"],
    }
    assert first.verdicts == {"gst": "VALID", "jct": "VALID", "throughput": "VALID"}
    assert set(found.trials[4].verdicts.values()) == {"INVALID"}
    assert (found.trials[3].values, found.trials[3].verdicts) == ({}, {})
    assert found.conditions["cpu.model"] == "AMD EPYC"
    assert found.conditions["packages.torch"] == "2.13.0+cpu"
    assert "packages.pandas" not in found.conditions
    assert "workload.batch" not in found.conditions
    assert found.arms["PS on fat-tree"]["scheme"] == "ps"


def test_a_baseline_holds_what_its_run_does(run_dir: Path, tmp_path: Path) -> None:
    whole = read(run_dir, iterations=True)
    write_baseline(whole, tmp_path / "baseline.json")
    found = read(tmp_path / "baseline.json")
    assert found.conditions == whole.conditions
    assert found.arms == whole.arms
    for kept, one in zip(found.trials, whole.trials, strict=True):
        assert (kept.id, kept.cell, kept.repeat, kept.verdict) == (one.id, one.cell, one.repeat, one.verdict)
        assert kept.verdicts == one.verdicts
        assert kept.values == pytest.approx(one.values, rel=1e-6)
        assert kept.gst_s == pytest.approx(one.gst_s, rel=1e-6)
    assert len(found.trials[0].gst_s) == ITERATIONS - WARMUP


def test_a_baseline_is_text_that_a_person_can_compare(run_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    write_baseline(read(run_dir, iterations=True), path)
    first = path.read_bytes()
    write_baseline(read(path), path)
    assert path.read_bytes() == first  # what was read is written the same
    lines = first.decode().splitlines()
    assert sum('"verdict"' in line for line in lines) == 6  # a line a trial
    keys = [line.split('"')[1] for line in lines if line.startswith(' "')]
    assert keys == sorted(keys) == ["arms", "baseline", "cells", "conditions", "schema"]


def test_what_was_measured_again_counts_alone(run_dir: Path) -> None:
    again = write_run(run_dir / "rerun")
    for path in (again / "trials").glob("*"):
        if path.stem not in ("ring-b64", "bml-b64"):
            path.unlink()
    found = read(run_dir)
    assert found.again == {Cell("Ring on fat-tree", 64), Cell("BML on BCube", 64)}
    assert len(found.trials) == 6
    assert read(run_dir, again=False).again == frozenset()
    shutil.rmtree(again)
    assert read(run_dir).again == frozenset()


def test_cells_are_replaced_whole() -> None:
    ps = Cell("PS", 16)
    first = side("a", {RING: about(0.2), ps: about(0.1)})
    found = replaced(first, side("a", {RING: about(0.3, count=4)}))
    assert [sum(one.cell == cell for one in found.trials) for cell in (RING, ps)] == [4, 10]


def test_conditions_are_flat_and_leave_out_what_has_no_effect() -> None:
    environment = {
        "kernel": "6.18",
        "cpu": {"model": "EPYC", "cores": 2},
        "limits": {"quota_cores": 0.5, "memory_bytes": None, "processes": None},
        "packages": {"numpy": "2.4", "rich": "15"},
        "sysctls": {"net.ipv4.tcp_rmem": "4096", "net.ipv4.tcp_available_congestion_control": "reno"},
        "lab": {
            "a": {
                "devices": {"cpu": 2},
                "impaired_by": {"way": "netem", "packets": 7},
                "hosts": {"h0": {"host": "n1", "kernel": "6.1", "pid": 7}},
            },
            "b": {},
        },
    }
    spec = {"schema": 1, "lab": "netns", "workload": {"batch": [1], "compute": {"mode": "none"}}, "docker": {"cpus": 1}}
    found = conditions(environment, spec)
    assert found == {
        "cpu.cores": 2,
        "cpu.model": "EPYC",
        "devices": "cpu",
        "hosts.h0.cores": None,
        "hosts.h0.host": "n1",
        "hosts.h0.kernel": "6.1",
        "hosts.h0.python": None,
        "impaired_by": "netem",
        "kernel": "6.18",
        "lab": "netns",
        "limits.memory_bytes": None,
        "limits.processes": None,
        "limits.quota_cores": 0.5,
        "packages.numpy": "2.4",
        "schema": 1,
        "sysctls.net.ipv4.tcp_rmem": "4096",
        "workload.compute.mode": "none",
    }
    assert list(found) == sorted(found)
    assert conditions(environment, spec | {"lab": "docker"})["docker.cpus"] == 1
    assert "impaired_by" not in conditions(environment | {"lab": {}}, spec)


def test_what_is_swept_is_each_cells_own() -> None:
    spec = {"schema": 1, "lab": "netns", "links": {"rate_bps": 1, "mtu": 1500}, "sweep": {"links.rate": [1, 2]}}
    assert conditions({}, spec) == {"lab": "netns", "links.mtu": 1500, "links.rate_bps": SWEPT, "schema": 1}
    cells = [
        Cell.of("ring", 16, {"links.rate": rate}, at)
        for rate, at in ((1e8, "rate=100 Mbit/s"), (1e8, "rate=0.1 Gbit/s"))
    ]
    assert cells[0] == cells[1]
    assert str(cells[0]) == "ring, batch 16, rate=100 Mbit/s"
    assert str(Cell.of("ring", 0, {"links.mtu": 1500})) == "ring, links.mtu=1500"


def test_parts_of_a_merged_run_each_have_a_say() -> None:
    parts = {"a": {"kernel": "6.1", "cpu": {"cores": 2}}, "b": {"kernel": "6.2", "cpu": {"cores": 2}}}
    found = conditions({"python": "3.11", "parts": parts}, {"schema": 1})
    assert found == {"cpu.cores": 2, "kernel": "6.1 or 6.2", "python": "3.11", "schema": 1}


def test_points_do_not_depend_on_the_order_of_their_settings() -> None:
    one, other = (Cell.of("ring", 16, point) for point in ({"b": 1, "a": "x"}, {"a": "x", "b": 1}))
    assert one == other == Cell("ring", 16, (("a", "x"), ("b", "1")))
    assert Cell.of("ring", 16, None) == Cell.of("ring", 16, {}) == Cell("ring", 16)


def test_runs_are_read_without_their_samples(run_dir: Path) -> None:
    shutil.rmtree(run_dir / "samples")
    assert len(read(run_dir).trials) == 6
    assert all(trial.samples is None for trial in load(run_dir, samples=False).trials)
    with pytest.raises(OutputError, match="missing"):
        read(run_dir, iterations=True)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "is not a baseline: holds no JSON object"),
        ("{", "is not a baseline: not JSON"),
        ('{"schema": 1, "name": "x"}', "is not a baseline"),
        ('{"schema": 2, "baseline": "x"}', "schema 2; this version of testbed reads up to 1"),
        ('{"schema": 1, "baseline": "x"}', "damaged (KeyError: 'conditions')"),
        (
            '{"schema": 1, "baseline": "x", "conditions": {}, "arms": {}, "cells": [7]}',
            "damaged (ValueError: cells.0 is 7, no object",
        ),
    ],
)
def test_what_is_no_baseline_is_refused(text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(text)
    with pytest.raises(OutputError) as error:
        read(path)
    assert problem in error.value.problem
    assert error.value.fix


@pytest.mark.parametrize(
    "value", ["NaN", "Infinity", "-Infinity", "1e999", '"nan"', '"0.2"', "true", "null", "9" * 400]
)
@pytest.mark.parametrize("place", ['"gst": 0.2', '"gst_s": [0.2'])
def test_a_baseline_whose_value_is_no_finite_number_is_damaged(tmp_path: Path, value: str, place: str) -> None:
    path = tmp_path / "baseline.json"
    write_baseline(side("a", {RING: [0.2]}), path)
    text = " ".join(path.read_text().split()).replace("[ ", "[")
    assert place in text
    path.write_text(text.replace(place, place.replace("0.2", value)))
    with pytest.raises(OutputError, match=r"baseline.json: (damaged|is not a baseline).*number"):
        read(path)


def test_a_damaged_trial_of_a_run_is_named(run_dir: Path, edit: Edit) -> None:
    edit(run_dir / "trials" / "ps-b16.json", lambda one: one.pop("label"))
    with pytest.raises(OutputError, match=r"ps-b16.json: damaged, 'label' is missing"):
        read(run_dir)


def test_each_metric_has_the_verdict_of_its_own_number(run_dir: Path, tmp_path: Path, edit: Edit) -> None:
    """In the run, and in the baseline that is made of it."""
    judged = {name: {"verdict": "VALID"} for name in ("gst", "iterations", "waiting")}
    judged |= {name: {"verdict": "INVALID"} for name in ("jct", "throughput")}
    edit(run_dir / "trials" / "ps-b16.json", lambda one: one["fidelity"].update(verdict="INVALID", numbers=judged))
    write_baseline(read(run_dir), tmp_path / "baseline.json")
    for found in (read(run_dir), read(tmp_path / "baseline.json")):
        first = found.trials[0]
        assert first.verdict == "INVALID"
        assert [first.valid_in(name) for name in ("gst", "jct", "throughput")] == [True, False, False]


def test_in_an_older_baseline_each_metric_has_the_trials_verdict(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    write_baseline(with_verdicts(side("a", {RING: about(0.2)}), "INVALID"), path)
    raw = json.loads(path.read_text())
    for trial in raw["cells"][0]["trials"]:
        del trial["verdicts"]
    path.write_text(json.dumps(raw))
    first, second, *_ = read(path).trials
    assert [first.valid_in(name) for name in ("gst", "jct")] == [False, False]
    assert [second.valid_in(name) for name in ("gst", "jct")] == [True, True]


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"verdicts": {"gst": "GOOD"}}, "a verdict is 'GOOD', not VALID or INVALID"),
        ({"verdicts": {}}, "KeyError: 'gst'"),
        ({"verdicts": ["VALID"]}, "TypeError"),
        ({"verdict": "GOOD"}, "a verdict is 'GOOD', not VALID or INVALID or UNWATCHED or SIMULATED or FAILED"),
        ({"id": "ring-b16-r2"}, "ring, batch 16 has the trial ring-b16-r2 twice"),
    ],
)
def test_a_baseline_whose_trials_are_damaged(tmp_path: Path, changed: dict[str, Any], problem: str) -> None:
    path = tmp_path / "baseline.json"
    write_baseline(side("a", {RING: about(0.2)}), path)
    raw = json.loads(path.read_text())
    raw["cells"][0]["trials"][0] |= changed
    path.write_text(json.dumps(raw))
    with pytest.raises(OutputError) as error:
        read(path)
    assert error.value.problem.startswith(f"{path}: damaged (")
    assert problem in error.value.problem


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("conditions", 5),
        ("conditions", {"kernel": []}),
        ("arms", {"a": 5}),
        ("cells", 5),
        ("cells", [5]),
        ("cells", [{}]),
    ],
)
def test_a_baseline_that_was_made_to_hurt(run_dir: Path, edit: Edit, where: str, value: object) -> None:
    path = run_dir / "base line.json"
    write_baseline(read(run_dir), path)
    edit(path, lambda baseline: baseline.update({where: value}))
    with pytest.raises(OutputError, match=r"base line\.json: damaged") as error:
        read(path)
    assert f"--out '{path}'" in str(error.value.fix)


def test_what_was_measured_again_is_not_elsewhere(run_dir: Path) -> None:
    (run_dir / "rerun").symlink_to(write_run(run_dir.with_name("other")))
    with pytest.raises(OutputError, match="rerun: is a symbolic link, and links are not followed there"):
        read(run_dir)


def test_a_baseline_keeps_what_nobody_watched(run_dir: Path, tmp_path: Path, edit: Edit) -> None:
    numbers = {"gst": {"verdict": "VALID"}, "jct": {"verdict": "UNWATCHED", "unwatched": ["stalls"]}}
    edit(
        run_dir / "trials" / "ps-b16.json",
        lambda trial: trial.update(fidelity={"verdict": "UNWATCHED", "numbers": numbers, "checks": []}),
    )
    write_baseline(read(run_dir), tmp_path / "base.json")
    for path in (run_dir, tmp_path / "base.json"):
        first = read(path).trials[0]
        assert (first.verdict, first.verdicts["gst"], first.verdicts["jct"]) == ("UNWATCHED", "VALID", "UNWATCHED")
        assert (first.valid_in("gst"), first.valid_in("jct")) == (True, False)
