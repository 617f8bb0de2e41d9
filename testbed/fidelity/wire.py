"""Bytes on each link by the kernel's count, against the forest's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from testbed.base.check import About, Check, not_watched
from testbed.fidelity.seen import Seen
from testbed.recovery.deaths import spoilt_bytes
from testbed.topologies.sharing import groups
from testbed.workloads.sync.cost import ETHERNET_BYTES

ABOUT = About(
    "bytes on the wire",
    sees="a detour, or traffic of another scheme or another program, by the kernel's count of bytes on each link",
    misses="which of several ECMP paths a flow took; less than 3 % of the busiest link's bytes",
)
BEYOND = 0.03
"""Most by which the kernel's count of bytes on a link differs from the forest's, as a share of the busiest link's.

It was 0.13 to 0.31 % above the forest's (acknowledgements, chunk headers) where only BML on BCube(3,2) ran. As a share
of the busiest link's: at most 1.7 % in all but one of 109 VALID trials of 14 schemes on stars, leaf-spines, fat-trees
and BCubes, below 0.5 % in all long ones, up to 3.0 % in short ones (the burst did not count as part of the busiest
link's bytes then, as it does now), 1.3 % over ECMP on a fat-tree; a detour of one flow of eight is 11 % or more."""


def checks(seen: Seen) -> Iterator[Check]:
    trial = seen.trial
    if seen.samples is None:
        return
    if why := seen.job.kind.unknown.bytes(seen.job.plan):
        yield not_watched(ABOUT, BEYOND, "of busiest link", f"not known: {why}")
        return
    spoilt = spoilt_bytes(seen.job, seen.course) + seen.spoilt_bytes / trial.network.goodput
    if seen.job.kind.connections is None:  # by connection; what each host sent again is known
        spoilt += sum(line["resent_segments"] or 0 for line in seen.done) * (trial.spec.links.mtu + ETHERNET_BYTES)
    yield judge(seen.links, together(seen), spoilt)


def together(seen: Seen) -> list[tuple[int, ...]]:
    """Find the positions in ``seen.links`` of links whose bytes theory knows only together; acknowledgements, bursts
    and background flows are shared like gradients."""
    topology = seen.trial.topology
    used = [pair for phase in seen.course.phases for pair in phase.job.kind.pairs(phase.job.plan)]
    if topology.panels is None:  # over circuits nothing is shared by hashing
        used += [pair for job in seen.trial.jobs for pair in job.kind.pairs(job.plan)]
    else:
        return [(position,) for position in range(len(seen.links))]
    used += [*((one.src, one.dst) for one in topology.bursts), *seen.trial.background]
    position = {link["link"]: i for i, link in enumerate(seen.links)}
    both = {*used, *((dst, src) for src, dst in used)}
    return [tuple(position[link] for link in links) for links in groups(topology, both)]


def judge(links: Sequence[Mapping[str, Any]], groups: Iterable[Sequence[int]], spoilt_bytes: float) -> Check:
    """Judge the kernel's bytes on each link against the forest's, headers included in both, as a share of what the
    busiest link carried, its burst included: the burst's headers and acknowledgements are not known to the byte.

    ``groups`` holds positions in ``links``: those among which traffic is shared by chance are compared together. A link
    may carry its ``extra_bytes`` more, what TCP has added by its own count (what was sent again is judged by itself),
    and any link ``spoilt_bytes``: what iterations had sent that were broken off when a node died, and what a library's
    connections, which are not ours to count, sent again.
    """
    busiest_s = max(8 * (link["theory_bytes"] + link["other_bytes"]) / link["rate_bps"] for link in links)
    excess = {}
    for group in groups:
        if any(links[i]["bytes"] is None for i in group):
            continue
        beyond = sum(links[i]["bytes"] - links[i]["theory_bytes"] for i in group)
        allowed = spoilt_bytes + sum(links[i]["extra_bytes"] for i in group)
        beyond = beyond if beyond < 0 else max(0.0, beyond - allowed)
        excess[tuple(group)] = 8 * beyond / sum(links[i]["rate_bps"] for i in group) / busiest_s
    if not excess:
        return not_watched(ABOUT, BEYOND, "of busiest link", "this lab counts none of these links")
    worst = max(excess, key=lambda group: abs(excess[group]))
    name = f"{links[worst[0]]['from']} to {links[worst[0]]['to']}" + (
        f" and {len(worst) - 1} that share with it" if len(worst) > 1 else ""
    )
    share = excess[worst]
    than = "more" if share >= 0 else "fewer"
    detail = f"{name}, furthest off, carried {abs(share):.2%} of the busiest link's bytes {than} than the forest says"
    return Check(ABOUT.name, share, BEYOND, "of busiest link", abs(share) <= BEYOND, detail)
