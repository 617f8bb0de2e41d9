"""Nodes that die in a real network, and Rina that goes on without them."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from ..bench import Bench
from ..records import check

SPEC = """
name: dying
links: {rate: 200 Mbit/s}
workload: {model: resnet8, dataset: digits, batch: 8, iterations: 8, learning_rate: 0.03, compute: real, chunk: 8 KiB}
timeout: 30 s
failover: 6 s
arms:
"""
NETWORK = "spine_leaf(racks=2,hosts_per_rack=3,spines=1,ina=INA)"

pytestmark = pytest.mark.lab


def arm(label: str, *nodes: str, ina: str = "all", kind: str = "kill", first: int = 3) -> str:
    """One in which nodes die, two iterations after each other."""
    key = "nodes" if kind == "kill" else "hosts"
    deaths = [f"{{kind: {kind}, {key}: [{name}], at: iteration {first + 2 * i}}}" for i, name in enumerate(nodes)]
    network = NETWORK.replace("INA", ina)
    return f"  - {{label: {label}, scheme: rina, topology: {network!r}, perturb: [{', '.join(deaths)}]}}\n"


def run(bench: Bench, folder: Path, *arms: str) -> dict[str, dict[str, Any]]:
    """The records by label."""
    return {one.record["label"]: one.record for one in bench.run(SPEC + "".join(arms), folder)}


WANTED = {
    "autonomous": (arm("autonomous", "h1", ina="[leaf1]"), [6, 5], "rina, leaf1 adding"),
    "aggregator": (arm("aggregator", "leaf0"), [6, 6], "rina, leaf1 adding"),
    "both agents": (arm("both agents", "h0", "h3"), [6, 5, 4], "rina, a ring"),
    "whole rack": (arm("whole rack", "h3", "h4", "h5", first=2), [6, 5, 4, 3], "rina, leaf0 adding"),
    "warm-up": (arm("warm-up", "h4", first=0), [6, 5], "rina, leaf0, leaf1 adding"),
}


@pytest.mark.parametrize(
    "labels",
    [("aggregator", "whole rack"), pytest.param(("autonomous", "both agents", "warm-up"), marks=pytest.mark.rehearse)],
)
def test_rina_goes_on(bench: Bench, tmp_path: Path, labels: tuple[str, ...]) -> None:
    wanted = {label: WANTED[label] for label in labels}
    records = run(bench, tmp_path, *(text for text, _, _ in wanted.values()))
    assert {label: record["error"] for label, record in records.items()} == dict.fromkeys(wanted)
    for label, (_, worlds, goes_on_as) in wanted.items():
        record = records[label]
        told = record["failover"]
        # Who dies in the first iteration may have made it or not, as the machine has it.
        left_out = len(worlds) - len(told["phases"])
        assert 0 <= left_out <= (label == "warm-up"), label
        assert [one["world"] for one in told["phases"]] == worlds[left_out:], label
        assert told["phases"][-1]["scheme"] == goes_on_as, label
        assert record["accuracy"]["weights_equal"], label
        assert record["accuracy"]["weights_error"] < 1e-4, label
        assert all(death["how"] == "was killed by SIGKILL" for death in told["deaths"]), label
        for one in told["recoveries"]:
            assert one["recovered_s"] < 6, label  # nobody waits for a process that was killed
        assert check(record, "nodes")["ok"], label
        wire = check(record, "bytes on the wire")
        assert wire["ok"], (label, wire)


@pytest.mark.rehearse
def test_a_frozen_host_has_died_after_the_failover_time(bench: Bench, tmp_path: Path) -> None:
    record = run(bench, tmp_path, arm("frozen", "h1", kind="freeze"))["frozen"]
    assert record["status"] == "done", record["error"]
    assert [death["how"] for death in record["failover"]["deaths"]] == ["did not check in for 6 s"]
    assert record["accuracy"]["weights_equal"]


def test_one_dies_before_the_others_have_met_it(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.strike_first("h1", signal.SIGKILL, monkeypatch)
    network = NETWORK.replace("INA", "all")
    (outcome,) = bench.run(f"{SPEC}  - {{scheme: rina, topology: {network!r}}}\n", tmp_path)
    record = outcome.record
    assert record["status"] == "done", record["error"]
    assert [one["world"] for one in record["failover"]["phases"]] == [5]
    assert record["fidelity"]["verdict"] == "INVALID"
    reasons = {one["name"]: one["detail"] for one in record["fidelity"]["checks"] if not one["ok"]}
    assert reasons["link rate"] == "4 of 10 ports were measured"
    assert reasons["nodes"].startswith("h1 was killed by SIGKILL; from iteration 0 on 5 workers with rina")
