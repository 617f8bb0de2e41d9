"""Plan of each host for one topology: pure data from the topology, the inventory, and the hosts' MACs.

The network between the hosts is there already and stays as it is. A link with a host at one end is a NIC, shaped out of
it and into it. Whatever really joins the NICs stands for the switches, which only forward, and for the links between
them: these are neither shaped nor counted, but measured (:mod:`testbed.lab.baremetal.networks.measuring`). Hosts under
one switch of the topology (a ToR) are hosts of one rack, where the inventory knows racks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from testbed.base.errors import SpecError
from testbed.base.listing import counted
from testbed.lab.baremetal.nics.readback import Nic, Wanted
from testbed.lab.baremetal.preparing.inventory import Host, Inventory
from testbed.lab.base import LinkSettings
from testbed.lab.limits import HTB
from testbed.topologies import addressing
from testbed.topologies.model import Topology

Macs = Mapping[str, Mapping[str, str]]
"""MAC address of each NIC, by host and NIC."""


@dataclass(frozen=True)
class Placement:
    """A topology on machines.

    Attributes:
        topology: what is asked for.
        hosts: by node of the topology, the machine.
        wanted: by node, what is to be done to it.
        physical: for each address of the topology's plan, the one that is used in its place.
    """

    topology: Topology
    hosts: tuple[Host, ...]
    wanted: tuple[Wanted, ...]
    physical: Mapping[str, str]

    def place(self, directed_link: int) -> tuple[int, int, bool] | None:
        """Find the node that a directed link belongs to, the position among its NICs, and whether the link leads out;
        None for a link between switches."""
        topology = self.topology
        if directed_link // 2 in between_switches(topology):
            return None
        out = topology.tail(directed_link) < topology.host_count
        own = directed_link if out else directed_link ^ 1
        return topology.tail(own), topology.port_at_tail(own), out

    def label(self, directed_link: int) -> str:
        """Name a link, such as ``leaf0 - spine0``."""
        ends = self.topology.tail(directed_link), self.topology.head(directed_link)
        return " - ".join(self.topology.nodes[end].name for end in ends)


def check(topology: Topology, settings: LinkSettings, inventory: Inventory) -> None:
    """Raises SpecError: these machines cannot stand for this topology."""
    name = topology.expression
    if topology.panels is not None:
        raise SpecError(f"{name} has patch panels, which the lab baremetal has not", fix="take the lab netns for it")
    if topology.is_parallel:
        raise SpecError(
            f"{name}: a server answers over each of its NICs, which the lab baremetal cannot choose",
            fix="leave out routing=every_nic, or take the lab netns for it",
        )
    adding = [topology.nodes[switch].name for switch in topology.switches if topology.nodes[switch].ina]
    if adding:
        raise SpecError(
            f"{name}: {adding[0]} is to add gradients, and the switches of the lab baremetal only forward",
            fix="take the lab netns for it",
        )
    for link in topology.links:
        ends = [topology.nodes[link.a], topology.nodes[link.b]]
        if [one.kind for one in ends].count("host") == 2:
            raise SpecError(
                f"{name}: the link {ends[0].name} - {ends[1].name} joins two hosts, and the lab baremetal has switches "
                "between them",
                fix="take a topology with switches, such as star, bcube or spine_leaf, or the lab netns",
            )
        if link.delay_s:
            raise _undelayed(
                f"a delay of {link.delay_s * 1e3:g} ms",
                "set it to 0 for this lab, also that of a cloud (rack_delay_s=0, row_delay_s=0)",
            )
        HTB.check_rate(link.rate_bps)
    if between_switches(topology):
        several = [topology.nodes[host].name for host in topology.hosts if len(topology.ports[host]) > 1]
        if several:
            raise SpecError(
                f"{name}: {several[0]} has several links, and there are links between switches; the lab baremetal "
                "cannot tell which of its links such traffic takes",
                fix="take a topology in which each host has one link, or the lab netns",
            )
    for what, value in (("jitter", settings.jitter_s), ("loss", settings.loss), ("reorder", settings.reorder)):
        if value:
            raise _undelayed(f"a {what} of {value:g}")
    if settings.mark_at_bytes is not None:
        raise SpecError(
            "links.ecn: the lab baremetal does not mark packets: their queues are in the network that is there",
            fix="leave it out for this lab, or take the lab netns",
        )
    tcp = {"small_queues": settings.small_queue_bytes, "full_packets": settings.full_packet_bytes}
    for key in (key for key, size in tcp.items() if size is not None):
        raise SpecError(
            f"links.{key}: the lab baremetal leaves TCP's queues as each machine has them",
            fix="leave it out for this lab, or take the lab netns",
        )
    _check_hosts(topology, inventory)


def between_switches(topology: Topology) -> frozenset[int]:
    """Links that no host is at."""
    return frozenset(number for number, link in enumerate(topology.links) if min(link.a, link.b) >= topology.host_count)


def _undelayed(what: str, fix: str = "leave it out for this lab") -> SpecError:
    return SpecError(
        f"links with {what}: the lab baremetal has the delays of the network that is there",
        fix=f"{fix}, or take the lab netns",
    )


def _check_hosts(topology: Topology, inventory: Inventory) -> None:
    hosts = inventory.hosts
    if topology.host_count > len(hosts):
        raise SpecError(
            f"{topology.expression} has {counted(topology.host_count, 'host')}, and {inventory.path} {len(hosts)}",
            fix=f"take a topology of at most {counted(len(hosts), 'host')}, or add machines to the inventory",
        )
    hosts = machines(topology, inventory)
    used = [(hosts[node], nic) for node in topology.hosts for nic in hosts[node].nics[: len(topology.ports[node])]]
    for node in topology.hosts:
        need, has = len(topology.ports[node]), len(hosts[node].nics)
        if need > has:
            raise SpecError(
                f"{topology.expression} needs {need} NICs a host, and {inventory.path} gives {hosts[node].name} {has}",
                fix="add the host's other training NICs to its nics",
            )
    given = [(host, nic) for host, nic in used if nic.address is not None]
    if given and len(given) < len(used):
        host, nic = next((host, nic) for host, nic in used if nic.address is None)
        raise SpecError(
            f"{inventory.path}: {given[0][0].name}'s {given[0][1].name} has an address, and {host.name}'s {nic.name} "
            "has none",
            fix="give all training NICs one, or none (then each gets one while a trial runs)",
        )


def machines(topology: Topology, inventory: Inventory) -> tuple[Host, ...]:
    """Choose a machine for each host of the topology: in the inventory's order, rack by rack where switches have links.
    Raises SpecError: the racks cannot be the topology's."""
    if not between_switches(topology):
        return inventory.hosts[: topology.host_count]
    return assigned(topology, inventory)


def plan(
    topology: Topology,
    settings: LinkSettings,
    pairs: Iterable[tuple[int, int]],
    inventory: Inventory,
    macs: Macs,
    owner: str,
    undo_s: float,
) -> Placement:
    """Plan what to do to each host, so that each (source, destination) pair can talk. Raises SpecError: traffic of a
    pair would have to pass a third host."""
    hosts = machines(topology, inventory)
    addresses = addressing.plan(topology)
    physical = {
        address: hosts[node].nics[port].address or address for (node, port), (address, _) in addresses.host.items()
    }
    owners = {address: place for place, (address, _) in addresses.host.items()}
    peers: dict[tuple[int, int], set[str]] = defaultdict(set)
    for src, dst in pairs:
        for path in topology.paths(src, dst):
            between = [topology.head(link) for link in path.links[:-1] if topology.head(link) < topology.host_count]
            if between:
                raise SpecError(
                    f"{topology.expression}: {topology.nodes[between[0]].name} would have to forward from "
                    f"{topology.nodes[src].name} to {topology.nodes[dst].name}, and hosts of the lab baremetal do not",
                    fix="take a scheme in which neighbours talk, or the lab netns",
                )
        local, remote = addresses.flow(src, dst)
        peers[owners[local]].add(remote)

    def mac(node: int, port: int) -> str:
        return macs[hosts[node].name][hosts[node].nics[port].name]

    def nic(node: int, port: int) -> Nic:
        rate_bps = topology.links[topology.ports[node][port] // 2].rate_bps
        name, is_given = hosts[node].nics[port].name, hosts[node].nics[port].address is not None
        address = None if is_given else addresses.host[node, port][0]
        near = () if is_given else tuple((peer, mac(*owners[peer])) for peer in sorted(peers[node, port]))
        return Nic(name, rate_bps, rate_bps, settings.queue_bytes, settings.mtu, address, near)

    wanted = (tuple(nic(node, port) for port in range(len(topology.ports[node]))) for node in topology.hosts)
    return Placement(topology, hosts, tuple(Wanted(owner, nics, undo_s) for nics in wanted), physical)


def translated(value: object, words: Mapping[str, str]) -> object:
    """Copy plain data with every text that is in ``words`` replaced."""
    if isinstance(value, str):
        return words.get(value, value)
    if isinstance(value, list):
        return [translated(one, words) for one in value]
    if isinstance(value, dict):
        return {key: translated(one, words) for key, one in value.items()}
    return value


def under(topology: Topology) -> dict[int, list[int]]:
    """Hosts by the switch that their (first) link leads to, in their order."""
    found: dict[int, list[int]] = defaultdict(list)
    for host in topology.hosts:
        found[topology.head(topology.ports[host][0])].append(host)
    return dict(found)


def assigned(topology: Topology, inventory: Inventory) -> tuple[Host, ...]:
    """Choose a machine for each host of the topology, such that hosts under one switch are of one rack, and those under
    another of another. Each takes the first rack of the inventory's order that leaves large enough ones for the rest.
    Machines without racks are taken as they come.

    Raises:
        SpecError: some machines have a rack and some none, or the racks are too few or too small.
    """
    within = {host.name: host.rack for host in inventory.hosts}
    without = [name for name, rack in within.items() if rack is None]
    if len(without) == len(within):
        return inventory.hosts[: topology.host_count]
    if without:
        has = next(name for name, rack in within.items() if rack is not None)
        raise SpecError(
            f"{inventory.path}: {has} has a rack, and {without[0]} has none",
            fix="give all hosts their rack, or none",
        )
    free: dict[str, list[Host]] = defaultdict(list)
    for host in inventory.hosts:
        free[str(host.rack)].append(host)
    wanted = under(topology)
    needs, has_room = [len(hosts) for hosts in wanted.values()], {rack: len(hosts) for rack, hosts in free.items()}
    found: dict[int, Host] = {}
    for number, hosts in enumerate(wanted.values()):
        rack = next((one for one in free if _fit(needs[number:], one, free)), None)
        if rack is None:
            sizes = ", ".join(f"{rack} has {count}" for rack, count in has_room.items())
            raise SpecError(
                f"{topology.expression} has {_racks(needs)}, and they are to be different racks of "
                f"{inventory.path}, of which {sizes}",
                fix="take a topology whose racks fit, or correct rack in the inventory",
            )
        found |= dict(zip(hosts, free.pop(rack), strict=False))
    return tuple(found[host] for host in topology.hosts)


def _fit(needs: Sequence[int], rack: str, free: dict[str, list[Host]]) -> bool:
    """Whether the first group of hosts can be in that rack, and the other groups in the rest."""
    others = sorted((len(hosts) for one, hosts in free.items() if one != rack), reverse=True)
    rest = sorted(needs[1:], reverse=True)
    enough = len(others) >= len(rest) and all(has >= need for need, has in zip(rest, others, strict=False))
    return len(free[rack]) >= needs[0] and enough


def _racks(needs: Sequence[int]) -> str:
    sizes = sorted(set(needs))
    each = counted(sizes[0], "host") if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} hosts"
    return f"{len(needs)} racks of {each}"
