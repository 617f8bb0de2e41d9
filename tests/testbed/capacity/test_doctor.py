"""What the doctor says of this machine, and of machines that lack something."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.base.errors import MissingToolError, PrivilegeError
from testbed.capacity import doctor
from testbed.lab.netns import checks as netns
from testbed.machine.cgroups import Limits, Quota, limits
from tests.patience import until


@pytest.mark.lab
def test_this_machine_can_run_experiments() -> None:
    found = {check.name: check for check in doctor.checks()}
    assert [name for name, check in found.items() if check.needed and not check.ok] == []
    assert set(found) >= {
        "CPU cores",
        "memory",
        "namespaces",
        "enclosures",
        "htb",
        "delays",
        "congestion control",
        "PyTorch",
        "ping",
        "mpirun",
        "mpi4py",
    }
    assert all(check.ok or check.fix for check in found.values())
    assert found["CPU cores"].detail.startswith(f"{limits().cores:g} to use")


@pytest.mark.lab
def test_congestion_controls_are_those_a_socket_can_have() -> None:
    check = next(check for check in doctor.checks() if check.name == "congestion control")
    assert check.ok
    for name in check.detail.removeprefix("workers may choose ").split(", "):
        with socket.socket() as probe:
            probe.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())


@pytest.mark.lab
def test_delays_are_measured() -> None:
    def off_ms() -> float:
        detail = next(check.detail for check in doctor.checks() if check.name == "delays")
        off = re.search(r"a round trip of 4 ms takes ([+-][0-9.]+) ms more", detail)
        assert off, detail
        return float(off[1])

    until(lambda: -0.2 < off_ms() < 4)


@pytest.mark.lab
def test_what_delays_need_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacks(*_: object) -> None:
        raise MissingToolError("a link with delay 1 ms needs netem, ...", fix="sudo apt-get install iptables")

    monkeypatch.setattr(netns.NetnsLab, "require", lacks)
    check = next(check for check in doctor.checks() if check.name == "delays")
    assert (check.ok, check.needed, check.fix) == (False, False, "sudo apt-get install iptables")
    assert check.detail.startswith("delay, jitter, loss and reordering of links: a link with delay 1 ms needs netem")


def test_a_missing_program_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "TOOLS", {"no-such-iperf3": ("iperf3", "throughput")})
    (check,) = doctor._tools()
    assert check == doctor.Prerequisite(
        "no-such-iperf3", False, "throughput: not found", "sudo apt-get install iperf3", needed=False
    )


def test_limits_of_control_groups_are_told() -> None:
    half = Limits(2, (Quota(Path("/g"), 1.5), Quota(Path("/g/ci"), 0.5)), 2**32, 2**30, 100)
    cores, memory = doctor._cores(half), doctor._memory(half, 2**34)
    assert (cores.ok, cores.detail) == (False, "0.5 to use: 2 CPUs, and a quota of CPU time (/g/ci)")
    assert (memory.ok, memory.detail) == (False, "1.0 GiB available under a limit of 4.0 GiB, 2 GiB wanted")
    (processes,) = doctor._processes(half)
    assert (processes.ok, processes.detail) == (False, "at most 100 with their threads, 256 wanted")
    assert processes.fix == "raise the limit (--pids-limit of a container, TasksMax= of systemd)"
    free = Limits(2, (Quota(Path("/g"), 4.0),))
    assert (doctor._cores(free).detail, doctor._memory(free, 2**34).ok, list(doctor._processes(free))) == (
        "2 to use",
        True,
        [],
    )
    unknown = doctor._cores(Limits(2, is_known=False))
    assert unknown.ok
    assert unknown.detail.endswith("is not known, because control groups are not mounted")


def test_refused_namespaces_are_told_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise PrivilegeError("the kernel does not let us make namespaces", fix="run as root")

    monkeypatch.setattr(netns, "NetnsLab", refuse)
    (check,) = netns.checks()
    assert (check.ok, check.needed, check.fix) == (False, True, "run as root")


def test_missing_congestion_control_is_told() -> None:
    check = netns._congestion_control(["bbr", "cubic"])
    fix = 'sudo sysctl -w net.ipv4.tcp_allowed_congestion_control="bbr cubic reno"'
    assert (check.ok, check.detail, check.fix) == (False, "workers may choose bbr, cubic", fix)
    assert netns._congestion_control(["reno"]).ok


def test_small_receive_buffers_are_told() -> None:
    (check,) = doctor._receive_buffers("212992")
    detail = "208 KiB for bursts over links that lose packets, 4096 KiB wanted"
    assert (check.ok, check.detail, check.fix) == (False, detail, "sudo sysctl -w net.core.rmem_max=4194304")
    (check,) = doctor._receive_buffers("4194304")
    assert (check.ok, check.fix, check.needed) == (True, None, False)
    assert list(doctor._receive_buffers(None)) == []


@pytest.mark.lab
def test_a_machine_without_etc_hosts_is_told_how_to_make_it() -> None:
    hide_etc = f"mount -t tmpfs none /etc && exec {sys.executable} -m testbed doctor"
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", hide_etc],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "let us make the lab: [Errno 2] mount /etc/hosts" in done.stdout
    assert "fix: make the file that is missing, as root: touch /etc/hosts" in done.stdout
    assert done.stdout.endswith("no experiment can run here: namespaces\n")
    assert done.returncode == 2
