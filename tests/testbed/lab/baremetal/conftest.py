"""Real SSH hosts in namespaces of this machine."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from testbed.base.errors import TestbedError
from testbed.lab.baremetal.preparing.hosts import bundle
from tests.patience import until
from tests.rehearsal.rehearsal import SUDOER, Rehearsal, require

LOOK_EVERY_S = 0.3
"""At hosts, on each of which a look starts three processes."""


def skip_without_hosts() -> None:
    """Skip what needs rehearsed hosts where this machine cannot have them."""
    pytest.importorskip("ansible_runner")
    try:
        require()
    except TestbedError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def rehearsal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """Three hosts with two training NICs each; whether they are prepared is up to the test before."""
    skip_without_hosts()
    with Rehearsal(tmp_path_factory.mktemp("hosts"), hosts=3, nics=2) as hosts:
        yield hosts


def make(rehearsal: Rehearsal, *, prepared: bool) -> None:
    """Have all hosts prepared with the code that is here, or none; a test that failed to prepare one has some."""
    with tempfile.TemporaryDirectory() as folder:
        digest, _ = bundle(Path(folder))
    words = ["test", "-d", f"/var/lib/testbed/code-{digest}"]
    found = {subprocess.run(rehearsal.on(host, words)).returncode == 0 for host in range(len(rehearsal.names))}
    if found != {prepared}:
        action = "prepare" if prepared else "reset"
        done = rehearsal.testbed("hosts", action, "--inventory", str(rehearsal.inventory))
        assert done.returncode == 0, done.stdout + done.stderr


def as_sudoer(hosts: Sequence[dict[str, Any]]) -> None:
    """Have hosts be reached as an ordinary user with sudo; the first with a password for it, which sudo does not ask
    for."""
    for one in hosts:
        one.update(ansible_user=SUDOER, ansible_become=True)
    hosts[0]["ansible_become_password"] = "nobody asks for it"


def run(rehearsal: Rehearsal, folder: Path, spec: str, *more: str) -> list[dict[str, Any]]:
    """The records of an experiment on the hosts."""
    (folder / "spec.yaml").write_text(spec)
    words = [
        "run",
        str(folder / "spec.yaml"),
        "--inventory",
        str(rehearsal.inventory),
        "--out",
        str(folder / "run"),
        "--json",
    ]
    done = rehearsal.testbed(*words, *more)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found: list[dict[str, Any]] = json.loads(done.stdout)["trials"]
    return found


def shapers(rehearsal: Rehearsal, host: int) -> str:
    return subprocess.run(rehearsal.on(host, ["tc", "qdisc"]), capture_output=True, text=True, check=True).stdout


def await_unshaped(rehearsal: Rehearsal) -> None:
    """Hosts hear nothing of a lab whose owner was killed, and undo its shaping by themselves."""
    hosts = range(len(rehearsal.names))
    until(lambda: not any("htb" in shapers(rehearsal, host) for host in hosts), look_every_s=LOOK_EVERY_S)


@pytest.fixture
def prepared(rehearsal: Rehearsal) -> Rehearsal:
    """The hosts, prepared."""
    make(rehearsal, prepared=True)
    return rehearsal
