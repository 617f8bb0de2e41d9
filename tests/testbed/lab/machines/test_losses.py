"""Machines that fall silent, are cut off, or are lost, while a network is spread over them."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from testbed.base.errors import LabError
from testbed.base.python import module_command
from testbed.lab.machines.lab import SILENT_S, MachinesLab
from testbed.lab.place import Opening
from tests.patience import until
from tests.rehearsal.rehearsal import PATH, Rehearsal

from ..attack import LIMITS, Ground, attack
from ..test_contract import up
from ..test_hostile import nothing_came_of

pytestmark = [pytest.mark.lab, pytest.mark.rehearse]
CUT_S = 2.0
SPEC = """\
name: losses
links: {rate: 100 Mbit/s}
workload: {kind: profile, model: lenet5, batch: 32, iterations: 30, compute: {pace: {32: 0.2 s}}}
arms: [{topology: star(hosts=3), scheme: ring}]
repeats: 2
retries: 0
quiet: 0 s
"""


@contextmanager
def down(machines: Rehearsal, port: str) -> Iterator[None]:
    """A switch's port is down meanwhile."""
    machines.run(["ip", "link", "set", port, "down"], check=True)
    try:
        yield
    finally:
        machines.run(["ip", "link", "set", port, "up"], check=True)


def test_a_machine_that_falls_silent_is_lost_and_can_be_had_again(tunnelled: Rehearsal, tmp_path: Path) -> None:
    with MachinesLab(Opening(inventory=tunnelled.inventory)) as lab:
        lab.share(tmp_path)
        up(lab)
        with down(tunnelled, "m1"):
            silent_s = time.monotonic()
            assert lab._fleet is not None
            until(lambda: lab._fleet is not None and lab._fleet.connections[1].lost is not None, 3 * SILENT_S)
            assert SILENT_S - 2.0 < time.monotonic() - silent_s < SILENT_S + 5.0
            with pytest.raises(LabError, match="node2: it has said nothing for 10 s"):
                lab.exits()
            lab.down()
        up(lab)
        lab.verify()


def test_a_worker_that_means_harm_gets_nowhere(tunnelled: Rehearsal, tmp_path: Path) -> None:
    for number in range(3):  # machines must have what programs read at the same place
        subprocess.run(tunnelled.on(number, ["mkdir", "-p", str(tmp_path / "spec")]), check=True)
    before = [tunnelled.snapshot(number) for number in range(3)]
    with MachinesLab(Opening(inventory=tunnelled.inventory)) as lab:
        nothing_came_of(attack(lab, tmp_path, Ground(frozenset({LIMITS}))))
    for number in range(3):
        assert tunnelled.differs(number, before[number], "__pycache__") == []


@pytest.fixture
def inside(tunnelled: Rehearsal) -> Iterator[Rehearsal]:
    """Machines with an inventory for a controller in the sandbox."""
    tunnelled.write_inventory()
    yield tunnelled
    tunnelled.write_inventory(outside=True)


def test_a_cut_makes_a_trial_invalid_and_a_lost_machine_fails_one(inside: Rehearsal, tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC)
    words = ["run", str(tmp_path / "spec.yaml"), "--backend", "machines", "--inventory", str(inside.inventory)]
    command = inside.command(module_command("testbed", *words, "--set", "links.mtu=1500", "--out", "run", "--json"))
    command.insert(command.index("env") + 2, f"--chdir={tmp_path}")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=PATH) as run:
        until(lambda: trains(tmp_path, "r1"), 120.0)
        with down(inside, "t1-0"):
            time.sleep(CUT_S)
        until(lambda: trains(tmp_path, "r2"), 120.0)
        agent = "testbed.lab.machines.on_machine.agent"
        pids = subprocess.run(inside.on(1, ["pgrep", "-f", agent]), text=True, capture_output=True).stdout.split()
        subprocess.run(inside.on(1, ["kill", "-KILL", *pids]), check=True)
        killed_s = time.monotonic()
        assert run.stdout is not None
        found: list[dict[str, Any]] = json.loads(run.stdout.read())["trials"]
        assert time.monotonic() - killed_s < 60.0
    assert run.returncode == 1
    cut, lost = found
    check = next(one for one in cut["fidelity"]["checks"] if one["name"] == "underlay")
    assert not check["ok"]
    assert "nothing came to node2 from node" in check["detail"]
    happened = [event for event in cut["events"] if event["kind"] == "interruption"]
    assert any(event["what"].startswith("nothing came to node2 from node") for event in happened)
    assert all(1.0 <= event["done_s"] - event["begun_s"] <= CUT_S + 5.0 for event in happened)
    assert cut["fidelity"]["numbers"]["jct"]["verdict"] == "INVALID"  # GST may be certified: its median has no cut
    assert lost["status"] == "failed"
    assert "node2: the connection to its agent is lost" in lost["error"]


def trains(folder: Path, repeat: str) -> bool:
    """Whether a trial's first worker has written of an iteration."""
    paths = folder.glob(f"run/work/*{repeat}/**/samples.jsonl")
    return any('"iteration"' in path.read_text(errors="replace") for path in paths)
