"""Three machines over whose training NICs tunnels lead."""

from __future__ import annotations

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
        machines.widen(MTU)
        machines.write_inventory(outside=True)
        yield machines
