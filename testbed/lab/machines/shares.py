"""Shares of a network: the whole blueprint, with the nodes that are on one machine and the tunnels of links to others.

All numbers of a network are in its blueprint, so machines agree on them without a word: addresses, MAC addresses,
interfaces, and the tunnels' numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from testbed.base.errors import SpecError
from testbed.lab.base import LARGE_PACKET_BYTES, Impairment
from testbed.lab.machines.cut import Cut
from testbed.lab.netns.kernel_interface.rtnetlink import Tunnel
from testbed.lab.netns.network.blueprint import Blueprint, StaticRoute

Orders = dict[int, tuple[dict[int, Impairment], dict[int, tuple[StaticRoute, ...]]]]
"""Arguments of :meth:`testbed.lab.netns.lab.NetnsLab.impair_with_detours`, by machine."""
OUTER_BYTES = 50
"""Bytes that a tunnel adds to each packet: Ethernet header of the packet inside, VXLAN, UDP and IPv4 (RFC 7348)."""
MOST_NUMBER = 2**24 - 1


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
        """
        Raises:
            SpecError: packets of this MTU, with what tunnels add, would be cut in two on the way, in silence.
        """
        for name, has in zip(self.names, self.mtus, strict=True):
            needs = mtu + OUTER_BYTES
            if has < needs:
                raise SpecError(
                    f"{name}: its NIC has an MTU of {has}; links of MTU {mtu} between machines need {needs}",
                    fix=f"raise it, also at switches between machines; or give links an MTU of {has - OUTER_BYTES}",
                )

    def left(self, asked: Impairment, machines: tuple[int, int], label: str) -> Impairment:
        """Take from the delay of a link between two machines, if it has one, what packets need between these.

        Raises:
            SpecError: they need longer than the link may take.
        """
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
