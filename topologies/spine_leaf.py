"""Two layers: a leaf (ToR) switch per rack, every leaf linked to every spine."""

from __future__ import annotations

from functools import partial
from typing import Literal

from testbed.topologies.model import Link, Node, Path, Topology
from testbed.topologies.parameters import at_least, check_size, uplink_bps


def spine_leaf(
    rate_bps: int,
    delay_s: float,
    *,
    racks: int,
    hosts_per_rack: int,
    spines: int,
    oversubscription: float = 1.0,
    routing: Literal["by_destination", "ecmp"] = "by_destination",
) -> Topology:
    """Racks of hosts under leaf switches, every leaf linked to every spine.

    Host ``r * hosts_per_rack + i`` is on port i of ``leaf<r>``, whose port ``hosts_per_rack + s`` leads to
    ``spine<s>``. An uplink has ``rate_bps * hosts_per_rack / (spines * oversubscription)`` bit/s.

    Args:
        oversubscription: what a rack's hosts can send together, over what its uplinks can carry; 1 is non-blocking.
        routing: ``by_destination`` sends all traffic for host d over spine ``d mod spines``, so each pair has one known
            path; ``ecmp`` lets every spine carry the same share.

    Raises:
        TopologyError: a count is less than 1, or the oversubscription is not positive or leaves no bandwidth.
    """
    counts = {"racks": racks, "hosts_per_rack": hosts_per_rack, "spines": spines}
    at_least("spine_leaf", 1, **counts)
    check_size("spine_leaf", racks * (hosts_per_rack + spines), **counts)
    up_bps = uplink_bps("spine_leaf", rate_bps * hosts_per_rack, oversubscription, spines)
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
    chosen = {"oversubscription": (oversubscription, 1), "routing": (routing, "by_destination")}
    params = counts | {name: value for name, (value, default) in chosen.items() if value != default}
    router = partial(_by_destination if routing == "by_destination" else _ecmp, hosts_per_rack, spines)
    return Topology("spine_leaf", params, tuple(nodes), tuple(links), router)


def _by_destination(hosts_per_rack: int, spines: int, topology: Topology, src: int, dst: int) -> tuple[Path, ...]:
    return (Path(_via(hosts_per_rack, spines, topology.host_count, src, dst, dst % spines)),)


def _ecmp(hosts_per_rack: int, spines: int, topology: Topology, src: int, dst: int) -> tuple[Path, ...]:
    ways = dict.fromkeys(_via(hosts_per_rack, spines, topology.host_count, src, dst, s) for s in range(spines))
    return tuple(Path(links, 1 / len(ways)) for links in ways)


def _via(hosts_per_rack: int, spines: int, hosts: int, src: int, dst: int, spine: int) -> tuple[int, ...]:
    src_rack, dst_rack = src // hosts_per_rack, dst // hosts_per_rack
    if src_rack == dst_rack:
        return 2 * src, 2 * dst + 1
    return 2 * src, 2 * (hosts + src_rack * spines + spine), 2 * (hosts + dst_rack * spines + spine) + 1, 2 * dst + 1
