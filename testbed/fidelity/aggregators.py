"""Processes that need a whole core: those in switches, which add for others, and workers' own engines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pandas as pd

from testbed.base.check import About, Check
from testbed.fidelity.seen import Seen

ABOUT = About(
    "aggregators",
    sees="a switch or a server that needs a whole core, by its process's CPU time",
    misses="a process that is slow because it waits for memory",
    machine=True,
)
ENGINES = About(
    "engines",
    sees="a worker whose process needs a whole core while it synchronises, by its CPU time, even if others are free",
    misses="libraries, which have threads of their own; `overlap: both`, where workers compute while they synchronise",
    machine=True,
)
BUSY = 0.9
"""The largest share of a core that one process may take while gradients are on the wire, if it only adds for others or
only synchronises. It has one thread, so it cannot take more than one core. Workers took 1 to 17 % in good trials on two
cores."""


def checks(seen: Seen) -> Iterator[Check]:
    if seen.samples is None:
        return
    if seen.job.kind.connections is not None and seen.job.work.overlap != "both":
        yield judge_engines(seen.counted)
    if not seen.aggregators:
        return
    cpu_s = {line["name"]: line["cpu_s"] for line in seen.done if line["name"] in seen.aggregators}
    yield judge(cpu_s, *seen.job.kind.own_samples.measures.adding_s(seen.every))


def judge(cpu_s: Mapping[str, float], window_s: float, when: str) -> Check:
    """Judge the busiest of the nodes that only add and pass on: its CPU time over ``window_s``; ``when`` that is, in
    words."""
    name = max(cpu_s, key=cpu_s.__getitem__)
    share = cpu_s[name] / window_s
    detail = f"the busiest of {len(cpu_s)} that only add is {name}, at {share:.0%} of a core {when}"
    return Check(ABOUT.name, share, BUSY, "of a core", share <= BUSY, detail, machine=True)


def judge_engines(samples: pd.DataFrame) -> Check:
    """Judge the share of a core that the busiest worker takes from its gradient to its sum; median over iterations."""
    shares = samples["cpu_s"] / (samples["sum_s"] - samples["ready_s"])
    share = float(shares.groupby(samples["iteration"]).max().median())
    detail = f"the busiest worker took {share:.0%} of a core while it synchronised"
    return Check(ENGINES.name, share, BUSY, "of a core", share <= BUSY, detail, machine=True)
