"""Runs on hosts that are prepared: what they are sent, and what is left of runs that are cut off."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests import own
from tests.patience import until
from tests.rehearsal.rehearsal import Rehearsal

from .conftest import LOOK_EVERY_S, as_sudoer, await_unshaped, run, shapers

pytestmark = pytest.mark.lab

SPEC = """\
name: small
links: {rate: 200 Mbit/s}
workload: {kind: profile, model: lenet5, batch: 32, scale: 4, iterations: 3, compute: none}
arms: [{topology: star(hosts=3), scheme: ps}]
timeout: 20 s
retries: 0
"""
LONG = SPEC.replace("iterations: 3", "iterations: 2000")
STARTED_S = 180.0


OWN = SPEC.replace(
    "kind: profile, model: lenet5, batch: 32, scale: 4",
    'model: "./net.py:Net", dataset: "./data.py:load(count=200000)", batch: 8',
).replace("star(hosts=3), scheme: ps", "star(hosts=2), scheme: gloo")


def test_hosts_that_are_prepared_play_a_trial(prepared: Rehearsal, tmp_path: Path) -> None:
    (record,) = run(prepared, tmp_path, SPEC)
    assert (record["status"], record["error"]) == ("done", None)
    assert record["sums"]["checked_elements"] > record["sums"]["wrong_elements"] == 0


@pytest.mark.rehearse
def test_a_model_and_data_of_ones_own_are_sent_to_hosts_that_can_be_reached(
    prepared: Rehearsal, tmp_path: Path
) -> None:
    """In several pieces: the samples are 5 MB. A host that cannot be reached is left out, for that is allowed. Ranks of
    Gloo train, of which one is an ordinary user's where this machine has sudo."""
    own.write(tmp_path)

    def change(hosts: dict[str, dict[str, Any]]) -> None:
        hosts["node1"].update(ansible_port=2)
        if shutil.which("sudo"):
            as_sudoer([hosts["node2"]])

    prepared.write_inventory(change)
    try:
        (record,) = run(prepared, tmp_path, OWN, "--allow-missing")
    finally:
        prepared.write_inventory()
    assert (record["status"], record["error"]) == ("done", None)
    assert record["accuracy"]["weights_equal"]
    lab = json.loads((tmp_path / "run/env.json").read_text())["lab"]
    assert [host["host"] for host in lab[record["id"]]["hosts"].values()] == ["node2", "node3"]


def started(rehearsal: Rehearsal, folder: Path) -> subprocess.Popen[bytes]:
    """A long experiment, whose hosts are shaped and whose workers run by now."""
    (folder / "spec.yaml").write_text(LONG)
    words = ["run", str(folder / "spec.yaml"), "--inventory", str(rehearsal.inventory), "--out", str(folder / "run")]
    command = rehearsal.command([sys.executable, "-m", "testbed", *words])
    with (folder / "said").open("w") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, start_new_session=True)

    def at_work() -> bool:
        assert process.poll() is None, (folder / "said").read_text()
        return any(path.stat().st_size for path in (folder / "run/work").rglob("h0/samples.jsonl"))

    until(at_work, STARTED_S, 0.2)
    assert all("htb" in shapers(rehearsal, host) for host in range(3))
    return process


ENDS = ("baremetal.on_hosts.agent", "baremetal.nics.shaper", "workloads")
"""Words of processes that end by themselves."""


@pytest.mark.rehearse
def test_a_killed_harness_leaves_no_host_shaped_nothing_running_and_what_it_wrote_until_told(
    prepared: Rehearsal, tmp_path: Path
) -> None:
    process = started(prepared, tmp_path)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    await_unshaped(prepared)
    ps = ["ps", "-e", "-o", "args="]
    for host in range(3):
        run_there = partial(subprocess.run, prepared.on(host, ps), capture_output=True, text=True)
        until(lambda there=run_there: not any(one in there().stdout for one in ENDS), look_every_s=LOOK_EVERY_S)
    inventory = str(prepared.inventory)
    listed = prepared.testbed("clean", "--inventory", inventory).stdout
    assert "node1: directory /var/lib/testbed/work/" in listed
    into = tmp_path / "collected"
    assert prepared.testbed("hosts", "collect", "--inventory", inventory, "--into", str(into)).returncode == 0
    assert list((into / "node1").rglob("h0.log"))
    assert "removed" in prepared.testbed("clean", "--inventory", inventory, "--yes").stdout
    for host in range(3):
        left = subprocess.run(prepared.on(host, ["ls", "/var/lib/testbed"]), capture_output=True, check=True)
        assert b"venv" in left.stdout
        assert b"work" not in left.stdout


LIAR = """\
#!/bin/sh
cat > /dev/null
echo '{"changed": false, "files": [{"path": "/var/lib/testbed/work/../../../../etc/shadow"}]}'
"""
"""Stands in a host's Python's place, and says of every module that it found this file."""


def test_a_host_that_names_files_elsewhere_is_refused_and_chooses_no_place_here(
    rehearsal: Rehearsal, tmp_path: Path
) -> None:
    plant = rehearsal.on(0, ["sh", "-c", "cat > /tmp/liar; chmod 755 /tmp/liar"])
    subprocess.run(plant, input=LIAR, text=True, check=True)
    rehearsal.write_inventory(lambda hosts: hosts["node1"].update(ansible_python_interpreter="/tmp/liar"))
    try:
        into = ("--into", str(tmp_path / "a" / "b"))
        done = rehearsal.testbed("hosts", "collect", "--inventory", str(rehearsal.inventory), *into)
    finally:
        rehearsal.write_inventory()
        subprocess.run(rehearsal.on(0, ["rm", "/tmp/liar"]), check=True)
    assert done.returncode == 2
    refused = "node1: Refuse what would land elsewhere: it names '/var/lib/testbed/work/../../../../etc/shadow'"
    assert f"{refused}, which is not below /var/lib/testbed/work" in done.stderr
    assert not list(tmp_path.rglob("shadow"))


def test_a_host_that_hears_nothing_undoes_its_shaping_by_itself(prepared: Rehearsal) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from testbed.lab.baremetal.nics import shaper\n"
        "nic = shaper.Nic('eth1', 10**8, 10**8, 10**6, 1500, '10.9.9.9', (('10.9.9.8', '02:00:00:00:00:01'),))\n"
        "assert shaper.apply(shaper.Wanted('a test', (nic,), 2.0))\n"
        "assert not shaper.apply(shaper.Wanted('a test', (nic,), 2.0))\n"
    )
    before = prepared.snapshot(0)
    place = subprocess.run(
        prepared.on(0, ["sh", "-c", "echo /var/lib/testbed/code-*"]), capture_output=True, text=True, check=True
    ).stdout.strip()
    subprocess.run(prepared.on(0, ["/var/lib/testbed/venv/bin/python", "-B", "-c", code, place]), check=True)
    assert "htb" in shapers(prepared, 0)
    await_unshaped(prepared)
    time.sleep(1)
    assert prepared.differs(0, before) == []
