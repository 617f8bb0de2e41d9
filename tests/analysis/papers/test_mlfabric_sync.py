"""MLfabric-S beside a ring and a tree, decided from made-up runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd
import pytest

from testbed.analysis.papers.claim import Finding, Runs, Verdict
from testbed.analysis.papers.mlfabric.sync import GAINS, LARGE, SMALL, slow_messages, sync
from testbed.analysis.record.happened import Event
from testbed.analysis.record.trial import LinkCount
from testbed.analysis.recorded import Trial
from testbed.topologies.build import build as build_topology
from testbed.workloads.kinds.transfers import Purpose

from .made_up import Times, run, trial

RATE_BPS = 10**8
HOSTS, SERVER = 5, 3
OVER_RING = "iterations of MLfabric-S over a ring's"
Sent = Sequence[tuple[int, float]]


def connected(found: Trial, slow: Sequence[int], hosts: int = HOSTS) -> Trial:
    """The same on a network that is known; links towards these hosts have a quarter of their rate."""
    topology = build_topology(f"star(hosts={hosts})", rate_bps=RATE_BPS)
    ends = [(topology.nodes[topology.tail(i)].name, topology.nodes[topology.head(i)].name) for i in range(2 * hosts)]
    links = tuple(LinkCount(i, *end, RATE_BPS, None, None, None) for i, end in enumerate(ends))
    into = {topology.ports[host][0] ^ 1: RATE_BPS / 4 for host in slow}
    event = Event("rates", "some", done_s=-1.0, rates_bps=into)
    return replace(found, topology=topology.expression, links=links, events=(event,))


def scheduled(label: str, iteration_s: float, sent: Sent, slow: Sequence[int]) -> Trial:
    """A trial whose updates go to these nodes, at a share of each iteration's time."""
    found = connected(trial(label, 1, Times(iteration_s / 2, iteration_s / 2)), slow)
    assert found.samples is not None
    starts_s = found.samples.groupby("iteration")["start_s"].min()
    rows = [
        (0, to, int(Purpose.UPDATE), 1, 1.0, start_s + share * iteration_s, start_s + iteration_s, None)
        for start_s in starts_s
        for to, share in sent
    ]
    names = ["from", "to", "purpose", "members", "size_bytes", "start_s", "end_s", "arrived_s"]
    vars(found)["transfers"] = pd.DataFrame(rows, columns=names)
    return found


def told(label: str, iteration_s: float, slow: Sequence[int] = (), hosts: int = HOSTS) -> Trial:
    """A trial without transfers."""
    found = connected(trial(label, 1, Times(iteration_s / 2, iteration_s / 2)), slow, hosts)
    vars(found)["transfers"] = None
    return found


def measured(changed: Mapping[str, float] = {}) -> Runs:
    """As in the paper, but for what is named."""
    times_s = {
        "C2-N1": 0.84,
        "C2-N2": 1.5,
        "tree": 1.5 / GAINS["ResNet-50"],
        "large": 1.2,
        "large tree": 1.2 / GAINS["ResNet-152"],
    } | changed
    direct: Sent = [(SERVER, 0.5)] * 23
    small = [
        *(told(f"ring, {place}", 1.0) for place in ("C2-N1", "C2-N2")),
        *(scheduled(f"S, {place}", times_s[place], [*direct, (1, 0.5)], [1]) for place in ("C2-N1", "C2-N2")),
        told("tree, C2-N2", times_s["tree"], [2], 12),
    ]
    large = [
        told("ring, C2-N1", 1.0),
        scheduled("S, C2-N1", times_s["large"], direct, ()),
        scheduled("S, C2-N2", 1.2, direct, ()),
        told("tree, C2-N2", times_s["large tree"]),
    ]
    return {SMALL.spec: run(small), LARGE.spec: run(large)}


def failing(found: Finding) -> list[str]:
    return [check.says for check in found.checks if check.verdict == Verdict.FAILS]


def test_as_the_paper_has_it() -> None:
    found = sync(measured())
    assert found.verdict == Verdict.HOLDS, [check for check in found.checks if check.verdict != Verdict.HOLDS]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"C2-N1": 0.97}, f"{OVER_RING}, ResNet-50, C2-N1: by as much as in the paper, within 30% of that"),
        ({"C2-N1": 1.1}, f"{OVER_RING}, ResNet-50, C2-N1: MLfabric-S is faster"),
        (
            {"C2-N2": 4.0},
            f"{OVER_RING}, ResNet-50, C2-N2: the ring is 1.2 to 2 times as fast",
        ),
        ({"large": 0.9}, f"{OVER_RING}, ResNet-152, C2-N1: the ring is faster"),
        (
            {"tree": 1.5 / 0.95},
            "communication of MLfabric-S over a tree's, ResNet-50, C2-N2: by as much as in the paper, "
            "within 30% of that",
        ),
        ({"tree": 1.4}, "communication of MLfabric-S over a tree's, ResNet-50, C2-N2: it takes less"),
    ],
)
def test_otherwise(changed: Mapping[str, float], says: str) -> None:
    assert says in failing(sync(measured(changed)))


def test_messages_over_slow_links() -> None:
    """Host 1 has a quarter of its rate. Of ten messages of an iteration one goes there."""
    assert set(slow_messages(scheduled("S", 1.0, [(SERVER, 0.5)] * 9 + [(1, 0.7)], [1]))) == {10.0}


def test_messages_of_a_tree() -> None:
    """In a binary tree of five hosts, 1, 2 and 4 send to 0, and 3 to 2."""
    assert set(slow_messages(told("tree", 1.0, [0]))) == {75.0}
    assert set(slow_messages(told("tree", 1.0, [2]))) == {25.0}


def test_of_a_network_of_a_users_own_no_link_is_known() -> None:
    assert not len(slow_messages(replace(told("tree", 1.0), topology="./mine.py:net", links=())))
