"""Packets that an egress had no room for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from testbed.base.check import About, Check
from testbed.fidelity.seen import Seen
from testbed.perturb.registry import PERTURBATIONS
from testbed.trial.network import link_settings

ABOUT = About(
    "drops",
    sees="packets dropped because a queue was full, by the kernel's count at every egress",
    misses="drops inside another machine",
)
DROPPING = frozenset(name for name, kind in PERTURBATIONS.items() if kind.drops_packets)
"""Kinds of events after which links drop packets."""


def checks(seen: Seen) -> Iterator[Check]:
    yield judge(seen.links, asked(seen))


def asked(seen: Seen) -> bool:
    """Whether links were to drop packets: their queues are short on purpose, or something was done to them."""
    return link_settings(seen.trial.spec).drops or bool(DROPPING & seen.happened)


def judge(links: Iterable[Mapping[str, Any]], asked: bool = False) -> Check:
    """Judge packets dropped at any egress: a queue was too short for what it was given, which may have been ``asked``
    for."""
    dropped = {f"{link['from']} to {link['to']}": link["drops"] for link in links if link["drops"]}
    worst = max(dropped, key=dropped.__getitem__) if dropped else ""
    detail = f"{sum(dropped.values())} packets dropped" + (f", most at {worst}" if worst else "")
    return Check(ABOUT.name, float(sum(dropped.values())), 0.0, "packets", asked or not dropped, detail, asked)
