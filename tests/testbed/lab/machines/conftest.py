"""Three machines over whose training NICs tunnels lead."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.rehearsal.rehearsal import Rehearsal

from ..baremetal.conftest import make, skip_without_hosts

MTU, MACHINES = 1600, 3


@pytest.fixture(scope="session")
def tunnelled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """The machines, prepared, with an inventory for a controller beside them."""
    skip_without_hosts()
    with Rehearsal(tmp_path_factory.mktemp("machines"), hosts=MACHINES) as machines:
        make(machines, prepared=True)
        widen(machines, MTU)
        machines.write_inventory(outside=True)
        yield machines


def widen(machines: Rehearsal, mtu: int) -> None:
    """Give the machines addresses on their training NICs, and room for what tunnels add."""
    for number in range(len(machines.names)):
        for words in (
            ["ip", "address", "replace", f"10.44.0.{number + 1}/24", "dev", "eth1"],
            ["ip", "link", "set", "eth1", "mtu", str(mtu)],
        ):
            subprocess.run(machines.on(number, words), check=True)
        machines.run(["ip", "link", "set", f"t{number}-0", "mtu", str(mtu)], check=True)
