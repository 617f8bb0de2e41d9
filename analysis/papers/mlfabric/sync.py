"""MLfabric-S beside a ring and a binary tree: iterations, communication, and messages over slow links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from testbed.analysis import metrics
from testbed.analysis.papers.claim import Experiment, Finding, Row, Runs, falling, near, near_beyond_1, within
from testbed.analysis.papers.evidence import GST, Values, gst_s, measure_means, samples_of
from testbed.analysis.papers.mlfabric.ideals import ABOUT, PAPERS, play, ring_s, rounds_s
from testbed.analysis.recorded import Run, Trial
from testbed.analysis.report.networks import course, numbered
from testbed.topologies.model import Topology
from testbed.workloads.catalogue import tensor_sizes
from testbed.workloads.kinds.transfers import Purpose
from testbed.workloads.sync.schemes.tree import tree

FULL = ("repeats=3", "workload.iterations=40", "quiet=10 s")
SMALL = Experiment("mlfabric/sync.yaml", (), FULL)
LARGE = Experiment("mlfabric/sync_resnet152.yaml", (), FULL)
"""ResNet-50 and ResNet-152."""
IDLE, BUSY = "C2-N1", "C2-N2"
"""Settings: the one where MLfabric-S is faster than a ring, and the one of communication."""
SLOW_SHARE = 0.25
"""Share of their rate that the slowest links have with N2."""
SLOW_MESSAGES = {"S": 100 * 816 / 20_000, "tree": 100 * 1800 / 20_000}
"""Per cent of the messages that go to a host behind a slow link, by arm."""
SIZES_BYTES = {
    model: 4 * sum(count for _, count in tensor_sizes(model.lower().replace("-", "")))
    for model in ("ResNet-50", "ResNet-152")
}
"""Bytes of gradients of each model."""
GAINS = {"ResNet-50": 1 - 0.1842, "ResNet-152": 2.38 / 3.05}
"""Communication of MLfabric-S over that of a tree, by model."""


def sync(runs: Runs) -> Finding:
    """All of section 7.2."""
    small, large = runs.get(SMALL.spec), runs.get(LARGE.spec)
    messages = [
        Row(
            f"messages over slow links, {arm}",
            "%",
            paper,
            10.0 if arm == "tree" else None,
            measure_means(small, [f"{arm}, {BUSY}"], slow_messages),
        )
        for arm, paper in SLOW_MESSAGES.items()
    ]
    over_tree = [
        Row(
            f"communication of MLfabric-S over a tree's, {model}, {BUSY}",
            "x",
            paper,
            ours=measure_means(run, [f"tree, {BUSY}", f"S, {BUSY}"], gst_s, number=GST),
        )
        for (model, paper), run in zip(GAINS.items(), (small, large), strict=True)
    ]
    idle = _over_ring(small, "ResNet-50", IDLE, 1 - 0.16)
    other = _over_ring(small, "ResNet-50", BUSY, (1.2, 2.0))
    larger = _over_ring(large, "ResNet-152", IDLE, None)
    return Finding(
        (*over_tree, *messages, idle, other, larger),
        (
            *(within(f"{row.name}: it takes less", row, high=1.0) for row in over_tree),
            *(
                near_beyond_1(f"{row.name}: by as much as in the paper, within {ABOUT:.0%} of that", row, ABOUT)
                for row in over_tree
            ),
            falling("MLfabric-S sends less over slow links than a tree", [messages[1], messages[0]]),
            *(near(f"{row.name}: within {ABOUT:.0%} of the paper's", row, ABOUT) for row in messages),
            within(f"{other.name}: the ring is 1.2 to 2 times as fast", other, 1.2, 2.0),
            within(f"{idle.name}: MLfabric-S is faster", idle, high=1.0),
            near_beyond_1(f"{idle.name}: by as much as in the paper, within {ABOUT:.0%} of that", idle, ABOUT),
            within(f"{larger.name}: the ring is faster", larger, low=1.0),
        ),
        (
            "Communication is GST: from the last worker's gradient to the last worker's sum. A message is an update or "
            "a sum on its way to the host that adds it. It goes over a slow link if that host's NIC has a quarter of "
            "its rate when the message is to begin; of a tree's, when the last gradient of the iteration is ready. "
            "The paper prints 816 of 20,000 as 3 %. It is 4.1 %.",
            "Theory of iterations is MLfabric-S on an ideal network whose rates change alike, by discrete events, over "
            "the ring's bound: computing of the slowest worker, and 2 (N-1)/N updates over the slowest NIC.",
            "Where each NIC has a quarter of its rate for a tenth of the time, a tree that does not look sends a tenth "
            "of its messages there.",
        ),
    )


def _over_ring(run: Run | None, model: str, place: str, paper: float | tuple[float, float] | None) -> Row:
    ours = measure_means(run, [f"ring, {place}", f"S, {place}"], rounds_s)
    theory = ideal_over_ring(SIZES_BYTES[model], place)
    return Row(f"iterations of MLfabric-S over a ring's, {model}, {place}", "x", paper, theory, ours)


@cache
def ideal_over_ring(size_bytes: int, place: str) -> float:
    """Compute how many times as long an iteration of MLfabric-S takes on an ideal network as a ring's bound."""
    compute, network = place.split("-")
    asked = replace(PAPERS, scheme="mlfabric_s", size_bytes=size_bytes, rounds=8, compute=compute, network=network)
    return play(asked, makes_sums=True).jct_s / asked.rounds / ring_s((compute, network), size_bytes)


def slow_messages(trial: Trial) -> Values:
    """Compute for each iteration after the warm-up how many per cent of its messages go to a host whose link is slow
    then; nothing of a trial whose network is not known."""
    samples = samples_of(trial)
    topology = numbered(trial)
    if topology is None:
        return np.array([])
    if trial.transfers is None:
        parents = [int(parent) for parent in tree(topology, [1]).reduce[0] if parent >= 0]
        ready_s = samples.groupby("iteration")["ready_s"].max().iloc[trial.warmup :]
        return np.array([_slow(trial, topology, [(node, moment_s) for node in parents]) for moment_s in ready_s])
    table = trial.transfers[trial.transfers["purpose"].isin([Purpose.UPDATE, Purpose.SUM])]
    iteration = np.searchsorted(metrics.ends_s(samples), table["start_s"])
    sent = table[iteration >= trial.warmup].groupby(iteration[iteration >= trial.warmup])
    return np.array([_slow(trial, topology, [*zip(one["to"], one["start_s"], strict=True)]) for _, one in sent])


def _slow(trial: Trial, topology: Topology, messages: Sequence[tuple[int, float]]) -> float:
    """Compute how many per cent of messages, each to a node at a moment, come in over a slow link."""
    found = [round(_share(trial, topology, node, moment_s), 3) <= SLOW_SHARE for node, moment_s in messages]
    return 100 * sum(found) / len(found)


def _share(trial: Trial, topology: Topology, node: int, moment_s: float) -> float:
    """Return the share of its rate that the link towards a node has at a moment."""
    (out,) = topology.ports[node]
    since_s, rates_bps = course(trial, out ^ 1)
    begun = np.searchsorted(since_s, moment_s, side="right") - 1
    return float(rates_bps[begun] / rates_bps[0])
