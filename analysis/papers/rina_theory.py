"""Rina (Chen et al., ICNP 2024): steps, the dependency chain, and incremental deployment."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.analysis.papers.claim import Table
from testbed.analysis.theory.dependency_chain import (
    EXAMPLE,
    Overheads,
    rina_share,
    rina_steps,
    ring_members,
    ring_steps,
    scatter_reduce_s,
)
from testbed.analysis.theory.occupation import occupation, to_replace
from testbed.topologies.build import build as build_topology
from testbed.topologies.model import Topology
from testbed.workloads.sync.cost import cost
from testbed.workloads.sync.schemes import build

RATE_BPS = 10**9
NETWORKS = ("fat_tree(k=4,routing=by_destination)", "dragonfly(a=4,g=9,h=2)")
"""Networks of sections III-C and VI, with 16 and 72 workers, and one path to each host."""
RACKS = "spine_leaf(racks=2,hosts_per_rack=4,spines=1)"
"""The testbed of section VI-A2."""
PS = 0
"""The host of the PS: which one, the paper does not say, and both networks look alike from every host."""


def steps() -> Table:
    """Steps of a ring, 2(N-1), and of Rina, 2G-1 a phase."""
    rows = []
    for text in (RACKS, *NETWORKS):
        net = build_topology(text, rate_bps=RATE_BPS)
        workers, groups = net.host_count, len({net.nodes[host].rack for host in net.hosts})
        forest = cost(build("ring", net, []), net, 1.0).rounds
        rows.append((text, str(workers), str(groups), str(forest), str(ring_steps(workers)), str(rina_steps(groups))))
    return Table(
        "Rina section IV-B2: steps of a ring, 2(N-1) for both phases, and of Rina, 2G-1 a phase",
        ("network", "N", "G", "ring's forest", "ring, both phases", "Rina, each phase"),
        tuple(rows),
        (
            "The paper compares steps of unlike kind: one of the ring is from worker to worker, one of Rina to a "
            "switch or from it. Both phases of Rina are 4G-2 such steps: in racks of two as many as the ring's 2(N-1).",
        ),
    )


def chain() -> Table:
    """Equation 3 over N and sigma, in k."""
    sigmas = (0.0, 0.005, 0.01, 0.02)
    rows = [
        (str(n), *(f"{scatter_reduce_s(n, EXAMPLE.overhead, 1.0, sigma):.3f}" for sigma in sigmas))
        for n in (4, 8, 16, 36, 72, 144)
    ]
    return Table(
        "Rina equation 3: time of a ring's scatter-reduce over k, the time to send the gradient once, for O/k = 0.01",
        ("N", *(f"sigma/k = {sigma:g}" for sigma in sigmas)),
        tuple(rows),
        ("It grows with N and with sigma. The values of O/k and sigma/k are examples; the paper gives none.",),
    )


def curve(topology: Topology, order: Sequence[int], overheads: Overheads = EXAMPLE) -> list[tuple[float, float]]:
    """(ATP's share of B0, Rina's) with the first 0, 1, 2, ... switches of ``order`` replaced."""
    replaced = [set(order[:count]) for count in range(len(order) + 1)]
    return [
        (occupation(topology, PS, ina).share, rina_share(ring_members(topology, ina), overheads)) for ina in replaced
    ]


def as_numbered(topology: Topology) -> list[int]:
    """:func:`to_replace`, but where section IV-D leaves a choice, by number alone."""
    order = to_replace(topology, PS)
    hosts = {s: sum(topology.head(d) < topology.host_count for d in topology.ports[s]) for s in order}
    tors = sorted((s for s in order if hosts[s]), key=lambda switch: (-hosts[switch], switch))
    return tors + [switch for switch in order if not hosts[switch]]


def figure_11() -> Table:
    """Throughput against the number of replaced switches."""
    rows = []
    for text in NETWORKS:
        net = build_topology(text, rate_bps=RATE_BPS)
        order = to_replace(net, PS)
        shares, numbered = curve(net, order), curve(net, as_numbered(net))
        for count, ((atp, rina), (other, _)) in enumerate(zip(shares, numbered, strict=True)):
            name = net.nodes[order[count - 1]].name if count else "-"
            part = f"{count / len(order):.0%}"
            rows.append((text, str(count), part, name, f"{atp:.3f}", f"{other:.3f}", f"{rina:.3f}"))
    return Table(
        "Rina figures 5 and 11: throughput as a share of B0, over the number of switches replaced",
        ("network", "replaced", "of all", "the last", "ATP", "ATP, ties as numbered", "Rina"),
        tuple(rows),
        (
            "ATP is the model of section III-B, without the time of computing. Rina is equation 3 with a rack as one "
            "member of the ring, for O/k = sigma/k = 0.01: ours, since the paper has neither an equation for it nor "
            "parameters. Its shape, rising with each ToR switch and not after, is the same for any above 0.",
            "Section IV-D says in what order: ToR switches with most workers first. All have two here, so the order "
            "among them is ours: those that most workers send through first, or by number.",
            "A fat-tree(4) has 20 switches; 13 are on paths to the PS, and half of them are the 6 that section VI-B "
            "replaces in ATP's case, as half of the 8 ToRs are its 4 in Rina's.",
            "With all replaced, Rina is below ATP by its overheads, where the paper has it about equal. No overheads "
            'put it more than 2.31 times above a ring (half as many members), so the "up to 6x" of section I must be '
            "that over a PS.",
        ),
    )


def occupied() -> Table:
    """Where PS-based INA stands with a share of the switches replaced."""
    rows = []
    for text in NETWORKS:
        net = build_topology(text, rate_bps=RATE_BPS)
        order = to_replace(net, PS)
        shares = [share for share, _ in curve(net, order)]
        for part in (0.0, 0.5, 0.8, 0.9, 1.0):
            count = int(part * len(order) + 1e-9)
            rows.append((text, f"{part:.0%}", f"{count} of {len(order)}", f"1/{round(1 / shares[count])}"))
    return Table(
        "Rina section I and III-C: throughput of PS-based INA as a share of B0 (the paper: 50 % with 80 % replaced)",
        ("network", "replaced", "switches", "B0 x"),
        tuple(rows),
        ("Switches that no path to the PS passes are not counted. The order is that of rina.fig11.",),
    )


TABLES = {"rina.steps": steps, "rina.chain": chain, "rina.bom": occupied, "rina.fig11": figure_11}
