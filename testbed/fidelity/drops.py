"""Packets that an egress had no room for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from testbed.base.check import About, Check
from testbed.fidelity.seen import Seen
from testbed.perturb.registry import PERTURBATIONS
from testbed.trial.network import link_settings

ABOUT = About(
    "drops",
    sees="packets dropped because a queue was full, by the kernel's count at every egress",
    misses="drops inside another machine",
    machine_when="a core had no room for the packets, and the queues had",
)
DROPPING = frozenset(name for name, kind in PERTURBATIONS.items() if kind.drops_packets)
"""Kinds of events after which links drop packets."""


def checks(seen: Seen) -> Iterator[Check]:
    yield judge(seen.links, asked(seen))


def asked(seen: Seen) -> bool:
    """Whether links were to drop packets: their queues are short on purpose, or something was done to them."""
    return link_settings(seen.trial.spec).drops or bool(DROPPING & seen.happened)


def judge(links: Sequence[Mapping[str, Any]], asked: bool = False) -> Check:
    """Judge packets dropped at any egress: a queue was too short for what it was given, which may have been ``asked``
    for.

    If no queue was full, the machine is the cause: a core did not take in packets as fast as they came.
    """
    dropped = {f"{link['from']} to {link['to']}": link["drops"] for link in links if link["drops"]}
    count = sum(dropped.values())
    worst = max(dropped, key=dropped.__getitem__) if dropped else ""
    detail = f"{count} packets dropped" + (f", most at {worst}" if worst else "")
    refused = sum(link.get("refused", 0) for link in links)
    if refused:
        detail += f"; {refused} of them by a core of this machine whose backlog was full, not by a queue"
    ok = asked or not dropped
    return Check(ABOUT.name, float(count), 0.0, "packets", ok, detail, asked, machine=0 < count <= refused)
