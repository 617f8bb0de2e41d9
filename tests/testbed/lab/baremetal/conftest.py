"""Real SSH hosts in namespaces of this machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testbed.errors import TestbedError
from testbed.lab.baremetal.rehearsal import Rehearsal, require


@pytest.hookimpl(tryfirst=True)  # before marks are looked at
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs hosts; one process of several runs it, rather than each with hosts of its own to prepare."""
    for item in items:
        if "rehearsal" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.hosts)
            item.add_marker(pytest.mark.xdist_group("rehearsal"))


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """Three hosts with two training NICs each, prepared by nobody."""
    pytest.importorskip("ansible_runner")
    try:
        require()
    except TestbedError as error:
        pytest.skip(str(error))
    with Rehearsal(tmp_path_factory.mktemp("hosts"), hosts=3, nics=2) as hosts:
        yield hosts
