"""Processes in switches, which add for others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from analysis import metrics
from testbed.fidelity.check import About, Check
from testbed.fidelity.seen import Seen

ABOUT = About(
    "aggregators",
    sees="a switch's process that needs a whole core, by its CPU time",
    misses="a process that is slow because it waits for memory",
    machine=True,
)
BUSY = 0.9
"""Most of a core that a node which only adds for others takes while gradients are on the wire: one thread."""


def checks(seen: Seen) -> Iterator[Check]:
    if seen.samples is None or not seen.aggregators:
        return
    cpu_s = {line["name"]: line["cpu_s"] for line in seen.done if line["name"] in seen.aggregators}
    if seen.trial.asynchronous:
        yield judge(cpu_s, metrics.jct_s(seen.every), "during training")
    else:
        yield judge(cpu_s, metrics.sync_s(seen.every))


def judge(cpu_s: Mapping[str, float], window_s: float, when: str = "during synchronisation") -> Check:
    """The busiest of the nodes that only add and pass on: its CPU time over ``window_s``, that of all synchronisations
    unless ``when`` says otherwise."""
    name = max(cpu_s, key=cpu_s.__getitem__)
    share = cpu_s[name] / window_s
    detail = f"the busiest of {len(cpu_s)} that only add is {name}, at {share:.0%} of a core {when}"
    return Check(ABOUT.name, share, BUSY, "of a core", share <= BUSY, detail, machine=True)
