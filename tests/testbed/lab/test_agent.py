"""Programs in the lab that start others on its hosts, and programs in place of workers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import pytest

from testbed.base.errors import PrivilegeError
from testbed.lab.base import LinkSettings
from testbed.lab.netns import NetnsLab
from testbed.lab.programs import Exit, Launch, Program
from testbed.topologies.build import build

from .ended import ended

pytestmark = pytest.mark.lab


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[NetnsLab]:
    topology = build("star(hosts=3)", rate_bps=10**8)
    with NetnsLab(every_address=True) as lab:
        lab.share(tmp_path)
        lab.up(topology, LinkSettings(congestion_control="reno"), permutations(topology.hosts, 2))
        yield lab


def called(lab: NetnsLab, folder: Path, *words: str) -> tuple[int, str]:
    """How a call of a program on h0 ends, and what is printed."""
    log = folder / "called.log"
    status = lab.start(0, Program((*lab.agent(), *words), {}, "/"), str(log)).wait(20)
    return status, log.read_text()


def test_a_command_runs_on_another_host_under_that_hosts_name(lab: NetnsLab, tmp_path: Path) -> None:
    """Words are joined and given to a shell, as ssh does; mpirun counts on it."""
    assert called(lab, tmp_path, "h2", "uname", "-n;", "echo", "$((6 * 7))") == (0, "h2\n42\n")


def test_it_is_in_that_hosts_network(lab: NetnsLab, tmp_path: Path) -> None:
    addresses = "cat /proc/net/fib_trie | grep -c 10.0.0.3"
    _, there = called(lab, tmp_path, "h2", addresses)
    here = lab.execute(2, ["sh", "-c", addresses], 20)
    assert there == here.stdout
    assert int(there) > 0


def test_an_unknown_host_is_told(lab: NetnsLab, tmp_path: Path) -> None:
    assert called(lab, tmp_path, "h7", "true") == (1, "there is no host 'h7' in this lab\n")


def test_the_congestion_control_of_every_node_is_set_and_read_back(lab: NetnsLab) -> None:
    done = lab.execute(1, ["cat", "/proc/sys/net/ipv4/tcp_congestion_control"], 20)
    assert done.stdout == "reno\n"
    assert lab.describe()["sysctls"]["ipv4/tcp_congestion_control"] == {"reno": 4}


def test_a_congestion_control_that_workers_may_not_have_is_refused_before_they_start(lab: NetnsLab) -> None:
    settings = (Path("/proc/sys/net/ipv4", f"tcp_{one}_congestion_control") for one in ("available", "allowed"))
    available, allowed = (setting.read_text().split() for setting in settings)
    refused = next((name for name in available if name not in allowed), None)
    if refused is None:
        pytest.skip("this machine allows all that it has")
    lab.down()
    asked = build("star(hosts=2)", rate_bps=10**8), LinkSettings(congestion_control=refused)
    with pytest.raises(PrivilegeError, match=f"'{refused}'"):
        lab.require(*asked)
    with pytest.raises(PrivilegeError, match=f"'{refused}'") as error:
        lab.up(*asked, [])
    assert f'="{" ".join(allowed)} {refused}"' in str(error.value)


def launched(lab: NetnsLab, launches: list[Launch]) -> list[Exit]:
    """How they end."""
    lab.launch(launches)
    return ended(lab, len(launches))


def test_a_program_runs_in_place_of_a_worker_and_its_times_are_known(lab: NetnsLab, tmp_path: Path) -> None:
    program = Program(("sh", "-c", "echo $WORD; pwd; uname -n; sleep 0.3; exit 5"), {"WORD": "one two"}, str(tmp_path))
    begin_s = time.monotonic()
    (exit,) = launched(lab, [Launch("h1", 1, "", str(tmp_path / "log"), program)])
    assert (exit.node, exit.status) == (1, 5)
    assert begin_s <= exit.started_s <= exit.ended_s - 0.3 <= time.monotonic() - 0.3
    assert (tmp_path / "log").read_text() == f"one two\n{tmp_path}\nh1\n"


def test_a_program_that_is_not_there_says_so_in_its_log(lab: NetnsLab, tmp_path: Path) -> None:
    (exit,) = launched(
        lab, [Launch("h0", 0, "", str(tmp_path / "log"), Program(("no-such-thing",), {}, str(tmp_path)))]
    )
    assert exit.status == 127
    problem = f"cannot start no-such-thing in {tmp_path}: No such file or directory"
    assert (tmp_path / "log").read_text() == f"h0: {problem}\n"
