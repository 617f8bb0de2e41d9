"""The cut of a network, which says which machine each node is on; and the share of each machine.

Problem: links between machines share the machines' NICs, so what crosses should be little, and each machine should have
about as many hosts as the others, for hosts take the processor time. A switch costs little.

Chosen: a switch and the hosts whose first switch it is are one unit. Units with hosts are dealt to machines in their
order, which is that of racks and pods. Then Kernighan-Lin [1]_ swaps units of one size between each pair of machines as
long as less crosses. Its weights are the rates between two units, directly or through one switch without hosts. At last
each switch without hosts goes to where most of its rate goes. Where units are too few or too uneven to give every
machine hosts, as in a star, each host is a unit of its own.

Rejected: Kernighan-Lin over all nodes, which balances switches against hosts, so that all spines may come to be on one
machine and all racks on another; and a solver, for what is better by a few percent is not worth its minutes.

A share is the whole blueprint, with the nodes that are on one machine and the tunnels of links to others. All numbers
of a network are in its blueprint, so machines agree on them without a word: addresses, MAC addresses, interfaces, and
the tunnels' numbers.

.. [1] Kernighan, B. W.; Lin, S. (1970). An efficient heuristic procedure for partitioning graphs. *Bell System
   Technical Journal* 49, 291-307.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, combinations

from testbed.base.errors import SpecError
from testbed.base.nearest import nearest
from testbed.lab.base import LARGE_PACKET_BYTES, Impairment
from testbed.lab.netns.kernel_interface.rtnetlink import Tunnel
from testbed.lab.netns.network.blueprint import Blueprint, StaticRoute
from testbed.topologies.model import Topology

_RANGE = re.compile(r"(?P<of>.*?)(?P<first>\d+)\.\.(?P=of)(?P<last>\d+)")
_Unit = tuple[int, ...]
"""Nodes that stay together, in order."""
_Weights = Mapping[tuple[int, int], int]
"""Rate (bit/s) between each pair of units, by their numbers, the smaller first."""
Orders = dict[int, tuple[dict[int, Impairment], dict[int, tuple[StaticRoute, ...]]]]
"""Arguments of :meth:`testbed.lab.netns.lab.NetnsLab.impair_with_detours`, by machine."""
OUTER_BYTES = 50
"""Bytes that a tunnel adds to each packet: Ethernet header of the packet inside, VXLAN, UDP and IPv4 (RFC 7348)."""
MOST_NUMBER = 2**24 - 1


@dataclass(frozen=True)
class Cut:
    """Machine of each node, by the node's index; machines are numbered in their order in the inventory."""

    machine: tuple[int, ...]

    def nodes(self, machine: int) -> list[int]:
        """Nodes on a machine, in order."""
        return [node for node, its in enumerate(self.machine) if its == machine]

    def crosses(self, topology: Topology, link: int) -> bool:
        """Whether the two ends of a link are on two machines."""
        ends = topology.links[link]
        return self.machine[ends.a] != self.machine[ends.b]

    def crossing(self, topology: Topology) -> list[int]:
        """Links between machines, in order."""
        return [link for link in range(len(topology.links)) if self.crosses(topology, link)]

    def crossing_bps(self, topology: Topology, machine: int, changed_bps: Mapping[int, int] | None = None) -> int:
        """Sum of the rates of links between a machine and the others, in the direction with more (bit/s).

        Args:
            changed_bps: rates of directed links that are not the topology's.
        """
        sums_bps = {True: 0, False: 0}
        for directed in (2 * link + way for link in self.crossing(topology) for way in (0, 1)):
            tail, head = self.machine[topology.tail(directed)], self.machine[topology.head(directed)]
            if machine in (tail, head):
                rate_bps = (changed_bps or {}).get(directed, topology.links[directed // 2].rate_bps)
                sums_bps[machine == tail] += rate_bps
        return max(sums_bps.values())


def cut(topology: Topology, machines: Sequence[str], place: Mapping[str, str] | None = None) -> Cut:
    """Cut a network for some machines, which have these names.

    Args:
        place: machines of nodes that the user has chosen: the name of a machine, by the name of a node or of a run of
            nodes (``h0..h3``). Hosts without a place of their own go with their first switch.

    Raises:
        SpecError: there is no such node or machine, or a node has two places.
    """
    chosen = placed(topology, machines, place or {})
    homes = _first_switches(topology)
    chosen |= {host: chosen[home] for host, home in homes.items() if home in chosen and host not in chosen}
    free = [node for node in range(len(topology.nodes)) if node not in chosen]
    found = dict(chosen)
    for units in (_units(free, homes), [(node,) for node in free]):
        hosted = [unit for unit in units if unit[0] < topology.host_count]
        found = {**chosen, **_dealt(topology, hosted, len(machines), chosen)}
        if len({its for node, its in found.items() if node < topology.host_count}) == len(machines):
            break
    return Cut(_completed(topology, found, len(machines)))


def placed(topology: Topology, machines: Sequence[str], place: Mapping[str, str]) -> dict[int, int]:
    """Machine, by its number, of each node that the user has placed. Raises SpecError as :func:`cut` does."""
    found: dict[int, int] = {}
    for names, machine in place.items():
        if machine not in machines:
            raise SpecError(f"{names} is placed on {machine!r}, which is no machine", fix=nearest(machine, machines))
        for node in _named(topology, names):
            number = machines.index(machine)
            if found.setdefault(node, number) != number:
                two = f"{machines[found[node]]} and on {machine}"
                raise SpecError(f"{topology.nodes[node].name} is placed on {two}", fix="name it once")
    return found


def _named(topology: Topology, names: str) -> Iterable[int]:
    """Nodes that a key of ``place`` stands for. Raises SpecError: there is none of a name."""
    run = _RANGE.fullmatch(names) if names not in topology.index else None
    numbers = range(int(run["first"]), int(run["last"]) + 1) if run else ()
    if run and not numbers:
        raise SpecError(f"{names} is no run of nodes: its last comes before its first", fix="write h0..h3")
    for name in [f"{run['of']}{number}" for number in numbers] if run else [names]:
        if name not in topology.index:
            raise SpecError(f"{topology.expression} has no node {name!r}", fix=nearest(name, list(topology.index)))
        yield topology.index[name]


def _first_switches(topology: Topology) -> dict[int, int]:
    """First switch of each host, by its ports' order; hosts that only have links to hosts and panels have none."""
    found = {}
    for host in topology.hosts:
        met = (topology.head(directed) for directed in topology.ports[host])
        switch = next((node for node in met if topology.nodes[node].kind == "switch"), None)
        if switch is not None:
            found[host] = switch
    return found


def _units(free: Sequence[int], homes: Mapping[int, int]) -> list[_Unit]:
    """Group nodes that have no place yet, in the order of their first nodes."""
    groups, left = defaultdict[int, list[int]](list), set(free)
    for node in free:  # hosts come first, so that a unit's first node is a host if any of them is
        home = homes.get(node, node)
        groups[home if home in left else node].append(node)
    return sorted(map(tuple, groups.values()))


def _dealt(topology: Topology, units: Sequence[_Unit], machines: int, chosen: Mapping[int, int]) -> dict[int, int]:
    """Deal units to machines, evenly by their hosts, and swap them while less crosses; the machine of each node."""
    sizes = [sum(node < topology.host_count for node in unit) for unit in units]
    taken = Counter(its for node, its in chosen.items() if node < topology.host_count)
    rooms = [max(0.0, topology.host_count / machines - taken[machine]) for machine in range(machines)]
    bounds, ends = list(accumulate(rooms)), list(accumulate(sizes))
    stretch = bounds[-1] / ends[-1] if ends else 0.0
    middles = [(end - size / 2) * stretch for end, size in zip(ends, sizes, strict=True)]
    machine = [min(machines - 1, bisect_right(bounds, middle)) for middle in middles]
    _swap(machine, sizes, _weights(topology, units), machines)
    return {node: its for unit, its in zip(units, machine, strict=True) for node in unit}


def _weights(topology: Topology, units: Sequence[_Unit]) -> _Weights:
    unit_of = {node: number for number, unit in enumerate(units) for node in unit}
    found: Counter[tuple[int, int]] = Counter()
    through: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for link in topology.links:
        a, b = unit_of.get(link.a), unit_of.get(link.b)
        if a is not None and b is not None and a != b:
            found[min(a, b), max(a, b)] += link.rate_bps
        elif a is not None and b is None:
            through[link.b][a] += link.rate_bps
        elif b is not None and a is None:
            through[link.a][b] += link.rate_bps
    for rates in through.values():
        for a, b in combinations(sorted(rates), 2):
            found[a, b] += min(rates[a], rates[b])
    return found


def _swap(machine: list[int], sizes: Sequence[int], weights: _Weights, machines: int) -> None:
    """Swap units of one size between each pair of machines, until no pair has less that crosses by it."""
    count = len(machine)
    if len(weights) == count * (count - 1) // 2 and len(set(weights.values())) == 1:
        return  # as in a star, all cuts into parts of these sizes are alike
    import networkx as nx  # here, for it takes a tenth of a second

    graph = nx.Graph()
    graph.add_nodes_from(range(count))
    graph.add_weighted_edges_from((a, b, rate_bps) for (a, b), rate_bps in weights.items())

    def crossing_bps(of: Sequence[int]) -> int:
        return sum(rate_bps for (a, b), rate_bps in weights.items() if of[a] != of[b])

    least_bps, before_bps = crossing_bps(machine), None
    while least_bps != before_bps:
        before_bps = least_bps
        for a, b in combinations(range(machines), 2):
            for size in sorted(set(sizes)):
                sides = [[u for u, its in enumerate(machine) if its == m and sizes[u] == size] for m in (a, b)]
                if not all(sides):
                    continue
                halves = nx.community.kernighan_lin_bisection(graph.subgraph([*sides[0], *sides[1]]), sides)
                tried = list(machine)
                same = len(halves[0]) == len(sides[0])  # networkx says nothing of the order of its answer
                for its, half in zip((a, b) if same else (b, a), halves, strict=True):
                    for unit in half:
                        tried[unit] = its
                if (bps := crossing_bps(tried)) < least_bps:
                    machine[:], least_bps = tried, bps


def _completed(topology: Topology, found: Mapping[int, int], machines: int) -> tuple[int, ...]:
    """Put each node that is left, a switch or panel without hosts of its own, where most of its rate goes: that with
    the most rate to nodes that have a place comes first. Of machines alike, the one with the fewest nodes is taken."""
    machine = dict(found)
    rates: defaultdict[int, Counter[int]] = defaultdict(Counter)

    def tell(node: int) -> None:
        for directed in topology.ports[node]:
            rates[topology.head(directed)][machine[node]] += topology.links[directed // 2].rate_bps

    for node in found:
        tell(node)
    left = [node for node in range(len(topology.nodes)) if node not in machine]
    count = Counter(machine.values())
    while left:
        node = max(left, key=lambda one: (rates[one].total(), -one))
        machine[node] = max(range(machines), key=lambda its: (rates[node][its], -count[its], -its))
        count[machine[node]] += 1
        left.remove(node)
        tell(node)
    return tuple(machine[node] for node in range(len(topology.nodes)))


@dataclass(frozen=True)
class Underlay:
    """Network between machines: their names, addresses and MTUs there, and the number of the first link's tunnel.

    Numbers keep networks apart that share machines, also one from the next: the kernel takes a network down in its own
    time, and refuses a number until then. ``round_trips_s`` are those between two machines, by their numbers, the
    smaller first.
    """

    names: tuple[str, ...]
    addresses: tuple[str, ...]
    mtus: tuple[int, ...]
    first_number: int = 1
    round_trips_s: Mapping[tuple[int, int], float] = field(default_factory=dict)

    def check(self, mtu: int) -> None:
        """Raises SpecError: packets of this MTU, with what tunnels add, would be cut in two on the way, in silence."""
        for name, has in zip(self.names, self.mtus, strict=True):
            needs = mtu + OUTER_BYTES
            if has < needs:
                raise SpecError(
                    f"{name}: its NIC has an MTU of {has}; links of MTU {mtu} between machines need {needs}",
                    fix=f"raise it, also at switches between machines; or give links an MTU of {has - OUTER_BYTES}",
                )

    def left(self, asked: Impairment, machines: tuple[int, int], label: str) -> Impairment:
        """Take from the delay of a link between two machines, if it has one, what packets need between these. Raises
        SpecError: they need longer than the link may take."""
        a, b = sorted(machines)
        takes_s = self.round_trips_s.get((a, b), 0.0) / 2
        if asked.delay_s and asked.delay_s < takes_s:
            raise SpecError(
                f"link {label}: a delay of {asked.delay_s * 1e3:g} ms; from {self.names[a]} to {self.names[b]} packets "
                f"take {takes_s * 1e3:.3g} ms",
                fix="give it a longer delay, or put both ends on one machine: machines.place",
            )
        return replace(asked, delay_s=asked.delay_s - takes_s) if asked.delay_s else asked


def share(whole: Blueprint, cut: Cut, underlay: Underlay, machine: int) -> Blueprint:
    """Make the share of a machine, by its number in the cut.

    Large packets are no larger than every kernel has them: a machine's NIC may refuse others. A link is impaired
    where the way of impairing works: netem at its tail, the delay line at its head.

    Raises:
        SpecError: a link's delay is shorter than packets take between its machines.
    """
    here, addresses = frozenset(cut.nodes(machine)), underlay.addresses
    tunnels, impairments = {}, {}
    for directed, (tail, _) in enumerate(whole.ends):
        head, _ = whole.ends[directed ^ 1]
        machines = cut.machine[tail], cut.machine[head]
        if tail in here and head not in here:
            number = underlay.first_number + directed // 2
            tunnels[directed] = Tunnel(number, addresses[machine], addresses[machines[1]])
        if directed in whole.impairments and (tail if whole.by_netem else head) in here:
            asked = whole.impairments[directed]
            crosses = machines[0] != machines[1]
            impairments[directed] = underlay.left(asked, machines, whole.label(directed)) if crosses else asked
    size = min(whole.packet_bytes, LARGE_PACKET_BYTES[0])
    return replace(whole, here=here, tunnels=tunnels, impairments=impairments, packet_bytes=size)


def impairing(
    plan: Blueprint,
    cut: Cut,
    underlay: Underlay,
    wanted: Mapping[int, Impairment],
    routes: Mapping[int, tuple[StaticRoute, ...]],
) -> tuple[Orders, Orders]:
    """Plan what machines do so that links are impaired in mid-run.

    Args:
        plan: the blueprint, or the share of any machine.
        routes: those of bridges that are to forward by address, by link (:func:`blueprint.detours`).

    Returns:
        Orders to the machines that have the ends where the way of impairing works; and then to those of tails that
        address packets to a bridge on another machine, which has its routes by then.

    Raises:
        SpecError: a link's delay is shorter than packets take between its machines.
    """
    first: Orders = {}
    then: Orders = {}
    for link, asked in wanted.items():
        tail, head = (cut.machine[plan.ends[directed][0]] for directed in (link, link ^ 1))
        impaired, own = first.setdefault(tail if plan.by_netem else head, ({}, {}))
        impaired[link] = asked if tail == head else underlay.left(asked, (tail, head), plan.label(link))
        if link in routes:
            own[link] = routes[link]
            if tail != head:
                then.setdefault(tail, ({}, {}))[1][link] = routes[link]
    return first, then
