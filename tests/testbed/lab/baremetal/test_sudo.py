"""Hosts where we log in as an ordinary user, who becomes root by sudo; and a network on them that is held."""

from __future__ import annotations

import json
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
from testbed.lab.baremetal.rehearsal import ASKED, PASSWORD, SUDOER, Rehearsal
from testbed.lab.baremetal.snapshot import Snapshot
from tests.patience import until

from ..attack import MACHINES, attack
from ..test_hostile import nothing_came_of
from .conftest import hosts, make, skip_without_hosts

pytestmark = pytest.mark.lab

SPEC = """\
name: small
links: {rate: 200 Mbit/s}
workload: {kind: profile, model: lenet5, batch: 32, iterations: 3, compute: none}
arms: [{topology: star(hosts=2), scheme: gloo}]
timeout: 20 s
retries: 0
"""


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """Two hosts, reached as a user with sudo."""
    skip_without_hosts()
    if shutil.which("sudo") is None:
        pytest.skip("this machine has no sudo")
    with Rehearsal(tmp_path_factory.mktemp("sudo"), hosts=2) as two:
        two.write_inventory(as_sudoer)
        yield two


def as_sudoer(hosts: dict[str, dict[str, Any]]) -> None:
    """One of them with a password for sudo, which does not ask for it."""
    for one in hosts.values():
        one.update(ansible_user=SUDOER, ansible_become=True)
    next(iter(hosts.values()))["ansible_become_password"] = "nobody asks for it"


@pytest.fixture(scope="module")
def unprepared(rehearsal: Rehearsal) -> list[Snapshot]:
    """What the hosts were like before the first test."""
    return [rehearsal.snapshot(host) for host in range(2)]


def call(rehearsal: Rehearsal, *words: str) -> str:
    """What a command of ours on these hosts says."""
    done = rehearsal.testbed(*words, "--inventory", str(rehearsal.inventory), "--json")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.usefixtures("unprepared")
def test_an_ordinary_user_with_sudo_is_enough(rehearsal: Rehearsal, tmp_path: Path) -> None:
    assert hosts(rehearsal, "prepare") > 0
    assert hosts(rehearsal, "prepare") == 0
    (tmp_path / "spec.yaml").write_text(SPEC)
    records = json.loads(call(rehearsal, "run", str(tmp_path / "spec.yaml"), "--out", str(tmp_path / "run")))["trials"]
    assert records[0]["status"] == "done", records[0]["error"]
    assert records[0]["sums"]["wrong_elements"] == 0
    assert records[0]["sums"]["checked_elements"] > 0


def test_a_network_on_machines_is_held_and_undone(rehearsal: Rehearsal, tmp_path: Path) -> None:
    make(rehearsal, prepared=True)
    before = [rehearsal.snapshot(host) for host in range(2)]
    (tmp_path / "spec.yaml").write_text(SPEC)
    words = ["up", str(tmp_path / "spec.yaml"), "--inventory", str(rehearsal.inventory)]
    environment = {**os.environ, "TESTBED_UP": tmp_path.name}
    command = rehearsal.command([sys.executable, "-m", "testbed", *words])
    held = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True)
    assert held.stdout
    try:
        assert held.stdout.readline() == "star(hosts=2) is up: hosts h0 to h1, 1 switch\n"
        pinged = rehearsal.testbed("exec", "h0", "--", "ping", "-c", "1", "h1", env=environment)
        assert pinged.returncode == 0, pinged.stdout + pinged.stderr
        assert "1 received" in pinged.stdout
        assert rehearsal.testbed("exec", "h1", "--", "sh", "-c", "exit 7", env=environment).returncode == 7
        assert "htb" in "".join(rehearsal.snapshot(0)["qdiscs"])
    finally:
        os.killpg(held.pid, signal.SIGTERM)  # as Ctrl-C, which who calls us may ignore
        rest = held.communicate(timeout=60)[0]
    assert rest.endswith("the lab is gone\n")
    for host in range(2):
        found = rehearsal.differs(host, before[host], "__pycache__")
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
def test_a_worker_that_means_harm_is_an_ordinary_user_of_its_machine(rehearsal: Rehearsal, tmp_path: Path) -> None:
    make(rehearsal, prepared=True)
    before = [rehearsal.snapshot(host) for host in range(2)]
    inventory = rehearsal.write_inventory(as_asked, outside=True)
    forwarding = "-o ForwardAgent=yes -o ProxyCommand"
    inventory.write_text(inventory.read_text().replace("-o ProxyCommand", forwarding))
    with BaremetalLab(inventory) as lab:
        nothing_came_of(attack(lab, tmp_path, MACHINES))
    rehearsal.write_inventory(as_sudoer)
    # What the user may write, and what sudo and mount keep, whoever calls them.
    theirs = f"rm -rf /home/{ASKED}/hostile /run/sudo /run/mount /var/lib/sudo/lectured/*"
    for host in range(2):
        subprocess.run(rehearsal.on(host, ["sh", "-c", theirs]), check=True)
        assert rehearsal.differs(host, before[host], "__pycache__") == []


def test_an_ordinary_user_resets_hosts_to_what_they_were(rehearsal: Rehearsal, unprepared: list[Snapshot]) -> None:
    make(rehearsal, prepared=True)
    assert hosts(rehearsal, "reset") == 2
    for host in range(2):
        assert rehearsal.differs(host, unprepared[host]) == []
