"""Racks of a cloud, of which its tenants are not told which host is where (PLink: PHub thesis, chapter 4).

Host numbers are shuffled over racks, and no node has a :attr:`.Node.rack`, so a scheme has to find out which hosts are
near each other. :func:`places` gives the truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from random import Random
from typing import NamedTuple

from testbed.base.errors import TopologyError
from testbed.topologies.model import Link, Node, Topology
from testbed.topologies.parameters import at_least, check_size, uplink_bps
from testbed.topologies.shortest import ShortestPaths


def cloud(
    rate_bps: int,
    delay_s: float,
    *,
    rows: int = 1,
    racks: int = 4,
    hosts_per_rack: int = 4,
    oversubscription: float = 4.0,
    seed: int = 3,
    sizes: tuple[int, ...] = (),
    rack_delay_s: float = 0.5e-3,
    row_delay_s: float = 0.5e-3,
) -> Topology:
    """Rows of racks, where schemes are not told which host is in which rack (PLink).

    Hosts are linked to ``tor<i>``, the switch of their rack, racks to ``row<i>``, and several rows to ``core``. A
    rack's uplink has ``rate_bps`` times the mean size of racks over the oversubscription. A row's has as much as those
    of its racks together, so rows do not block (PHub thesis, section 4.1.2). A packet takes 1 ms from rack to rack, and
    2 ms from row to row, unless delays are given.

    Args:
        rows: how many.
        racks: in each row.
        hosts_per_rack: in each rack.
        oversubscription: what the hosts of a rack of mean size can send together, over what its uplink can carry.
        seed: of the places of hosts. The same seed gives the same places.
        sizes: hosts of each rack, row by row, in place of ``racks`` and ``hosts_per_rack``.
        rack_delay_s: of a rack's uplink, one way, in seconds, beside the delay that all links have.
        row_delay_s: of a row's uplink, likewise.

    Raises:
        TopologyError: a number is too small, racks are given in both ways, or they cannot be divided among the rows.
    """
    at_least("cloud", 1, rows=rows, racks=racks, hosts_per_rack=hosts_per_rack)
    at_least("cloud", 0, seed=seed, rack_delay_s=rack_delay_s, row_delay_s=row_delay_s)
    params: dict[str, object] = {"rows": rows, "racks": racks, "hosts_per_rack": hosts_per_rack}
    if sizes:
        _check_sizes(sizes, rows, racks == hosts_per_rack == 4)
        params, racks = {"rows": rows, "sizes": sizes}, len(sizes) // rows
    tors = rows * racks
    hosts = sum(sizes) or tors * hosts_per_rack
    check_size("cloud", hosts + tors + (rows if rows > 1 else 0), **params)
    rack_of = [rack for rack, size in enumerate(sizes or [hosts_per_rack] * tors) for _ in range(size)]
    Random(seed).shuffle(rack_of)
    rack_bps = uplink_bps("cloud", rate_bps * hosts / tors, oversubscription)
    nodes = [Node(f"h{host}", "host", 0) for host in range(hosts)]
    nodes += [Node(f"tor{rack}", "switch", 1) for rack in range(tors)]
    nodes += [Node(f"row{row}", "switch", 2) for row in range(rows)]
    row, core = hosts + tors, len(nodes)  # the first row, and the core
    port = [count() for _ in range(tors)]
    links = [Link(host, 0, hosts + rack, next(port[rack]), rate_bps, delay_s) for host, rack in enumerate(rack_of)]
    links += [
        Link(hosts + rack, next(port[rack]), row + rack // racks, rack % racks, rack_bps, delay_s + rack_delay_s)
        for rack in range(tors)
    ]
    if rows > 1:
        nodes.append(Node("core", "switch", 3))
        links += [Link(row + i, racks, core, i, racks * rack_bps, delay_s + row_delay_s) for i in range(rows)]
    delays = {"rack_delay_s": (rack_delay_s, 0.5e-3), "row_delay_s": (row_delay_s, 0.5e-3)}
    chosen = {"oversubscription": (oversubscription, 4), "seed": (seed, 3), **delays}
    params |= {name: value for name, (value, default) in chosen.items() if value != default}
    return Topology("cloud", params, tuple(nodes), tuple(links), ShortestPaths())


def _check_sizes(sizes: Sequence[int], rows: int, is_alone: bool) -> None:
    """Raises TopologyError: there is a rack without hosts, racks are given in another way, too, or rows differ."""
    if min(sizes) < 1:
        raise TopologyError(f"cloud: one of its sizes is {min(sizes)}", fix="give each rack at least 1 host")
    if not is_alone:
        raise TopologyError(
            "cloud: sizes says how many racks there are, and how many hosts each has",
            fix="leave out racks and hosts_per_rack, or sizes",
        )
    if len(sizes) % rows:
        raise TopologyError(
            f"cloud: {len(sizes)} racks cannot be divided evenly among {rows} rows",
            fix=f"give as many sizes as a multiple of {rows}",
        )


class Places(NamedTuple):
    """Where hosts are: the numbers of each host's rack and row, int[hosts] each."""

    racks: tuple[int, ...]
    rows: tuple[int, ...]

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Hosts of each rack, racks by number."""
        return tuple(
            tuple(host for host, rack in enumerate(self.racks) if rack == number) for number in sorted({*self.racks})
        )


def places(topology: Topology) -> Places:
    """Return the racks and rows that a cloud, or a part of one, hides, for ``groups=truth``. No other scheme may ask:
    tenants do not know them.

    Raises:
        TopologyError: the network hides no racks.
    """
    racks = [_above(topology, host, 1) for host in topology.hosts]
    rows = [None if rack is None else _above(topology, rack, 2) for rack in racks]
    if None in rows or any(topology.nodes[host].rack is not None for host in topology.hosts):
        raise TopologyError(f"{topology.expression} hides no racks", fix="take cloud(..)")
    number = {node: i for level in (1, 2) for i, node in enumerate(_switches(topology, level))}
    return Places(*(tuple(number[node] for node in some if node is not None) for some in (racks, rows)))


def _switches(topology: Topology, level: int) -> list[int]:
    return [switch for switch in topology.switches if topology.nodes[switch].level == level]


def _above(topology: Topology, node: int, level: int) -> int | None:
    """Return the only switch of a level to which a node is linked; None where there is none, or several."""
    near = {topology.head(link) for link in topology.ports[node]} & {*_switches(topology, level)}
    return near.pop() if len(near) == 1 else None
