"""Whole trials whose circuits move over three machines: as in the lab ``netns``."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from testbed.base.python import module_command
from tests.rehearsal.rehearsal import PATH, Rehearsal

pytestmark = [pytest.mark.lab, pytest.mark.rehearse]
MOVED = """\
name: moved
links: {rate: 1 Gbit/s}
workload: {kind: profile, model: lenet5, scale: 10, batch: 2, iterations: 3, compute: {pace: {2: 3 s}}}
arms:
  - topology: "patch_panel(servers=6,degree=2,rings=[[0,2,4,1,3,5]])"
    scheme: "multi_ring(strides=[1,5])"
    perturb: [{kind: circuits, at: 4.9 s, rings: [1], reconfiguration: 20 ms}]
  - topology: "patch_panel(servers=6,degree=2,rings=[[0,1,2,3]],circuits=[[4-5]],look_ahead=true,reconfiguration_s=0.1)"
    jobs:
      - {name: first, scheme: ring, hosts: 4}
      - {name: beside, scheme: ring, hosts: [h4, h5]}
      - {name: second, scheme: "multi_ring(permutations=[[0,2,1,3]])", hosts: 4, rings: [[0, 2, 1, 3]]}
retries: 0
quiet: 0 s
"""
UNSENT = """\
name: unsent
links: {rate: 100 Mbit/s}
workload: {kind: profile, model: dlrm_tiny, batch: 16, iterations: 4, scale: 4, compute: {pace: {16: 50 ms}}}
arms:
  - topology: "patch_panel(servers=4,degree=2)"
    scheme: "multi_ring(permutations=[[0,1,2,3],[3,2,1,0],[0,2],[1,3]])"
    strategy: {e0: [0], e1: [1, 3], e2: [0, 2], rest: all}
    perturb: [{kind: reconfigure, every: 60 ms, dark: 8 ms}]
retries: 0
quiet: 0 s
"""


NEAR, FEW_BYTES = 0.01, 10_000
"""By how much the bytes of a link may differ in two labs: packets that only acknowledge are as many as chance makes."""


def records(spec: str, folder: Path, *lab: str) -> list[dict[str, Any]]:
    """Records of a run in a lab, one for each job."""
    folder.mkdir()
    (folder / "spec.yaml").write_text(spec)
    words = ["run", str(folder / "spec.yaml"), "--out", str(folder / "run"), "--json", *lab]
    done = subprocess.run(module_command("testbed", *words), text=True, capture_output=True, env=PATH)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found: list[dict[str, Any]] = json.loads(done.stdout)["trials"]
    assert [one["error"] for one in found] == [None] * len(found)
    return found


def there(machines: Rehearsal) -> Sequence[str]:
    """Words that choose the lab."""
    return "--backend", "machines", "--inventory", str(machines.inventory)


def events(record: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return what was done to a trial, without moments."""
    return [(one["kind"], one["what"], one["takes_s"]) for one in record["events"]]


def check_that_it_is_sound(record: dict[str, Any]) -> None:
    """Check sums, and checks that do not depend on how busy the machine is."""
    assert record["sums"]["checked_elements"] > record["sums"]["wrong_elements"] == 0
    for name in ("bytes on the wire", "lower bound", "read back"):
        (check,) = [one for one in record["fidelity"]["checks"] if one["name"] == name]
        assert check["ok"], check
    for event in record["events"]:
        assert event["error"] is None
        assert event["done_s"] - event["begun_s"] >= event["takes_s"]


def test_circuits_move_in_mid_run_as_in_netns(tunnelled: Rehearsal, tmp_path: Path) -> None:
    """By a perturbation, and for a job whose circuits were patched while the one before it ran.
    Both move in the middle of some computing, so it is known what passes over which circuits."""
    spread, local = (
        records(MOVED, tmp_path / name, *lab)
        for name, lab in (("machines", there(tunnelled)), ("netns", ("--backend", "netns")))
    )
    assert [one["label"] for one in spread] == [one["label"] for one in local]
    for ours, theirs in zip(spread, local, strict=True):
        assert ours["sums"] == theirs["sums"]
        assert events(ours) == events(theirs) != []
        for link, other in zip(ours["links"], theirs["links"], strict=True):
            assert link["theory_bytes"] == other["theory_bytes"]
            assert link["bytes"] == pytest.approx(other["bytes"], rel=NEAR, abs=FEW_BYTES), (link, other)
        check_that_it_is_sound(ours)


def test_circuits_move_within_iterations_to_where_bytes_are_unsent(tunnelled: Rehearsal, tmp_path: Path) -> None:
    """Two panels for four servers that all send each other: circuits have to move for each iteration to end."""
    (record,) = records(UNSENT, tmp_path / "machines", *there(tunnelled))
    check_that_it_is_sound(record)
    assert len([event for event in record["events"] if event["kind"] == "reconfigure"]) > 4
