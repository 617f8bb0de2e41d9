"""Hosts that cannot be used: what a user reads, word for word, in golden/NAME.txt (GOLDEN=write writes them anew)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.rehearsal.rehearsal import NETWORK, USER, Rehearsal

from ...conftest import Called
from .conftest import make, skip_without_hosts

pytestmark = pytest.mark.lab

GOLDEN = Path(__file__).parent / "golden"
SUDO = Path("/usr/bin/sudo")
"""Hosts have the machine's programs."""
OLD_PYTHONS = sorted(Path.home().glob(".pyenv/versions/3.10.*/bin/python3.10"))
SPEC = """\
name: small
links: {rate: 200 Mbit/s}
workload: {kind: profile, model: lenet5, batch: [2], iterations: 3, compute: none}
arms: [{topology: star(hosts=3), scheme: ring}]
retries: 0
"""
Variables = dict[str, Any]
"""A host's, in the inventory."""

UNUSABLE: dict[str, Variables] = {
    "unreachable": {"ansible_host": f"{NETWORK}.99"},
    "no_ssh_server": {"ansible_port": 2},
    "slow": {"ansible_port": 2222},
    "wrong_key": {"ansible_ssh_private_key_file": "FOLDER/other"},
    "wrong_host_key": {
        "ansible_ssh_common_args": "-o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=yes",
    },
    "no_sudo": {"ansible_user": USER},
    "no_right_to_sudo": {"ansible_user": USER},
    "no_such_python": {"ansible_python_interpreter": "/usr/bin/python9"},
    "old_python": {"ansible_python_interpreter": str(OLD_PYTHONS[0]) if OLD_PYTHONS else ""},
    "full_disk": {"testbed_home": "/mnt/full/testbed"},
    "somebody_elses_home": {"testbed_home": "/mnt/thesis"},
    "no_packages": {"testbed_packages_from": "/opt/nothing"},
}
"""What is wrong with a host that is to be prepared."""


def missing(name: str) -> str:
    """What this machine has not, and a case needs."""
    if name == "old_python" and not OLD_PYTHONS:
        return "Python 3.10"
    return "sudo" if name == "no_right_to_sudo" and not SUDO.exists() else ""


@contextmanager
def surroundings(rehearsal: Rehearsal, host: int, name: str) -> Iterator[None]:
    """What some cases need: a disk that is full, a port that says nothing."""

    def on_host(*words: str) -> None:
        subprocess.run(rehearsal.on(host, words), check=True)

    with ExitStack() as undo:
        if name == "full_disk":
            on_host("sh", "-c", "mkdir -p /mnt/full && mount -t tmpfs -o size=1m tmpfs /mnt/full")
        elif name == "somebody_elses_home":
            on_host("sh", "-c", "mkdir -p /mnt/thesis && touch /mnt/thesis/text")
        elif name == "slow":
            code = "import socket, sys; s = socket.create_server(('', 2222)); print(flush=True); sys.stdin.read()"
            listening = subprocess.Popen(
                rehearsal.on(host, [str(Path(sys.executable).resolve()), "-c", code]),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            undo.callback(listening.communicate)  # it ends with its input
            assert listening.stdout
            assert listening.stdout.readline()
        elif name == "no_sudo" and SUDO.exists():
            on_host("mv", str(SUDO), f"{SUDO}.away")
        elif name == "wrong_key":
            key = str(rehearsal.folder / "other")
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        elif name == "somebody_elses_queue":
            on_host("tc", "qdisc", "add", "dev", "eth1", "root", "handle", "5:", "pfifo")
            undo.callback(on_host, "tc", "qdisc", "del", "dev", "eth1", "root")
        yield


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Rehearsal, dict[str, str]]]:
    """What is said of hosts of each kind, by kind, when all are to be prepared at once, with one that is fine."""
    skip_without_hosts()
    kinds = [name for name in UNUSABLE if not missing(name)]
    folder = tmp_path_factory.mktemp("unusable")
    with Rehearsal(folder, hosts=len(kinds) + 1) as rehearsal, ExitStack() as around:
        nodes = dict(zip(rehearsal.names, kinds, strict=False))
        for host, name in enumerate(kinds):
            around.enter_context(surroundings(rehearsal, host, name))
        inventory = rehearsal.write_inventory(
            lambda hosts: [hosts[node].update(UNUSABLE[name]) for node, name in nodes.items()]
        )
        inventory.write_text(inventory.read_text().replace("FOLDER", str(folder)))
        half_made = kinds.index("no_packages")  # the others are refused before anything is changed
        before = rehearsal.snapshot(half_made)
        done = rehearsal.testbed("hosts", "prepare", "--inventory", str(inventory))
        assert done.returncode == 2, done.stderr
        assert "Remove what was half made: 1 changed" in done.stderr
        assert rehearsal.differs(half_made, before) == []
        kept = rehearsal.on(kinds.index("somebody_elses_home"), ["test", "-e", "/mnt/thesis/text"])
        subprocess.run(kept, check=True)
        yield rehearsal, by_kind(done.stderr, nodes)


def by_kind(said: str, nodes: dict[str, str]) -> dict[str, str]:
    """Of one message about many hosts, what is about each: its problem, and what mends it."""
    problems, _, fixes = said[said.index("error: ") + len("error: ") :].partition("\n  fix: ")
    problem = dict(line.split(": ", 1) for line in problems.splitlines())
    fix = {
        node: text for hosts, text in (line.strip().split(": ", 1) for line in fixes.splitlines())
        for node in hosts.split(", ")
    }  # fmt: skip
    assert problem.keys() == fix.keys() == nodes.keys()
    return {name: f"error: HOST: {problem[node]}\n  fix: {fix[node]}\n" for node, name in nodes.items()}


def check_golden(name: str, said: str, *folders: Path) -> None:
    """``said`` is as in the file, but for where things are on this machine."""
    for folder in folders:
        said = said.replace(str(folder), "FOLDER")
    said = said.replace(str(Path.home()), "HOME")
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("GOLDEN") == "write":
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(said)
    assert said == golden.read_text()
    assert "Traceback" not in said


@pytest.mark.parametrize("name", UNUSABLE)
def test_hosts_that_cannot_be_prepared(refused: tuple[Rehearsal, dict[str, str]], name: str) -> None:
    if missing(name):
        pytest.skip(f"this machine has no {missing(name)}")
    rehearsal, said = refused
    check_golden(name, said[name], rehearsal.folder)


MISTAKES: dict[str, Callable[[dict[str, Variables]], object]] = {
    "no_nics": lambda hosts: hosts["node2"].pop("nics"),
    "one_address": lambda hosts: hosts["node2"].update(ansible_host=f"{NETWORK}.1"),
    "one_training_address": lambda hosts: [one["nics"][0].update(address="10.1.1.1") for one in hosts.values()],
}


@pytest.mark.parametrize("name", MISTAKES)
def test_inventories_that_make_no_sense(rehearsal: Rehearsal, name: str, testbed: Callable[..., Called]) -> None:
    """No host is asked."""
    called = testbed("hosts", "prepare", "--inventory", str(rehearsal.write_inventory(MISTAKES[name])))
    rehearsal.write_inventory()
    check_golden(name, f"{called.err}exit status {called.code}\n", rehearsal.folder)


def wrong_nics(hosts: dict[str, Variables]) -> None:
    hosts["node2"].update(nics=[{"name": "eth9"}])
    hosts["node3"].update(nics=[{"name": "mgmt0"}])


UNFIT: dict[str, Callable[[dict[str, Variables]], object]] = {
    "not_prepared": lambda _: None,
    "wrong_nics": wrong_nics,
    "somebody_elses_queue": lambda _: None,
    "too_few_hosts": lambda hosts: hosts.pop("node2"),
}


@pytest.mark.parametrize("is_prepared", [False, True])
def test_hosts_on_which_nothing_can_run(rehearsal: Rehearsal, is_prepared: bool, tmp_path: Path) -> None:
    """Afterwards they are as before."""
    rehearsal.write_inventory()
    make(rehearsal, prepared=is_prepared)
    before = [rehearsal.snapshot(host) for host in range(3)]
    for name, change in UNFIT.items():
        if is_prepared == (name != "not_prepared"):
            inventory = rehearsal.write_inventory(change)
            with surroundings(rehearsal, 1, name):
                said = run(rehearsal, inventory, tmp_path / name)
            rehearsal.write_inventory()
            check_golden(name, said, rehearsal.folder, tmp_path / name)
    for host in range(3):
        assert rehearsal.differs(host, before[host], ("__pycache__",)) == []


def run(rehearsal: Rehearsal, inventory: Path, folder: Path) -> str:
    """What is said of an experiment, without the lines of progress, and the exit status."""
    folder.mkdir()
    (folder / "spec.yaml").write_text(SPEC)
    words = ["run", str(folder / "spec.yaml"), "--out", str(folder / "run")]
    done = rehearsal.testbed(*words, "--inventory", str(inventory))
    told = ("prepare: ", "run: ", "shape: ", "probe: ")
    lines = [line for line in done.stderr.splitlines() if not line.startswith(told)]
    if done.returncode == 1:  # a trial that failed; the first line is how long it was to take
        lines += done.stdout.split("\n\n")[0].splitlines()[1:]
    return "\n".join([*lines, f"exit status {done.returncode}", ""])
