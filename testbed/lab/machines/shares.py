"""Shares of a network: the whole blueprint, with the nodes that are on one machine and the tunnels of links to others.

All numbers of a network are in its blueprint, so machines agree on them without a word: addresses, MAC addresses,
interfaces, and the tunnels' numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from testbed.base.errors import SpecError
from testbed.lab.base import LARGE_PACKET_BYTES
from testbed.lab.machines.cut import Cut
from testbed.lab.netns.kernel_interface.rtnetlink import Tunnel
from testbed.lab.netns.network.blueprint import Blueprint

OUTER_BYTES = 50
"""Bytes that a tunnel adds to each packet: Ethernet header of the packet inside, VXLAN, UDP and IPv4 (RFC 7348)."""
MOST_NUMBER = 2**24 - 1


@dataclass(frozen=True)
class Underlay:
    """Network between machines: their names, addresses and MTUs there, and the number of the first link's tunnel.

    Numbers keep networks apart that share machines, also one from the next: the kernel takes a network down in its own
    time, and refuses a number until then.
    """

    names: tuple[str, ...]
    addresses: tuple[str, ...]
    mtus: tuple[int, ...]
    first_number: int = 1

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


def share(whole: Blueprint, cut: Cut, underlay: Underlay, machine: int) -> Blueprint:
    """Make the share of a machine, by its number in the cut.

    Large packets are as small as every kernel has them: a machine's NIC may refuse larger ones. A link is impaired
    where the way of impairing works: netem at its tail, the delay line at its head.
    """
    here, addresses = frozenset(cut.nodes(machine)), underlay.addresses
    tunnels = {}
    for directed, (tail, _) in enumerate(whole.ends):
        head, _ = whole.ends[directed ^ 1]
        if tail in here and head not in here:
            number = underlay.first_number + directed // 2
            tunnels[directed] = Tunnel(number, addresses[machine], addresses[cut.machine[head]])
    acts = 0 if whole.by_netem else 1
    impairments = {link: one for link, one in whole.impairments.items() if whole.ends[link ^ acts][0] in here}
    size = LARGE_PACKET_BYTES[0]
    return replace(whole, here=here, tunnels=tunnels, impairments=impairments, packet_bytes=size)
