"""Hosts around one non-blocking switch: BML's stand-in for a fat-tree (BML, section 5.1)."""

from __future__ import annotations

from functools import partial

from testbed.topologies.model import Link, Node, Path, ServerRouting, Topology, joined
from testbed.topologies.parameters import at_least, check_size


def star(
    rate_bps: int, delay_s: float, *, hosts: int, server_nics: int = 1, routing: ServerRouting = "by_destination"
) -> Topology:
    """Hosts around one non-blocking switch.

    Host h is on port h of switch ``s0``; the last one on ``server_nics`` ports, as a PBox is (PHub thesis section 2.2).

    Args:
        routing: with ``by_destination`` traffic between the last host and host h passes its NIC h mod ``server_nics``;
            with ``every_nic`` the two have a connection over each of its NICs.

    Raises:
        TopologyError: ``hosts`` or ``server_nics`` is less than 1.
    """
    at_least("star", 1, hosts=hosts, server_nics=server_nics)
    params: dict[str, object] = {"hosts": hosts}
    params |= {"server_nics": server_nics} if server_nics > 1 else {}
    check_size("star", hosts + server_nics - 1, **params)
    nodes = [Node(f"h{h}", "host", 0, rack=0) for h in range(hosts)] + [Node("s0", "switch", 1, rack=0)]
    links = [Link(h, 0, hosts, h, rate_bps, delay_s) for h in range(hosts)]
    links += [Link(hosts - 1, nic, hosts, hosts - 1 + nic, rate_bps, delay_s) for nic in range(1, server_nics)]
    params |= {"routing": routing} if routing != "by_destination" else {}
    router = partial(_through_the_switch, hosts - 1, server_nics, routing)
    return Topology("star", params, tuple(nodes), tuple(links), router)


def _through_the_switch(server: int, nics: int, routing: str, _: Topology, src: int, dst: int) -> tuple[Path, ...]:
    counts = [nics if host == server else 1 for host in (src, dst)]
    ways = joined(src, counts[0], dst, counts[1], routing)
    return tuple(
        Path((2 * (src + out), 2 * (dst + back) + 1), 1 / len(ways), number) for number, (out, back) in enumerate(ways)
    )
