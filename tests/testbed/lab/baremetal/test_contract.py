"""The contract of all labs (tests/testbed/lab/test_contract.py), as far as it is about machines that have names, NICs
and addresses of their own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.errors import LabError
from testbed.lab.baremetal.hosts import play_on_all
from testbed.lab.baremetal.lab import BaremetalLab
from testbed.lab.baremetal.rehearsal import Rehearsal
from testbed.lab.base import Burst, Launch, Way
from topologies.addressing import plan
from workloads.sync.cost import goodput

from ..test_contract import (
    PATIENCE_S,
    RATE_BPS,
    shell,
    test_a_blocked_link_carries_nothing_and_opens_again,
    test_a_command_is_run_and_waited_for,
    test_a_program_beside_the_workers_takes_signals,
    test_a_stopped_worker_is_named_and_goes_on,
    test_programs_run_on_their_nodes_and_their_ends_are_told,
    test_rates_and_queues_change_while_it_is_up,
    test_what_is_built_is_read_back,
    test_workers_can_be_killed_and_the_network_stays,
    until_written,
    up,
)

__all__ = [
    "test_a_blocked_link_carries_nothing_and_opens_again",
    "test_a_command_is_run_and_waited_for",
    "test_a_program_beside_the_workers_takes_signals",
    "test_a_stopped_worker_is_named_and_goes_on",
    "test_programs_run_on_their_nodes_and_their_ends_are_told",
    "test_rates_and_queues_change_while_it_is_up",
    "test_what_is_built_is_read_back",
    "test_workers_can_be_killed_and_the_network_stays",
]

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def opened(rehearsal: Rehearsal) -> Iterator[BaremetalLab]:
    """A lab on the three hosts; opening one takes seconds, so tests share it."""
    inventory = rehearsal.write_inventory(outside=True)
    prepared = play_on_all("prepare", inventory, {}, print)
    prepared.outcome.require(prepared.hosts)
    with BaremetalLab(inventory) as lab:
        yield lab


@pytest.fixture
def lab(opened: BaremetalLab) -> Iterator[BaremetalLab]:
    yield opened
    opened.down()


@pytest.fixture
def real(lab: BaremetalLab) -> BaremetalLab:
    return lab


@pytest.fixture
def tmp_path(tmp_path: Path, rehearsal: Rehearsal) -> Path:
    """A directory that hosts have, too, as commands' directories must be."""
    for host in range(3):
        subprocess.run(rehearsal.on(host, ["mkdir", "-p", str(tmp_path)]), check=True)
    return tmp_path


def test_down_ends_what_runs(lab: BaremetalLab, rehearsal: Rehearsal, tmp_path: Path) -> None:
    up(lab)
    lab.launch([Launch(0, "", str(tmp_path / "log"), shell("echo ready; sleep 77", tmp_path))])
    until_written(tmp_path / "log")
    lab.down()
    listed = subprocess.run(rehearsal.on(0, ["ps", "-e", "-o", "args="]), capture_output=True, text=True, check=True)
    assert "sleep 77" not in listed.stdout
    assert lab.describe() == {}


def test_somebody_elses_change_is_found(lab: BaremetalLab) -> None:
    up(lab)
    assert lab.execute(0, ["ip", "link", "set", "eth1", "mtu", "1400"], PATIENCE_S).status == 0
    with pytest.raises(LabError, match="node1: eth1: the MTU is 1400, asked was 1500"):
        lab.verify()


def test_it_goes_down_and_up_again_as_something_else(lab: BaremetalLab) -> None:
    up(lab)
    lab.down()
    with pytest.raises(LabError, match="no network is up"):
        lab.counters()
    up(lab, "star(hosts=2)")
    lab.verify()


def test_links_carry_their_rate_and_count_it(lab: BaremetalLab) -> None:
    topology = up(lab)
    way = Way(0, 2, *plan(topology).flow(0, 2))
    before = {one.directed_link: one.bytes for one in lab.counters()}
    found = lab.calibrate([way], [Burst(way, RATE_BPS, 0.5)])
    assert 0.9 < found.rates_bps[0] / (RATE_BPS * goodput(1500)) < 1.03
    assert len(found.round_trips_s[0]) == found.pings
    sent = {one.directed_link: one.bytes - before[one.directed_link] for one in lab.counters()}
    for link in topology.paths(0, 2)[0].links:
        assert sent[link] > 0.4 * RATE_BPS / 8


def test_a_host_that_is_lost_is_named(lab: BaremetalLab) -> None:
    up(lab)
    pid = lab.describe()["hosts"]["h1"]["pid"]
    with pytest.raises(LabError, match="node2: the connection to its agent is lost"):
        lab.execute(1, ["sh", "-c", f"kill -9 {pid}"], PATIENCE_S)
    with pytest.raises(LabError, match="node2"):
        lab.exits()
