"""Hybrid training in a real lab: messages and sums of groups, bytes on links, predicted time, and the verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.testbed.bench import Bench

pytestmark = pytest.mark.lab

SPEC = """
name: hybrid
links: {rate: 100 Mbit/s}
workload:
  {kind: profile, model: dlrm_tiny, batch: 16, iterations: 4, scale: 4, compute: {mode: paced, pace: {16: 50 ms}}}
arms:
  - topology: star(hosts=4)
    scheme: "multi_ring(permutations=[[0,1,2,3],[3,2,1,0],[0,2],[1,3]])"
    strategy: {e0: [0], e1: [1, 3], e2: [0, 2], rest: all}
quiet: 0 s
"""


def test_messages_and_sums_of_groups_on_a_star(bench: Bench, tmp_path: Path) -> None:
    """That each server sends each other one the bytes of the plan, to the byte, is for the kind to check, which fails
    the trial otherwise."""
    (outcome,) = bench.run(SPEC, tmp_path)
    assert outcome.record["status"] == "done", outcome.record["error"]
    assert outcome.samples is not None
    assert (outcome.samples[["mp_wait_forward_s", "mp_wait_backward_s"]] >= 0).all(axis=None)
    checks = {one["name"]: one for one in outcome.record["fidelity"]["checks"]}
    for name in ("bytes on the wire", "lower bound", "read back"):
        assert checks[name]["ok"], checks[name]
    for link in outcome.record["links"]:
        assert link["bytes"] == pytest.approx(link["theory_bytes"], rel=0.03, abs=20_000)
    sums, metrics = outcome.record["sums"], outcome.record["metrics"]
    assert sums["checked_elements"] > 0
    assert sums["wrong_elements"] == 0
    assert metrics["iteration_predicted_s"] > metrics["gst_theory_s"]
    counted = outcome.samples[outcome.samples["iteration"] >= 1]  # the default warm-up
    waits_s = counted.groupby("iteration")["mp_wait_forward_s"].mean()
    assert metrics["mp_wait_forward_s"] == pytest.approx(waits_s.median())
    assert len(waits_s) == 3
    assert metrics["mp_wait_forward_s"] > 0


@pytest.mark.parametrize("discount", ["half", pytest.param("one", marks=pytest.mark.rehearse)])
def test_circuits_move_within_iterations_to_where_bytes_are_unsent(discount: str, bench: Bench, tmp_path: Path) -> None:
    """Two panels for four servers that all send each other: circuits have to move for each iteration to end. Without a
    discount (SiP-ML) two servers may get both circuits. The slow server takes no chunks for more than 200 ms. TCP then
    sent what fitted into a dark circuit, the sender never said that all had arrived, and circuits stopped moving."""
    moves = f"""    perturb:
      - {{kind: reconfigure, every: 40 ms, dark: 8 ms, discount: {discount}}}
      - {{kind: slow, workers: [h0], slowdown: 10}}
quiet:"""
    spec = SPEC.replace("star(hosts=4)", '"patch_panel(servers=4,degree=2)"').replace("quiet:", moves)
    (outcome,) = bench.run(spec, tmp_path)
    record = outcome.record
    assert record["status"] == "done", record["error"]
    assert record["sums"]["wrong_elements"] == 0
    checks = {one["name"]: one for one in record["fidelity"]["checks"]}
    for name in ("bytes on the wire", "lower bound", "drops"):
        assert checks[name]["ok"], checks[name]
    moved = [event for event in record["events"] if event["kind"] == "reconfigure"]
    assert len(moved) > 4
    for event in moved:
        assert event["error"] is None
        assert event["done_s"] - event["begun_s"] >= event["takes_s"] == 0.008
    assert "iteration_predicted_s" not in record["metrics"]


def test_a_strategy_and_a_network_are_searched_for_and_run(bench: Bench, tmp_path: Path) -> None:
    arm = SPEC[SPEC.index("  - topology") : SPEC.index("quiet")]
    found = '  - {topology: "topoopt(servers=4,degree=2)", strategy: search(steps=50)}\n'
    (outcome,) = bench.run(SPEC.replace(arm, found), tmp_path)
    record = outcome.record
    assert record["status"] == "done", record["error"]
    assert record["topology"].startswith("patch_panel(servers=4,degree=2,rings=[1]")
    assert record["scheme"].startswith("multi_ring(permutations=[[")
    checks = {one["name"]: one for one in record["fidelity"]["checks"]}
    assert checks["bytes on the wire"]["ok"], checks["bytes on the wire"]
    assert checks["lower bound"]["ok"], checks["lower bound"]
    assert record["sums"]["wrong_elements"] == 0
    assert record["critical_path"][0]["start_s"] == 0.0
    assert record["critical_path"][-1]["end_s"] == record["metrics"]["iteration_predicted_s"]


def test_two_paths_to_two_nics_share_messages_between_opposite_servers(bench: Bench, tmp_path: Path) -> None:
    """Servers of a ring of four: half of what tables on two of them send to opposite ones goes around each side."""
    arm = SPEC[SPEC.index("  - topology") : SPEC.index("quiet")]
    found = '  - {topology: "topoopt(servers=4,degree=2,paths=2)", strategy: {e0: [0], e1: [2], rest: all}}\n'
    (outcome,) = bench.run(SPEC.replace(arm, found), tmp_path)
    record = outcome.record
    assert record["status"] == "done", record["error"]
    assert record["topology"].count("@") == 4  # of servers 0 and 2, two ways in each direction
    assert record["sums"]["wrong_elements"] == 0
    checks = {one["name"]: one for one in record["fidelity"]["checks"]}
    for name in ("bytes on the wire", "lower bound", "read back"):
        assert checks[name]["ok"], checks[name]
    for link in record["links"]:
        assert link["bytes"] == pytest.approx(link["theory_bytes"], rel=0.03, abs=20_000)
