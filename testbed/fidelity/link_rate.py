"""Rate of every link before training, against what was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from testbed.base.check import About, Check
from testbed.fidelity.seen import Seen
from testbed.perturb.targets import label
from testbed.topologies import addressing
from testbed.topologies.model import Topology
from testbed.workloads.sync.cost import goodput

ABOUT = About(
    "link rate",
    sees="every NIC, all at once, before training, by a burst of payload; each link between switches, a few at a time",
    misses="the faster one of the two links that a burst crosses; a link that changes later",
    machine_when="if a link was measured too slow",
)
"""Facts about this check. A link that is too fast is not as asked. One that is too slow may be the machine's fault: if
it is the network's, what the kernel has, or the bytes, or the delays are not as asked either."""

LEAST = 0.95
"""Share of the goodput at the shaped rate that the burst reaches at every NIC. With 18 x 200 Mbit/s on two cores every
NIC reached 99.7 % or more, with 18 x 1 Gbit/s the slowest reached 72 to 79 %."""
FASTER = 0.03
"""Most by which a link is faster than its rate allows."""


def checks(seen: Seen) -> Iterator[Check]:
    names = names_of(seen.rates, seen.trial.topology, seen.trial.processes)
    yield judge(seen.rates, seen.expected_rates, goodput(seen.trial.spec.links.mtu), names)


def names_of(probes: Sequence[Mapping[str, Any]], topology: Topology, processes: Mapping[str, int]) -> list[str]:
    """Name for a reader what each burst went through: the NIC of a host (``h0:eth0``), a link between switches
    (``s0:eth2 -> s1``), or, where an address is not one of ours, the process and the address.

    Args:
        processes: the nodes of processes, by the names that bursts have where no switch received them.
    """
    given = addressing.plan(topology)
    ports = {(node, address): port for (node, port), (address, _) in (given.host | given.port).items()}
    found = []
    for probe in probes:
        name, address = probe["name"], probe["port_address"]
        node = processes.get(name, topology.index.get(name, -1))
        port = ports.get((node, address))
        found.append(f"{name} {address}".strip() if port is None else _port_text(topology, node, port))
    return found


def _port_text(topology: Topology, node: int, port: int) -> str:
    if node < topology.host_count:
        return f"{topology.nodes[node].name}:eth{port}"
    (arriving,) = (link ^ 1 for link in topology.ports[node] if topology.port_at_tail(link) == port)
    return label(topology, arriving)


def shares(probes: Sequence[Mapping[str, Any]], goodput: float) -> list[float]:
    """Rate of each burst over the goodput at the rate asked for."""
    return [probe["rate_bps"] / (probe["asked_bps"] * goodput) for probe in probes]


def judge(probes: Sequence[Mapping[str, Any]], expected: int, goodput: float, names: Sequence[str]) -> Check:
    """Judge the slowest burst's rate over the goodput at the rate asked for; ``expected`` ports must report. ``names``
    says where each burst went.

    Bursts into NICs run all at once, those over links between switches a few at a time. A port that is faster than its
    rate allows is not shaped as asked, and decides if there is one. A way between racks, which has no port's address,
    explains the NICs beyond it: if it is off, it is what is named.
    """
    found = list(zip(shares(probes, goodput), names, strict=True))
    if not found or len(found) < expected:
        detail = f"{len(found)} of {expected} ports were measured"
        return Check(ABOUT.name, None, LEAST, "of goodput", False, detail)
    ways = [one for one, probe in zip(found, probes, strict=True) if not probe["port_address"]]
    off = [(share, name) for share, name in ways if not LEAST <= share <= 1 + FASTER]
    (least, slowest), (most, fastest) = min(off or found), max(off or found)
    which, share, name = ("fastest", most, fastest) if most > 1 + FASTER else ("slowest", least, slowest)
    ok = LEAST <= share <= 1 + FASTER
    detail = f"{which} of {len(found)} bursts is {name}, at {share:.1%} of what its rate allows"
    return Check(ABOUT.name, share, LEAST, "of goodput", ok, detail, machine=share < 1)
