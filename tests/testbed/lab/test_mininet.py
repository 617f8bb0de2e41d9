"""What is Mininet's own in the lab that it builds; what it shares with the others is in the contract's tests."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import pytest

from testbed.base.errors import LabError, MissingToolError, SpecError
from testbed.lab.base import Impairment, LinkSettings
from testbed.lab.mininet import lab as own
from testbed.lab.mininet.lab import MininetLab
from testbed.lab.netns.network.impairing import NETEM
from testbed.topologies.build import build

pytestmark = pytest.mark.lab


@pytest.fixture
def lab() -> Iterator[MininetLab]:
    try:
        lab = MininetLab(every_address=True)
    except MissingToolError as error:
        pytest.skip(str(error))
    with lab:
        yield lab


@pytest.mark.parametrize(
    "expression", ["star(hosts=4)", "bcube(n=2,k=2)", "fat_tree(k=4)", "spine_leaf(racks=2,hosts_per_rack=2,spines=2)"]
)
def test_every_host_reaches_every_host(lab: MininetLab, expression: str) -> None:
    topology = build(expression, rate_bps=10**8)
    lab.up(topology, LinkSettings(), permutations(topology.hosts, 2))
    names = [topology.nodes[host].name for host in topology.hosts]
    script = "for name; do ping -q -c 1 -W 2 $name >/dev/null || echo $name; done"
    unreached = lab.execute(1, ["sh", "-c", script, "sh", *names], 60)
    assert (unreached.status, unreached.stdout) == (0, "")
    assert lab.describe()["lab"] == "mininet"
    assert lab.describe()["nodes"].get("bridge") is None


def test_its_switches_are_linux_bridges_with_its_own_shapers(lab: MininetLab) -> None:
    topology = build("star(hosts=3)", rate_bps=10**8)
    lab.up(topology, LinkSettings(), permutations(topology.hosts, 2))
    ports = lab.execute(3, ["ip", "-o", "link", "show", "master", "s0"], 10).stdout.splitlines()
    assert [line.split(": ")[1].split("@")[0] for line in ports] == ["eth0", "eth1", "eth2"]
    assert "class htb 5:1" in lab.execute(3, ["tc", "class", "show", "dev", "eth0"], 10).stdout


def test_rates_that_it_drops_are_refused_before(lab: MininetLab) -> None:
    topology = build("star(hosts=2)", rate_bps=10**10)
    with pytest.raises(SpecError) as caught:
        lab.require(topology, LinkSettings())
    assert str(caught.value) == (
        "star(hosts=2): a link of 10 Gbit/s; Mininet leaves links of more than 1 Gbit/s without a limit\n"
        "  fix: scale the workload down, or take --backend netns"
    )


def test_a_limit_that_it_dropped_is_found(lab: MininetLab) -> None:
    """The same without having asked before: what counts is what the kernel has."""
    topology = build("star(hosts=2)", rate_bps=10**10)
    with pytest.raises(LabError) as caught:
        lab.up(topology, LinkSettings(), permutations(topology.hosts, 2))
    assert caught.value.problem == (
        "h0:eth0 -> s0:eth0: Mininet was asked for 10000000000 bit/s, the kernel has no limit"
    )


def test_what_it_cannot_do_is_refused(lab: MininetLab) -> None:
    with pytest.raises(SpecError, match="Mininet has no patch panels"):
        lab.require(build("patch_panel(servers=4,degree=2)", rate_bps=10**8), LinkSettings())
    if lab.impairs_by() == NETEM:
        return
    delayed = build("star(hosts=2)", rate_bps=10**8, delay_s=0.001)
    with pytest.raises(MissingToolError, match="by Mininet needs netem, which this kernel does not have"):
        lab.require(delayed, LinkSettings())
    topology = build("star(hosts=2)", rate_bps=10**8)
    lab.up(topology, LinkSettings(), permutations(topology.hosts, 2))
    with pytest.raises(MissingToolError, match="by Mininet needs netem"):
        lab.impair({0: Impairment(0.001)})


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(own, "SYSTEM_PATHS", ())
    monkeypatch.setattr(own.importlib.util, "find_spec", lambda _: True)
    with pytest.raises(MissingToolError) as caught:
        MininetLab()
    assert str(caught.value) == (
        "Mininet needs mnexec, ip, tc, ifconfig, ethtool, not installed here\n"
        "  fix: sudo apt-get install ethtool iproute2 mininet net-tools"
    )
    monkeypatch.setattr(own.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingToolError, match=r"the Python package mininet is not installed\n  fix: .*pip install"):
        MininetLab()
