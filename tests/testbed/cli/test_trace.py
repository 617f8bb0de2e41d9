"""``testbed trace``: what it shows and writes, as a user calls it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from ..conftest import Called

CLI = Callable[..., Called]
SCHEDULE = """\
num_ranks 2
rank 0 {
a: calc 2000
b: send 4096b to 1 tag 7
b requires a
}
rank 1 {
recv 4096b from 0 tag 7
}
"""
SPEC = """\
name: traced
links: {rate: 100 Mbit/s}
workload: {kind: profile, model: lenet5, batch: 2, iterations: 2, compute: none}
arms: [{label: ring, topology: star(hosts=2), scheme: ring}]
"""


def test_show_says_what_a_rank_does(testbed: CLI, tmp_path: Path) -> None:
    (path := tmp_path / "x.goal").write_text(SCHEDULE)
    told = testbed("trace", "show", str(path))
    assert (told.code, told.err) == (0, "")
    assert "COMM_SEND\t1\t4,096\n" in told.out
    assert "computes 0.002 ms; its critical path has 0.002 ms" in told.out
    shown = json.loads(testbed("trace", "show", str(path), "--rank", "1", "--json").out)
    assert [one["type"] for one in shown["types"]] == ["COMM_RECV"]


def test_export_names_what_it_wrote(testbed: CLI, tmp_path: Path) -> None:
    (spec := tmp_path / "spec.yaml").write_text(SPEC)
    out = tmp_path / "out"
    told = testbed("trace", "export", str(spec), "--arm", "ring", "--out", str(out), "--form", "goal", "--chunks")
    assert (told.code, told.err) == (0, "")
    (path,) = out.iterdir()
    assert str(path) in told.out.replace("\n", "")
    again = json.loads(testbed("trace", "show", str(path), "--rank", "1", "--json").out)
    assert {one["type"] for one in again["types"]} >= {"COMM_SEND", "COMM_RECV"}


def test_an_arm_or_a_trial_is_exported(testbed: CLI) -> None:
    told = testbed("trace", "export", "spec.yaml", "--out", "x")
    assert told == Called(
        2,
        "",
        "error: trace export writes an arm of a spec or a trial of a run\n  fix: give either --arm or --trial\n",
    )
