"""The contract of all labs (tests/testbed/lab/test_contract.py), as far as it is about machines that have names, NICs
and addresses of their own."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.base.errors import LabError
from testbed.lab.baremetal.lab import BaremetalLab
from testbed.lab.base import LinkChange
from testbed.lab.programs import Launch, Program
from tests.rehearsal.rehearsal import Rehearsal

from ..ended import ended
from ..test_contract import (
    PATIENCE_S,
    test_a_blocked_link_carries_nothing_and_opens_again,
    test_a_command_is_run_and_waited_for,
    test_a_node_has_several_processes_each_with_its_own_end_and_log,
    test_a_program_beside_the_workers_takes_signals,
    test_a_stopped_worker_is_named_and_goes_on,
    test_down_ends_what_runs,
    test_it_goes_down_and_up_again_as_something_else,
    test_it_is_seen_from_outside_that_a_process_stands_still,
    test_it_tells_what_each_link_carries_or_that_it_cannot,
    test_links_carry_their_rate_and_count_it,
    test_one_process_of_a_node_is_stopped_or_killed_and_the_others_go_on,
    test_processor_time_of_a_worker_and_of_what_it_starts_is_told,
    test_programs_run_on_their_nodes_and_their_ends_are_told,
    test_rates_and_queues_change_while_it_is_up,
    test_what_is_built_is_read_back,
    test_what_runs_ends_with_its_owner_even_if_that_is_killed,
    test_workers_can_be_killed_and_the_network_stays,
    up,
)
from .conftest import await_unshaped, make

__all__ = [
    "test_a_blocked_link_carries_nothing_and_opens_again",
    "test_a_command_is_run_and_waited_for",
    "test_a_node_has_several_processes_each_with_its_own_end_and_log",
    "test_a_program_beside_the_workers_takes_signals",
    "test_a_stopped_worker_is_named_and_goes_on",
    "test_down_ends_what_runs",
    "test_it_goes_down_and_up_again_as_something_else",
    "test_it_is_seen_from_outside_that_a_process_stands_still",
    "test_it_tells_what_each_link_carries_or_that_it_cannot",
    "test_links_carry_their_rate_and_count_it",
    "test_one_process_of_a_node_is_stopped_or_killed_and_the_others_go_on",
    "test_processor_time_of_a_worker_and_of_what_it_starts_is_told",
    "test_programs_run_on_their_nodes_and_their_ends_are_told",
    "test_rates_and_queues_change_while_it_is_up",
    "test_what_is_built_is_read_back",
    "test_what_runs_ends_with_its_owner_even_if_that_is_killed",
    "test_workers_can_be_killed_and_the_network_stays",
]

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def opened(rehearsal: Rehearsal) -> Iterator[BaremetalLab]:
    """A lab on the three hosts; opening one takes seconds, so tests share it."""
    make(rehearsal, prepared=True)
    inventory = rehearsal.write_inventory(outside=True)
    with BaremetalLab(inventory) as lab:
        yield lab
    rehearsal.write_inventory()


@pytest.fixture
def lab(opened: BaremetalLab) -> Iterator[BaremetalLab]:
    yield opened
    opened.down()


@pytest.fixture
def real(lab: BaremetalLab) -> BaremetalLab:
    return lab


@pytest.fixture
def expression() -> str:
    """Three hosts on a switch are what there is."""
    return "star(hosts=3)"


@pytest.fixture
def opening(opened: BaremetalLab, rehearsal: Rehearsal) -> Iterator[str]:
    """A lab of another owner, on hosts that are there already, and that are free again before the next test."""
    yield f"BaremetalLab(Path({str(opened.inventory.path)!r}))"
    await_unshaped(rehearsal)


@pytest.fixture
def tmp_path(tmp_path: Path, rehearsal: Rehearsal) -> Path:
    """A directory that hosts have, too, as commands' directories must be."""
    for host in range(3):
        subprocess.run(rehearsal.on(host, ["mkdir", "-p", str(tmp_path)]), check=True)
    return tmp_path


def test_somebody_elses_change_is_found(lab: BaremetalLab) -> None:
    up(lab)
    assert lab.execute(0, ["ip", "link", "set", "eth1", "mtu", "1400"], PATIENCE_S).status == 0
    with pytest.raises(LabError, match="node1: eth1: the MTU is 1400, asked was 1500"):
        lab.verify()


def test_pyroute2_reads_what_hosts_have(lab: BaremetalLab) -> None:
    topology = up(lab)
    lab.adjust([LinkChange(topology.ports[0][0], rate_bps=20_000_000)])
    assert lab.spot_check().differs == ()
    lab.verify()
    assert lab.describe()["second_reading"]["directed_links"] == 6
    lab._changes.clear()  # of which the agents know
    with pytest.raises(LabError, match=r"out: rate \(bit/s\): .* the kernel has 20000000, as pyroute2 reads it"):
        lab.verify()


def test_each_host_reads_what_it_is_told_on_its_own_clock(lab: BaremetalLab, tmp_path: Path) -> None:
    """Hosts' clocks are hours apart."""
    lab.share(tmp_path)
    up(lab)
    for _ in range(2):
        lab.tell(tmp_path / "told.jsonl", {"time": time.monotonic(), "rate": 7})
    script = "cat /var/lib/testbed/work/*/[0-9]*/work/told.jsonl; python3 -c 'import time; print(time.monotonic())'"
    for node in range(3):
        *told, now_s = map(json.loads, lab.execute(node, ["sh", "-c", script], PATIENCE_S).stdout.splitlines())
        assert [one["rate"] for one in told] == [7, 7]
        assert told[0]["time"] < told[1]["time"] < now_s < told[0]["time"] + PATIENCE_S


def test_what_a_program_changed_on_its_host_can_be_read(lab: BaremetalLab, tmp_path: Path) -> None:
    """A host's own folder is no copy: what was there before is not listed."""
    lab.share(tmp_path / "work")
    up(lab)
    assert lab.execute(0, ["sh", "-c", f"mkdir -p {tmp_path} && echo > {tmp_path}/before"], PATIENCE_S).status == 0
    time.sleep(0.1)  # longer than a file's time may be behind the clock
    script = "printf new > a; ln -s /etc/passwd link; echo ${TESTBED_SHARED-none}"
    program = Program(("sh", "-c", script), {"TESTBED_SHARED": str(tmp_path)}, str(tmp_path))
    log = tmp_path / "h0.log"
    lab.launch([Launch("h0", 0, "", str(log), program)])
    assert [one.status for one in ended(lab, 1)] == [0]
    assert log.read_text() == "testbed: TESTBED_SHARED is not set: machines share no folder\nnone\n"
    listing = lab.written(0, tmp_path)
    assert ("a", 3) in listing.files
    assert not {"before", "link"} & {name for name, _ in listing.files}
    assert lab.read_written(0, tmp_path, "a", 1) == b"ew"
    with pytest.raises(LabError, match="node1: link: is a symbolic link"):
        lab.read_written(0, tmp_path, "link", 0)


def test_a_host_that_is_lost_is_named_and_can_be_had_again(lab: BaremetalLab) -> None:
    up(lab)
    pid = lab.describe()["hosts"]["h1"]["pid"]
    with pytest.raises(LabError, match="node2: the connection to its agent is lost"):
        lab.execute(1, ["sh", "-c", f"kill -9 {pid}"], PATIENCE_S)
    with pytest.raises(LabError, match="node2"):
        lab.exits()
    up(lab)
    lab.verify()
