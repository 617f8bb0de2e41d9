"""The contract of all labs (tests/testbed/lab/test_contract.py), with the nodes of each network on three machines."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from itertools import pairwise, permutations
from pathlib import Path

import pytest

from testbed.base.errors import LabError, SpecError
from testbed.lab.base import LinkChange, LinkSettings
from testbed.lab.machines.lab import MachinesLab
from testbed.lab.place import Opening
from testbed.lab.programs import Program
from testbed.topologies.addressing import plan
from testbed.topologies.build import build
from tests.patience import until
from tests.rehearsal.rehearsal import Rehearsal

from ..test_contract import (
    test_a_blocked_link_carries_nothing_and_opens_again,
    test_a_command_is_run_and_waited_for,
    test_a_node_has_several_processes_each_with_its_own_end_and_log,
    test_a_program_beside_the_workers_takes_signals,
    test_down_ends_what_runs,
    test_it_goes_down_and_up_again_as_something_else,
    test_it_is_seen_from_outside_that_a_process_stands_still,
    test_it_tells_what_each_link_carries_or_that_it_cannot,
    test_it_watches_queues_or_says_that_it_cannot,
    test_links_carry_their_rate_and_count_it,
    test_one_process_of_a_node_is_stopped_or_killed_and_the_others_go_on,
    test_processor_time_of_a_worker_and_of_what_it_starts_is_told,
    test_rates_and_queues_change_while_it_is_up,
    test_what_is_built_is_read_back,
    test_workers_can_be_killed_and_the_network_stays,
    up,
)
from ..test_delays import (
    test_a_link_between_hosts_that_forward_can_be_impaired,
    test_each_link_can_be_impaired_while_it_is_in_use,
)
from ..test_patch import (
    hops,
    moved,
    test_a_dark_port_loses_what_is_sent_into_it_and_no_other_port_hears_it,
    test_a_move_that_cannot_be_changes_nothing,
    test_a_network_goes_down_while_circuits_are_dark,
    test_after_a_move_addresses_are_the_same_and_ways_are_new,
    test_look_ahead_and_flip,
)
from ..test_patch import up as panels_up
from ..test_queues import FRAME_BYTES, PACKETS, flood
from .conftest import MTU

__all__ = [
    "test_a_blocked_link_carries_nothing_and_opens_again",
    "test_a_command_is_run_and_waited_for",
    "test_a_dark_port_loses_what_is_sent_into_it_and_no_other_port_hears_it",
    "test_a_link_between_hosts_that_forward_can_be_impaired",
    "test_a_move_that_cannot_be_changes_nothing",
    "test_a_network_goes_down_while_circuits_are_dark",
    "test_a_node_has_several_processes_each_with_its_own_end_and_log",
    "test_a_program_beside_the_workers_takes_signals",
    "test_after_a_move_addresses_are_the_same_and_ways_are_new",
    "test_down_ends_what_runs",
    "test_each_link_can_be_impaired_while_it_is_in_use",
    "test_it_goes_down_and_up_again_as_something_else",
    "test_it_is_seen_from_outside_that_a_process_stands_still",
    "test_it_tells_what_each_link_carries_or_that_it_cannot",
    "test_it_watches_queues_or_says_that_it_cannot",
    "test_links_carry_their_rate_and_count_it",
    "test_look_ahead_and_flip",
    "test_one_process_of_a_node_is_stopped_or_killed_and_the_others_go_on",
    "test_processor_time_of_a_worker_and_of_what_it_starts_is_told",
    "test_rates_and_queues_change_while_it_is_up",
    "test_what_is_built_is_read_back",
    "test_workers_can_be_killed_and_the_network_stays",
]

pytestmark = [pytest.mark.lab, pytest.mark.rehearse]


@pytest.fixture(scope="module")
def opened(tunnelled: Rehearsal) -> Iterator[MachinesLab]:
    """A lab on the three machines; opening one takes seconds, so tests share it."""
    with MachinesLab(Opening(inventory=tunnelled.inventory)) as lab:
        yield lab


@pytest.fixture
def lab(opened: MachinesLab, tmp_path: Path) -> Iterator[MachinesLab]:
    opened.share(tmp_path)
    yield opened
    opened.down()


@pytest.fixture
def real(lab: MachinesLab) -> MachinesLab:
    return lab


@pytest.fixture(params=["star(hosts=3)", "bcube(n=2,k=2)", "spine_leaf(racks=2,hosts_per_rack=2,spines=2)"])
def expression(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_what_waits_on_any_machine_is_told_on_our_clock(lab: MachinesLab) -> None:
    """Clocks of machines are an hour apart. The tails of both links are hosts, which are on two machines."""
    topology = build("star(hosts=3)", rate_bps=100_000)
    lab.up(topology, LinkSettings(), permutations(topology.hosts, 2))
    began_s = time.monotonic()
    assert lab.watch_queues()
    for host in (0, 1):
        flood(lab, host, "h2")
    found = lab.queues()
    most = {link: max(one.most_bytes for one in found.windows if one.directed_link == link) for link in (0, 2)}
    assert all(10 * FRAME_BYTES < one <= PACKETS * FRAME_BYTES for one in most.values())
    assert all(began_s - 0.1 < one.start_s < time.monotonic() for one in found.windows)
    assert (found.readings > 1, found.problem) == (True, None)


def test_circuits_that_stay_are_not_disturbed_and_those_that_move_are_dark(lab: MachinesLab, tmp_path: Path) -> None:
    """As in the lab netns. Programs ping: a machine runs one command at a time."""
    topology = panels_up(lab, "servers=6,degree=2,rings=[1]")
    target = moved(topology, circuits=(("0-1", "2-3", "4-5"), ("0-3", "1-4", "2-5")))
    addresses = plan(topology)
    logs = {name: tmp_path / name for name in ("staying", "going", "coming")}
    ends = zip(logs.values(), ((1, 0), (5, 1), (3, 1)), strict=True)
    words = ("ping", "-D", "-n", "-c", "300", "-i", "0.01", "-W", "1")
    begun = [lab.start(0, Program((*words, addresses.of(*end)), {}, str(tmp_path)), str(path)) for path, end in ends]
    until(lambda: all(path.exists() and "ttl=" in path.read_text() for path in logs.values()))
    done = lab.patch(target, 0.4)
    assert 0.4 <= done.lit_s - done.dark_s < 2.0
    assert [one.wait(30.0) for one in begun] == [0, 0, 0]
    texts = {name: path.read_text() for name, path in logs.items()}
    heard_s = {
        name: [float(line[1:].split("]")[0]) for line in text.splitlines() if line.startswith("[")]
        for name, text in texts.items()
    }
    assert len(heard_s["staying"]) == 300
    silences_s = {name: max(later - earlier for earlier, later in pairwise(times)) for name, times in heard_s.items()}
    assert min(silences_s["going"], silences_s["coming"]) > 0.39
    assert hops(lab, 0, addresses.of(3, 1)) == 1


def test_a_link_that_was_raised_counts_with_the_highest_rate_that_it_had(lab: MachinesLab) -> None:
    rate_bps = 100_000_000
    topology = build("star(hosts=3)", rate_bps=rate_bps)
    lab.up(topology, LinkSettings(), permutations(topology.hosts, 2))
    found = lab._net.cut
    link = found.crossing(topology)[0]
    before = {one["machine"]: one["most_bps"] for one in lab.describe()["underlay"]}
    lab.watch_queues()
    for changed_bps in (3 * rate_bps, rate_bps):
        lab.adjust([LinkChange(2 * link, rate_bps=changed_bps)])
    after = {one["machine"]: one["most_bps"] for one in lab.describe()["underlay"]}
    ends = {lab.names[found.machine[node]] for node in (topology.tail(2 * link), topology.head(2 * link))}
    assert {name for name in after if after[name] > before[name]} == ends
    more = 2 * rate_bps * (1 + 50 / LinkSettings().mtu)
    assert all(after[name] - before[name] == pytest.approx(more, rel=0.001) for name in ends)
    lab.watch_queues()
    assert {one["machine"]: one["most_bps"] for one in lab.describe()["underlay"]} == before


def test_a_command_of_the_users_own_runs_on_a_node(lab: MachinesLab, tmp_path: Path) -> None:
    up(lab)
    with (tmp_path / "out").open("w+") as out, Path(os.devnull).open() as null:
        script = 'hostname; ping -c 1 -W 5 "$0"; exit 7'
        command = lab.attach(1, ["sh", "-c", script, "h2"], (null.fileno(), out.fileno(), out.fileno()))
        status = command.wait()
        out.seek(0)
        said = out.read()
    assert (status, said.split()[0]) == (7, "h1"), said
    assert "1 received" in said


def test_a_machine_that_is_lost_is_named_and_can_be_had_again(lab: MachinesLab) -> None:
    up(lab)
    pid = lab.describe()["hosts"]["node2"]["pid"]
    machine = lab._fleet.connections[1] if lab._fleet else None
    assert machine is not None
    subprocess.run([*lab._machines.ssh(machine.host), f"kill -9 {pid}"], check=True)
    until(lambda: machine.lost is not None)
    with pytest.raises(LabError, match=r"node2: the connection to its agent is lost"):
        lab.exits()
    up(lab)
    lab.verify()


def test_nothing_is_left_on_machines_when_a_lab_ends(tunnelled: Rehearsal) -> None:
    before = [tunnelled.snapshot(number) for number in range(3)]
    with MachinesLab(Opening(inventory=tunnelled.inventory)) as lab:
        up(lab)
    assert [tunnelled.differs(number, was) for number, was in enumerate(before)] == [[], [], []]


def test_an_underlay_that_is_too_narrow_is_refused_with_both_numbers(tunnelled: Rehearsal) -> None:
    tunnelled.widen(1500)
    try:
        with (
            MachinesLab(Opening(inventory=tunnelled.inventory)) as lab,
            pytest.raises(SpecError, match=r"node1: its NIC has an MTU of 1500; links of MTU 1500 .* need 1550"),
        ):
            up(lab)
    finally:
        tunnelled.widen(MTU)


def test_a_nic_without_an_address_is_refused(tunnelled: Rehearsal) -> None:
    inventory = tunnelled.write_inventory(
        lambda hosts: hosts["node2"]["nics"][0].update(address="10.44.0.9"), outside=True
    )
    topology = build("star(hosts=3)", rate_bps=10**8)
    try:
        with (
            MachinesLab(Opening(inventory=inventory)) as lab,
            pytest.raises(LabError, match=r"node2: eth1 has not the address 10\.44\.0\.9"),
        ):
            lab.up(topology, LinkSettings(), permutations(topology.hosts, 2))
    finally:
        tunnelled.write_inventory(outside=True)
