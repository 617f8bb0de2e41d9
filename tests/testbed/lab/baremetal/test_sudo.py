"""Hosts where we log in as an ordinary user, who becomes root by sudo; and a network on them that is held. How they are
prepared, used and reset is in ``test_rehearse.py``."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.lab.baremetal.lab import BaremetalLab
from tests.patience import until
from tests.rehearsal.rehearsal import ASKED, PASSWORD, Rehearsal

from ..attack import MACHINES, attack
from ..test_hostile import nothing_came_of
from .conftest import as_sudoer

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(shutil.which("sudo") is None, reason="this machine has no sudo"),
]

SPEC = """\
name: small
links: {rate: 200 Mbit/s}
workload: {kind: profile, model: lenet5, batch: 32, iterations: 3, compute: none}
arms: [{topology: star(hosts=2), scheme: gloo}]
"""


def test_a_network_on_machines_is_held_and_undone(prepared: Rehearsal, tmp_path: Path) -> None:
    before = [prepared.snapshot(host) for host in range(2)]
    (tmp_path / "spec.yaml").write_text(SPEC)
    inventory = prepared.write_inventory(lambda hosts: as_sudoer(list(hosts.values())))
    words = ["up", str(tmp_path / "spec.yaml"), "--inventory", str(inventory)]
    environment = {**os.environ, "TESTBED_UP": tmp_path.name}
    command = prepared.command([sys.executable, "-m", "testbed", *words])
    held = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True)
    assert held.stdout
    try:
        assert held.stdout.readline() == "star(hosts=2) is up: hosts h0 to h1, 1 switch\n"
        pinged = prepared.testbed("exec", "h0", "--", "ping", "-c", "1", "h1", env=environment)
        assert pinged.returncode == 0, pinged.stdout + pinged.stderr
        assert "1 received" in pinged.stdout
        assert prepared.testbed("exec", "h1", "--", "sh", "-c", "exit 7", env=environment).returncode == 7
        assert "htb" in "".join(prepared.snapshot(0)["qdiscs"])
    finally:
        os.killpg(held.pid, signal.SIGTERM)  # as Ctrl-C, which who calls us may ignore
        rest = held.communicate(timeout=60)[0]
        prepared.write_inventory()
    assert rest.endswith("the lab is gone\n")
    for host in range(2):
        found = prepared.differs(host, before[host], "__pycache__")
        assert found == [], "what Python keeps is in our directory"


def as_asked(hosts: dict[str, dict[str, Any]]) -> None:
    """As a user whom sudo asks for a password, which workers do not know."""
    for one in hosts.values():
        one.update(ansible_user=ASKED, ansible_become=True, ansible_become_password=PASSWORD)


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The controller's user has an agent of SSH's, which it forwards everywhere."""
    address = f"{tmp_path}/keys"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", address], stdout=subprocess.DEVNULL)
    until(Path(address).exists)
    monkeypatch.setenv("SSH_AUTH_SOCK", address)
    yield
    agent.kill()
    agent.wait()


@pytest.mark.usefixtures("keys")
def test_a_worker_that_means_harm_is_an_ordinary_user_of_its_machine(prepared: Rehearsal, tmp_path: Path) -> None:
    before = [prepared.snapshot(host) for host in range(2)]
    inventory = prepared.write_inventory(as_asked, outside=True)
    forwarding = "-o ForwardAgent=yes -o ProxyCommand"
    inventory.write_text(inventory.read_text().replace("-o ProxyCommand", forwarding))
    try:
        with BaremetalLab(inventory) as lab:
            nothing_came_of(attack(lab, tmp_path, MACHINES))
    finally:
        prepared.write_inventory()
    # What the user may write, and what sudo and mount keep, whoever calls them.
    theirs = f"rm -rf /home/{ASKED}/hostile /run/sudo /run/mount /var/lib/sudo/lectured/*"
    for host in range(3):
        subprocess.run(prepared.on(host, ["sh", "-c", theirs]), check=True)
    for host in range(2):
        assert prepared.differs(host, before[host], "__pycache__") == []
