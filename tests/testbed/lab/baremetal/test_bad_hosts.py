"""Hosts that cannot be used: what a user reads, word for word, in golden/NAME.txt (GOLDEN=write writes them anew)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from testbed.lab.baremetal.rehearsal import NETWORK, USER, Rehearsal

pytestmark = pytest.mark.lab

GOLDEN = Path(__file__).parent / "golden"
OLD_PYTHONS = sorted(Path.home().glob(".pyenv/versions/3.10.*/bin/python3.10"))
SPEC = """\
name: small
links: {rate: 200 Mbit/s}
workload: {model: lenet5, dataset: digits, batch: [2], iterations: 3, compute: none}
arms: [{topology: star(hosts=3), scheme: ring}]
"""
Hosts = dict[str, Any]


def silent(hosts: Hosts) -> None:
    hosts["node2"]["ansible_port"] = 2222


CASES: dict[str, tuple[str, Callable[[Hosts], object]]] = {
    "unreachable": ("prepare", lambda hosts: hosts["node2"].update(ansible_host=f"{NETWORK}.99")),
    "no_ssh_server": ("prepare", lambda hosts: hosts["node2"].update(ansible_port=2)),
    "slow": ("prepare", silent),
    "wrong_key": ("prepare", lambda hosts: hosts["node2"].update(ansible_ssh_private_key_file="FOLDER/other")),
    "wrong_host_key": (
        "prepare",
        lambda hosts: hosts["node2"].update(
            ansible_ssh_common_args="-o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=yes"
        ),
    ),
    "no_sudo": ("prepare", lambda hosts: hosts["node2"].update(ansible_user=USER)),
    "no_such_python": ("prepare", lambda hosts: hosts["node2"].update(ansible_python_interpreter="/usr/bin/python9")),
    "old_python": ("prepare", lambda hosts: hosts["node2"].update(ansible_python_interpreter=str(OLD_PYTHONS[0]))),
    "full_disk": ("prepare", lambda hosts: hosts["node2"].update(testbed_home="/mnt/full/testbed")),
    "no_nics": ("prepare", lambda hosts: hosts["node2"].pop("nics")),
    "one_address": ("prepare", lambda hosts: hosts["node2"].update(ansible_host=f"{NETWORK}.1")),
    "one_training_address": (
        "prepare",
        lambda hosts: [one["nics"][0].update(address="10.1.1.1") for one in hosts.values()],
    ),
    "not_prepared": ("run", lambda _: None),
    "no_such_nic": ("run", lambda hosts: hosts["node2"].update(nics=[{"name": "eth9"}])),
    "the_nic_of_ssh": ("run", lambda hosts: hosts["node2"].update(nics=[{"name": "mgmt0"}])),
    "somebody_elses_queue": ("run", lambda _: None),
    "too_few_hosts": ("run", lambda hosts: hosts.pop("node2")),
}
PREPARED = ("no_such_nic", "the_nic_of_ssh", "somebody_elses_queue", "too_few_hosts")


@contextmanager
def surroundings(rehearsal: Rehearsal, name: str, folder: Path) -> Iterator[None]:
    """What some cases need: a disk that is full, a port that says nothing."""
    listening = None
    if name == "full_disk":
        words = ["sh", "-c", "mkdir -p /mnt/full && mount -t tmpfs -o size=1m tmpfs /mnt/full"]
        subprocess.run(rehearsal.on(1, words), check=True)
    elif name == "slow":
        code = "import socket, time; s = socket.create_server(('', 2222)); print(flush=True); time.sleep(100)"
        listening = subprocess.Popen(
            rehearsal.on(1, [str(Path(sys.executable).resolve()), "-c", code]), stdout=subprocess.PIPE
        )
        assert listening.stdout
        assert listening.stdout.readline()
    elif name == "somebody_elses_queue":
        subprocess.run(
            rehearsal.on(1, ["tc", "qdisc", "add", "dev", "eth1", "root", "handle", "5:", "pfifo"]), check=True
        )
    elif name == "wrong_key":
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "other")], check=True)
    try:
        yield
    finally:
        if listening:
            listening.kill()
            listening.wait()
            assert listening.stdout
            listening.stdout.close()
        if name == "full_disk":
            subprocess.run(rehearsal.on(1, ["sh", "-c", "umount /mnt/full && rmdir /mnt/full"]), check=True)
        elif name == "somebody_elses_queue":
            subprocess.run(rehearsal.on(1, ["tc", "qdisc", "del", "dev", "eth1", "root"]), check=True)


@pytest.mark.parametrize("name", CASES)
def test_hosts_that_cannot_be_used(rehearsal: Rehearsal, name: str, tmp_path: Path) -> None:
    if name == "old_python" and not OLD_PYTHONS:
        pytest.skip("this machine has no Python 3.10")
    action, change = CASES[name]
    plain = rehearsal.write_inventory()
    if action == "run":
        first = "prepare" if name in PREPARED else "reset"
        assert rehearsal.testbed("hosts", first, "--inventory", str(plain)).returncode == 0
    before = [rehearsal.snapshot(host) for host in range(3)]
    inventory = rehearsal.write_inventory(change)
    inventory.write_text(inventory.read_text().replace("FOLDER", str(tmp_path)))
    with surroundings(rehearsal, name, tmp_path):
        said = call(rehearsal, action, inventory, tmp_path)
    rehearsal.write_inventory()
    said = (
        said.replace(str(rehearsal.folder), "FOLDER").replace(str(tmp_path), "FOLDER").replace(str(Path.home()), "HOME")
    )
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("GOLDEN") == "write":
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(said)
    assert said == golden.read_text()
    assert "Traceback" not in said
    if action == "run":
        for host in range(3):
            found = rehearsal.differs(host, before[host])
            assert [line for line in found if "__pycache__" not in line] == []


def call(rehearsal: Rehearsal, action: str, inventory: Path, folder: Path) -> str:
    """What is said, without the lines of progress, and the exit status."""
    if action == "run":
        (folder / "spec.yaml").write_text(SPEC)
        words = ["run", str(folder / "spec.yaml"), "--out", str(folder / "run")]
    else:
        words = ["hosts", action]
    done = rehearsal.testbed(*words, "--inventory", str(inventory))
    told = ("prepare: ", "run: ", "shape: ", "probe: ")
    lines = [line for line in done.stderr.splitlines() if not line.startswith(told)]
    if done.returncode == 1:  # a trial that failed
        lines += done.stdout.split("\n\n")[0].splitlines()
    return "\n".join([*lines, f"exit status {done.returncode}", ""])
