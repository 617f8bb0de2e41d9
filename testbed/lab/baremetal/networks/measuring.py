"""Measurements of the hosts' network: round trips and bursts between agents, how fast NICs are before they are shaped,
and what the network between racks carries.

Links that no host's NIC is at are neither shaped nor counted here: they are what they are. So hosts under one switch
all send to hosts under another, and what arrives of all of them together is held against what the topology's links
would let through. Where these would let the NICs send as they like, one that is slower is found, and one that is faster
is no matter; where they are to hold NICs back, both are found.

Racks send in a ring, and in each round a rack only sends or only receives, so that no acknowledgement waits behind a
burst. Where links between switches are slower than NICs, bursts between racks do not show what those NICs can do; then
hosts send within their rack, too.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

from testbed.base.units import rate_text
from testbed.lab.baremetal.controller import answers
from testbed.lab.baremetal.controller.fleet import Fleet
from testbed.lab.baremetal.networks.network import Placement, between_switches, under
from testbed.lab.baremetal.on_hosts.host_requests import HostRequests
from testbed.lab.measurements import Burst, Calibration, Passed, Stream, Traffic, Way
from testbed.topologies import addressing
from testbed.topologies.model import Topology
from testbed.topologies.sharing import fair_bps, loads
from testbed.workloads.bursts.arrivals import LEAST_BITS
from testbed.workloads.job import Probe
from testbed.workloads.sync.cost import goodput

Flow = tuple[int, int]
"""Source host and destination host."""
Crowd = list[tuple[int, int, tuple[Flow, ...]]]
"""Flows that run at once, by the two between which their sum counts."""
PINGS = 11
"""Round trips a way, of which the median counts."""
PORT = 9_000
PATIENCE_S = 10.0
PROBE_S = 0.5
PACE = 1.1
"""Ratio of a paced burst's rate to the expected one, as :data:`testbed.trial.job_files.PACE`: more than a way
should carry, so that one that carries more is seen."""
CROSSING_S = 1.0
"""Seconds of bursts between racks, as :data:`testbed.trial.job_files.LONGEST_PROBE_S`."""
LEAST = 0.9
"""Share of its rate that a NIC should carry, all NICs at once."""
MOST = 1.1
"""Share of its rate beyond which a NIC must be another than the inventory says."""
UNKNOWN_BPS = 10_000_000_000
"""Rate that a burst is prepared for where nobody says how fast a NIC is (bit/s)."""
RESULT = "measured.jsonl"


@dataclass(frozen=True)
class Crossing:
    """Bursts that are judged by their sum: between two switches, or, of one host, within a rack."""

    src: int
    dst: int
    flows: tuple[Flow, ...]
    rates_bps: tuple[float, ...]
    """Rate that each flow should have, headers included, while all flows of its round run (bit/s)."""


def rounds(topology: Topology) -> list[list[Crossing]]:
    """List the bursts to measure, round after round; empty where every link has a host at one end."""
    between = between_switches(topology)
    if not between:
        return []
    members = under(topology)
    crowds: list[Crowd] = [
        [(src, dst, tuple(zip(members[src], members[dst], strict=False))) for src, dst in one]
        for one in _alternating(list(members))
    ]
    nic_bps = max(topology.links[topology.ports[host][0] // 2].rate_bps for host in topology.hosts)
    if min(topology.links[link].rate_bps for link in between) < nic_bps:
        inside: Crowd = [(a, b, ((a, b),)) for hosts in members.values() if len(hosts) > 1 for a, b in _ring(hosts)]
        crowds += [inside] if inside else []
    return [_expected(topology, one) for one in crowds]


def crossing_pairs(topology: Topology) -> set[Flow]:
    """Pairs of hosts that send to each other."""
    return {flow for one in rounds(topology) for crossing in one for flow in crossing.flows}


def _ring(members: Sequence[int]) -> list[Flow]:
    return list(zip(members, [*members[1:], members[0]], strict=True))


def _alternating(switches: Sequence[int]) -> list[list[Flow]]:
    """Divide a ring of switches into rounds in each of which nobody both sends and receives: two, or three if the
    number of switches is odd."""
    if len(switches) < 2:
        return []
    edges = _ring(switches)
    last = [edges.pop()] if len(edges) % 2 else []
    return [one for one in (edges[::2], edges[1::2], last) if one]


def _expected(topology: Topology, crowd: Crowd) -> list[Crossing]:
    flows = [flow for _, _, some in crowd for flow in some]
    rates = iter(fair_bps([loads(topology, flow) for flow in flows], topology))
    return [Crossing(src, dst, some, tuple(next(rates) for _ in some)) for src, dst, some in crowd]


def calibrate(fleet: Fleet, pings: Sequence[Way], bursts: Sequence[Burst], physical: Mapping[str, str]) -> Calibration:
    """Measure round trips and bursts, as :meth:`testbed.lab.base.Lab.calibrate`; ``physical`` maps each address of the
    plan to the one that is used."""
    trips = round_trips(fleet, [_used(way, physical) for way in pings])
    found = [
        rates(fleet, [Burst(_used(one.way, physical), one.rate_bps, one.duration_s, one.datagram_bytes)])[0]
        for one in bursts
    ]
    return Calibration(PINGS, tuple(trips), tuple(found))


def _used(way: Way, physical: Mapping[str, str]) -> Way:
    return Way(way.src, way.dst, physical[way.local], physical[way.remote])


def traffic(fleet: Fleet, topology: Topology, ports: range) -> list[Traffic]:
    """Read traffic, as :meth:`testbed.lab.base.Lab.traffic`: a host tells of its own NICs and of the ends of
    connections there."""
    found = []
    asked = fleet.ask(HostRequests.traffic(ports[0], ports[-1]))
    for connection, said, links in zip(fleet.connections, asked, topology.ports, strict=False):
        with connection.named():
            answers.as_many(said["nics"], len(links), "counts of NICs")
        passed = [
            Passed(link ^ inwards, *counted)
            for link, nic in zip(links, said["nics"], strict=True)
            for inwards, counted in enumerate(nic)
        ]
        streams = [
            Stream(fleet.logical.get(local, local), fleet.logical.get(remote, remote), *rest)
            for local, remote, *rest in said["streams"]
        ]
        found.append(Traffic(tuple(passed), tuple(streams), said["at_s"], said["took_s"]))
    return found


def round_trips(fleet: Fleet, ways: Sequence[Way]) -> list[tuple[float, ...]]:
    """Measure round trips (s) of each way, one way after the other; those that did not come back are missing."""
    echoed: list[list[str]] = [[] for _ in fleet.connections]
    for way in ways:
        echoed[way.dst].append(way.remote)
    ports = fleet.ask_each([HostRequests.echo(addresses) for addresses in echoed])
    for connection, addresses, opened in zip(fleet.connections, echoed, ports, strict=True):
        with connection.named():
            answers.as_many(opened, len(addresses), "ports")
    found = []
    for way in ways:
        port = ports[way.dst][echoed[way.dst].index(way.remote)]
        found.append(tuple(fleet.connections[way.src].ask(HostRequests.ping(way.local, way.remote, port, PINGS))))
    fleet.ask(HostRequests.echo([]))
    return found


def rates(fleet: Fleet, bursts: Sequence[Burst], *, paced: bool = False, at: Callable[[int], int] = int) -> list[float]:
    """Send all bursts at once; the payload that arrives of each (bit/s). ``paced`` sends each a little faster than it
    should arrive, and not as fast as its NIC allows. ``at`` maps a node to the connection of the machine that it is on,
    where machines have several."""
    receives: list[list[tuple[int, dict[str, Any]]]] = [[] for _ in fleet.connections]
    sends: list[list[dict[str, Any]]] = [[] for _ in fleet.connections]
    for number, burst in enumerate(bursts):
        way, pace_bps = burst.way, round(PACE * burst.rate_bps) if paced else None
        comes = asdict(_end(burst, way.remote, way.local, PORT + number, None))
        goes = asdict(_end(burst, way.local, way.remote, PORT + number, pace_bps))
        receives[at(way.dst)].append((number, {**comes, "node": way.dst}))
        sends[at(way.src)].append({**goes, "node": way.src})
    with tempfile.TemporaryDirectory(prefix="tb-") as folder:
        paths = [Path(folder) / f"{node}.jsonl" for node in range(len(receives))]
        for node, path in enumerate(paths):
            fleet.follow(node, RESULT, path)
        expected = {node: [probe for _, probe in one] for node, one in enumerate(receives) if one}
        listening = fleet.ask_some({node: HostRequests.receive(one, RESULT) for node, one in expected.items()})
        sent = {node: one for node, one in enumerate(sends) if one}
        sending = fleet.ask_some({node: HostRequests.send(one) for node, one in sent.items()})
        patience_s = PATIENCE_S + 2 * max((one.duration_s for one in bursts), default=0.0)
        for pids in (sending, listening):
            for node, pid in pids.items():
                fleet.wait_ended(node, pid, patience_s)
        found = [0.0] * len(bursts)
        for connection, path, own in zip(fleet.connections, paths, receives, strict=True):
            lines = path.read_text(errors="replace").splitlines() if path.exists() else []
            with connection.named():
                for place, rate_bps in answers.bursts(lines, len(own)):
                    found[own[place][0]] = rate_bps
    return found


def _end(burst: Burst, local: str, remote: str, port: int, pace_bps: int | None) -> Probe:
    return Probe(local, remote, remote, port, port, burst.rate_bps, burst.duration_s, pace_bps, burst.datagram_bytes)


def between_racks(fleet: Fleet, plan: Placement) -> list[dict[str, Any]]:
    """Measure links between switches, as :class:`testbed.evidence.calibration.Calibrated` has them.
    Several bursts from rack to rack are one line, by their sum."""
    topology, found = plan.topology, []
    addresses = addressing.plan(topology)
    for crossings in rounds(topology):
        flows = [flow for one in crossings for flow in one.flows]
        asked = [rate_bps for one in crossings for rate_bps in one.rates_bps]
        duration_s = max(CROSSING_S, LEAST_BITS / min(asked))
        ways = [_used(Way(*flow, *addresses.flow(*flow)), plan.physical) for flow in flows]
        bursts = [Burst(way, round(rate), duration_s) for way, rate in zip(ways, asked, strict=True)]
        came = iter(rates(fleet, bursts, paced=True))
        for one in crossings:
            name, address = _ends(plan, addresses, one)
            sums = {"rate_bps": sum(next(came) for _ in one.flows), "asked_bps": round(sum(one.rates_bps))}
            found.append({"name": name, "port_address": address, **sums})
    return found


def _ends(plan: Placement, addresses: addressing.Addresses, one: Crossing) -> tuple[str, str]:
    """Name the two ends of a crossing, and the address if it is one host's."""
    topology = plan.topology
    if one.dst < topology.host_count:
        return topology.nodes[one.dst].name, addresses.flow(one.src, one.dst)[1]
    members = under(topology)
    ends = [
        f"rack {plan.hosts[members[switch][0]].rack} ({topology.nodes[switch].name})"
        if plan.hosts[members[switch][0]].rack is not None
        else topology.nodes[switch].name
        for switch in (one.src, one.dst)
    ]
    return " to ".join(ends), ""


def physical(fleet: Fleet, plan: Placement) -> list[dict[str, Any]]:
    """Measure, all at once and before anything is shaped, how fast each NIC is that some other sends to: ``host``,
    ``nic``, ``rate_bps`` (of payload), and what the inventory and the topology want of it."""
    ways = ways_in(plan)
    wanted = [_wants(plan, way) for way in ways]
    asked = [
        Burst(_used(way, plan.physical), one["inventory_bps"] or UNKNOWN_BPS, PROBE_S)
        for way, one in zip(ways, wanted, strict=True)
    ]
    return [{**one, "rate_bps": round(rate)} for one, rate in zip(wanted, rates(fleet, asked), strict=True)]


def ways_in(plan: Placement) -> list[Way]:
    """Choose a way into each NIC, and out of each, as far as there are pairs that talk."""
    topology = plan.topology
    addresses = addressing.plan(topology)
    owners = {address: place for place, (address, _) in addresses.host.items()}
    pairs = [
        pair for pair in permutations(topology.hosts, 2) if all(len(path.links) == 2 for path in topology.paths(*pair))
    ]
    pairs.sort(key=lambda pair: ((pair[1] - pair[0]) % 1024, pair[0]))  # neighbours first, so that everybody finds one
    found, senders, receivers = [], set[str](), set[str]()
    for src, dst in pairs:
        local, remote = addresses.flow(src, dst)
        reached = not plan.wanted[src].nics[owners[local][1]].address or remote in dict(
            plan.wanted[src].nics[owners[local][1]].peers
        )
        if reached and local not in senders and remote not in receivers:
            senders.add(local)
            receivers.add(remote)
            found.append(Way(src, dst, local, remote))
    return found


def _wants(plan: Placement, way: Way) -> dict[str, Any]:
    topology = plan.topology
    port = next(
        port
        for (node, port), (address, _) in addressing.plan(topology).host.items()
        if node == way.dst and address == way.remote
    )
    nic = plan.hosts[way.dst].nics[port]
    asked_bps = topology.links[topology.ports[way.dst][port] // 2].rate_bps
    return {"host": plan.hosts[way.dst].name, "nic": nic.name, "inventory_bps": nic.rate_bps, "asked_bps": asked_bps}


def remarks(physical: Sequence[Mapping[str, Any]]) -> list[str]:
    """Sentences about NICs that are not what the inventory says, or too slow for what is asked."""
    found = []
    for one in physical:
        carried_bps = one["rate_bps"] / goodput(1500)
        carries = f"{one['host']}'s {one['nic']} carries {rate_text(round(carried_bps, -6))}"
        said_bps, asked_bps = one["inventory_bps"], one["asked_bps"]
        if said_bps and not LEAST <= carried_bps / said_bps <= MOST:
            found.append(f"{carries}, the inventory says {rate_text(said_bps)}")
        if carried_bps < LEAST * asked_bps:
            found.append(f"{carries}, the topology wants {rate_text(asked_bps)}")
    return found
