"""Two layers: a leaf (ToR) switch per rack, every leaf linked to every spine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from testbed.topologies.model import Link, Node, Path, Topology, joined
from testbed.topologies.parameters import at_least, check_size, uplink_bps


def spine_leaf(
    rate_bps: int,
    delay_s: float,
    *,
    racks: int,
    hosts_per_rack: int,
    spines: int,
    oversubscription: float = 1.0,
    server_nics: int = 1,
    routing: Literal["by_destination", "ecmp", "every_nic"] = "by_destination",
) -> Topology:
    """Racks of hosts under leaf switches, every leaf linked to every spine.

    Host ``r * hosts_per_rack + i`` is on port i of ``leaf<r>``, whose port ``hosts_per_rack + s`` leads to
    ``spine<s>``. The last host of each rack has ``server_nics`` NICs, as a PBox has (PHub thesis, section 2.3); those
    after its first are on the leaf's last ports. An uplink has ``rate_bps`` times the NICs of a rack over ``spines *
    oversubscription``, in bit/s.

    Args:
        oversubscription: what a rack's hosts can send together, over what its uplinks can carry; 1 is non-blocking.
        routing: ``by_destination`` sends all traffic for host d over spine ``d mod spines``, so each pair has one known
            path; ``ecmp`` lets every spine carry the same share. Both pass NIC h mod ``server_nics`` of a server, where
            h is the host at the other end. With ``every_nic`` a server has a connection over each of its NICs with each
            host, and spines are taken as by ``by_destination``.

    Raises:
        TopologyError: a count is less than 1, or the oversubscription is not positive or leaves no bandwidth.
    """
    counts = {"racks": racks, "hosts_per_rack": hosts_per_rack, "spines": spines}
    at_least("spine_leaf", 1, **counts, server_nics=server_nics)
    nics = hosts_per_rack + server_nics - 1
    check_size("spine_leaf", racks * (nics + spines), **counts)
    up_bps = uplink_bps("spine_leaf", rate_bps * nics, oversubscription, spines)
    hosts = racks * hosts_per_rack
    nodes = [Node(f"h{h}", "host", 0, rack=h // hosts_per_rack) for h in range(hosts)]
    nodes += [Node(f"leaf{r}", "switch", 1, rack=r) for r in range(racks)]
    nodes += [Node(f"spine{s}", "switch", 2) for s in range(spines)]
    links = [Link(h, 0, hosts + h // hosts_per_rack, h % hosts_per_rack, rate_bps, delay_s) for h in range(hosts)]
    links += [
        Link(hosts + r, hosts_per_rack + s, hosts + racks + s, r, up_bps, delay_s)
        for r in range(racks)
        for s in range(spines)
    ]
    links += [
        Link((r + 1) * hosts_per_rack - 1, nic, hosts + r, hosts_per_rack + spines + nic - 1, rate_bps, delay_s)
        for r in range(racks)
        for nic in range(1, server_nics)
    ]
    chosen = {
        "oversubscription": (oversubscription, 1),
        "server_nics": (server_nics, 1),
        "routing": (routing, "by_destination"),
    }
    params = counts | {name: value for name, (value, default) in chosen.items() if value != default}
    return Topology(
        "spine_leaf", params, tuple(nodes), tuple(links), _Ways(hosts_per_rack, spines, server_nics, routing)
    )


@dataclass(frozen=True)
class _Ways:
    """A router over the spines, and over the NICs of each rack's server."""

    hosts_per_rack: int
    spines: int
    server_nics: int
    routing: str

    def __call__(self, topology: Topology, src: int, dst: int) -> tuple[Path, ...]:
        nics = [self.server_nics if host % self.hosts_per_rack == self.hosts_per_rack - 1 else 1 for host in (src, dst)]
        ends = joined(src, nics[0], dst, nics[1], self.routing)
        spines = range(self.spines) if self.routing == "ecmp" else [dst % self.spines]
        found = []
        for number, (out, back) in enumerate(ends):
            ways = dict.fromkeys(self._via(topology.host_count, (src, out), (dst, back), spine) for spine in spines)
            found += [Path(links, 1 / (len(ways) * len(ends)), number) for links in ways]
        return tuple(found)

    def _via(self, hosts: int, src: tuple[int, int], dst: tuple[int, int], spine: int) -> tuple[int, ...]:
        """Return the links from a host's NIC to another's, over this spine if they are in different racks."""
        (src_rack, out), (dst_rack, back) = self._rack_and_link(hosts, *src), self._rack_and_link(hosts, *dst)
        if src_rack == dst_rack:
            return 2 * out, 2 * back + 1
        up, down = (hosts + rack * self.spines + spine for rack in (src_rack, dst_rack))
        return 2 * out, 2 * up, 2 * down + 1, 2 * back + 1

    def _rack_and_link(self, hosts: int, host: int, nic: int) -> tuple[int, int]:
        rack = host // self.hosts_per_rack
        further = hosts + hosts // self.hosts_per_rack * self.spines + rack * (self.server_nics - 1) + nic - 1
        return rack, further if nic else host
