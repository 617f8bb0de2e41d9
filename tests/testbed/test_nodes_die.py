"""Nodes that die in a real network, and Rina that goes on without them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from testbed.execute import execute
from testbed.lab.base import Launch
from testbed.lab.netns import NetnsLab
from testbed.referee import Referee
from testbed.spec import read
from testbed.trials import trials

SPEC = """
name: dying
links: {rate: 1 Gbit/s}
workload: {model: lenet5, dataset: digits, batch: 8, iterations: 8, learning_rate: 0.01, compute: real, chunk: 32 KiB}
timeout: 30 s
failover: 6 s
arms:
"""
NETWORK = "spine_leaf(racks=2,hosts_per_rack=3,spines=1,ina=INA)"

pytestmark = pytest.mark.lab


def arm(label: str, *nodes: str, ina: str = "all", scheme: str = "rina", kind: str = "kill", first: int = 3) -> str:
    """One in which nodes die, two iterations after each other."""
    key = "nodes" if kind == "kill" else "hosts"
    deaths = [f"{{kind: {kind}, {key}: [{name}], at: iteration {first + 2 * i}}}" for i, name in enumerate(nodes)]
    network = NETWORK.replace("INA", ina)
    return f"  - {{label: {label}, scheme: {scheme}, topology: {network!r}, perturb: [{', '.join(deaths)}]}}\n"


def run(folder: Path, *arms: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """Exit code, and the records by label."""
    (folder / "dying.yaml").write_text(SPEC + "".join(arms))
    command = [sys.executable, "-m", "testbed", "run", "dying.yaml", "--out", "out"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    records = [json.loads(path.read_text()) for path in (folder / "out" / "trials").glob("*.json")]
    assert records, done.stderr
    return done.returncode, {record["label"]: record for record in records}


def test_rina_goes_on(tmp_path: Path) -> None:
    wanted = {
        "agent": (arm("agent", "h0"), [6, 5], "rina, leaf1 adding"),
        "worker": (arm("worker", "h1"), [6, 5], "rina, leaf0, leaf1 adding"),
        "autonomous": (arm("autonomous", "h1", ina="[leaf1]"), [6, 5], "rina, leaf1 adding"),
        "aggregator": (arm("aggregator", "leaf0"), [6, 6], "rina, leaf1 adding"),
        "both agents": (arm("both agents", "h0", "h3"), [6, 5, 4], "rina, a ring"),
        "whole rack": (arm("whole rack", "h3", "h4", "h5", first=2), [6, 5, 4, 3], "rina, leaf0 adding"),
        "warm-up": (arm("warm-up", "h4", first=0), [5], "rina, leaf0, leaf1 adding"),
    }
    code, records = run(tmp_path, *(text for text, _, _ in wanted.values()))
    assert {label: record["error"] for label, record in records.items()} == dict.fromkeys(wanted)
    assert code == 0
    for label, (_, worlds, goes_on_as) in wanted.items():
        record = records[label]
        told = record["failover"]
        assert [one["world"] for one in told["phases"]] == worlds[-len(told["phases"]) :], label
        assert told["phases"][-1]["scheme"] == goes_on_as, label
        assert record["accuracy"]["weights_equal"], label
        assert record["accuracy"]["weights_error"] < 1e-4, label
        assert record["loss"][1] < record["loss"][0], label
        assert all(death["how"] == "was killed by SIGKILL" for death in told["deaths"]), label
        for one in told["recoveries"]:
            assert one["recovered_s"] < 6, label  # nobody waits for a process that was killed
        checks = {check["name"]: check for check in record["fidelity"]["checks"]}
        assert checks["nodes"]["ok"], label
        assert checks["bytes on the wire"]["ok"], (label, checks["bytes on the wire"])


def test_a_frozen_host_has_died_after_the_failover_time(tmp_path: Path) -> None:
    code, records = run(tmp_path, arm("frozen", "h1", kind="freeze"))
    record = records["frozen"]
    assert code == 0, record["error"]
    assert [death["how"] for death in record["failover"]["deaths"]] == ["did not check in for 6 s"]
    assert record["accuracy"]["weights_equal"]


def test_a_ring_fails_and_names_who_died(tmp_path: Path) -> None:
    code, records = run(tmp_path, arm("ring", "h1", scheme="ring"), arm("rina", "h1"))
    assert code == 1
    assert "the worker on h1 was killed by SIGKILL" in records["ring"]["error"]
    assert records["ring"]["duration_s"] < 30
    assert records["rina"]["status"] == "done"


class Deadly(NetnsLab):
    """Kills a worker that has hardly begun."""

    def launch(self, workers: Sequence[Launch]) -> None:
        super().launch(workers)
        self.signal(1, signal.SIGKILL)


def test_one_dies_before_the_others_have_met_it(tmp_path: Path) -> None:
    network = NETWORK.replace("INA", "all")
    (trial,) = trials(read(f"{SPEC}  - {{scheme: rina, topology: {network!r}}}\n", "spec.yaml", Path()))
    with Deadly() as lab, Referee() as referee:
        record = execute(trial, lab, referee, tmp_path, "reno", lambda _: None).record
    assert record["status"] == "done", record["error"]
    assert [one["world"] for one in record["failover"]["phases"]] == [5]
    assert record["fidelity"]["verdict"] == "INVALID"
    reasons = {check["name"]: check["detail"] for check in record["fidelity"]["checks"] if not check["ok"]}
    assert reasons["link rate"] == "4 of 10 ports were measured"
    assert reasons["nodes"].startswith("h1 was killed by SIGKILL; from iteration 0 on 5 workers with rina")
