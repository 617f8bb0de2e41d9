"""MLfabric's schemes on an ideal network, by discrete events: the theory beside what trials measure; and times of
rounds beside a ring's iterations.

A trial of MLfabric-A has as many computed updates as a ring's has gradients; those that are dropped count among them.
So an iteration of either is as many mini-batches, which is what the paper's epochs are made of. Here a round is as many
computed updates as there are workers, and rounds are compared with a ring's iterations. The mean of their times counts,
for some take long by chance: JCT is their sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from testbed.analysis import metrics
from testbed.analysis.papers.evidence import Measured, Values, measure_means, samples_of
from testbed.analysis.recorded import Run, Trial
from testbed.topologies.build import build as build_topology
from testbed.topologies.model import Topology
from testbed.workloads.kinds.asked import Change
from testbed.workloads.kinds.asynchronous.measures import UpdatesMeasures
from testbed.workloads.kinds.fabric import ideal
from testbed.workloads.kinds.fabric.plan import Fabric
from testbed.workloads.kinds.fabric.planning.work import Work
from testbed.workloads.sync.cost import goodput
from testbed.workloads.sync.schemes import build_plan

ABOUT = 0.3
"""Share by which a speed-up may be off the paper's."""
WORKERS = 30
RING = "ring"


def rounds_s(trial: Trial) -> Values:
    """Compute how long (s) each iteration after the warm-up took; of updates, each round of computed ones."""
    samples = samples_of(trial)
    computes_updates = "update" in samples.columns
    found = (UpdatesMeasures() if computes_updates else metrics).iterations_s(samples, trial.warmup)
    return np.asarray(found, np.float64)


def applied_s(trial: Trial) -> Values:
    """Compute how long (s) each iteration after the warm-up took; of updates, each round of those that were applied."""
    return np.asarray(metrics.iterations_s(samples_of(trial), trial.warmup), np.float64)


def speed_up(run: Run | None, arm: str, ring: str, times: Callable[[Trial], Values] = rounds_s) -> Measured:
    """Measure how many times as fast an arm is as the ring."""
    return measure_means(run, [arm, ring], times)


ITERATIONS, TIME = 0, 1
LEVELS = 5
"""From half of the way to the best that both reached."""


def reached_over(at: int, least: float, first: Trial, second: Trial) -> Values:
    """Compute, at each level, :data:`ITERATIONS` or :data:`TIME` of the second trial over the first one's; nothing if
    one has not reached the least quality that is worth comparing, or if it is not known."""
    curves = [_curve(trial) for trial in (first, second)]
    if not all(quality.max(initial=-np.inf) > least for *_, quality in curves):
        return np.array([])
    best = min(quality.max() for *_, quality in curves)
    worst = max(quality[0] for *_, quality in curves)
    levels = np.linspace((worst + best) / 2, best, LEVELS)
    ours, others = ([_reached(curve[at], curve[2], level) for level in levels] for curve in reversed(curves))
    found: Values = np.array(ours) / np.array(others)
    return found


def _curve(trial: Trial) -> tuple[Values, Values, Values]:
    """Iterations that were computed, time (s) and quality, after each iteration that was tested. Of updates,
    quality is found after rounds of applied ones; those that were dropped meanwhile were computed, too."""
    samples = samples_of(trial)
    ends_s = metrics.ends_s(samples)
    done = metrics.mini_batches(samples)
    curve = [(int(at), value) for at, value in trial.accuracy.own_curve or []]
    known = [(float(done.loc[at]), float(ends_s.loc[at]), value) for at, value in curve]
    iterations, times_s, quality = np.array(known, np.float64).reshape(-1, 3).T
    return iterations, times_s, quality


def _reached(moments: Values, quality: Values, level: float) -> float:
    """Return the moment at which a curve is first at a level, which it reaches; linear between its points."""
    after = int(np.argmax(quality >= level))
    if after == 0:
        return float(moments[0])
    before = quality[after - 1]
    share = (level - before) / (quality[after] - before)
    return float(moments[after - 1] + share * (moments[after] - moments[after - 1]))


MTU_BYTES = 1500
COMPUTE = {"C1": (0.1, 2.0), "C2": (0.1, 4.0), "C3": (0.04, 2.0)}
"""Probability that a worker is slow, and by which factor, of each setting (section 7)."""
NETWORK: Mapping[str, Mapping[float, float]] = {
    "N1": {0.5: 0.1, 1.0: 0.9},
    "N2": {0.25: 0.1, 0.33: 0.1, 0.5: 0.1, 1.0: 0.7},
    "N3": {0.1: 0.5, 1.0: 0.5},
    "skewed": {0.1: 0.2, 1.0: 0.8},
}
"""Probability of each share of a NIC's rate, of each setting (section 7)."""
CALM = ""
"""The setting in which no worker is slow, and that in which no rate changes."""
PERIODS = 1000
"""Number of periods whose rates are drawn; no trial that is played here lasts as long."""


@dataclass(frozen=True)
class Asked:
    """Trial to be played: so many rounds of updates of so many bytes.

    Attributes:
        scheme, topology: expressions, as in a spec.
        rate_bps: of each host's link; ``shared_bps`` that of the last link, if it has another one.
        pace_s: how long an update takes to compute.
        compute, network: names of :data:`COMPUTE` and :data:`NETWORK`, or :data:`CALM`.
        every_s: after which time the rates of workers' links change.
    """

    scheme: str
    topology: str
    size_bytes: int
    rate_bps: float
    pace_s: float
    rounds: int
    seed: int = 0
    compute: str = CALM
    network: str = CALM
    every_s: float = 5.0
    shared_bps: float | None = None


PAPERS = Asked(
    "mlfabric_a(delay_bound=30)", "star(hosts=32)", size_bytes=102_228_128, rate_bps=1e10, pace_s=0.1, rounds=16
)
"""MLfabric-A-30 with the paper's 30 workers and ResNet-50."""
PLAYED = (("C1", "N1"), ("C2", "N1"), ("C1", "N2"), ("C1", "N3"))
"""Settings in which it is played."""


def papers(compute: str, network: str) -> ideal.Run:
    """:data:`PAPERS` in a setting."""
    return played(replace(PAPERS, compute=compute, network=network))


@cache
def played(asked: Asked) -> ideal.Run:
    """:func:`play`, once."""
    return play(asked)


def play(asked: Asked, *, makes_sums: bool = False) -> ideal.Run:
    """The whole trial; ``makes_sums`` says that the scheme is synchronous."""
    topology = build_topology(asked.topology, rate_bps=round(asked.rate_bps))
    if asked.shared_bps is not None:
        *links, last = topology.links
        topology = replace(topology, links=(*links, replace(last, rate_bps=round(asked.shared_bps))))
    made = build_plan(asked.scheme, topology, [asked.size_bytes // 4])
    assert isinstance(made, Fabric)
    drawn = np.random.default_rng(asked.seed)
    probability, slowdown = COMPUTE.get(asked.compute, (0.0, 1.0))

    def pace_s(rank: int, iteration: int) -> float:
        del rank, iteration  # all are alike
        return asked.pace_s * (slowdown if drawn.random() < probability else 1.0)

    updates = asked.rounds * len(made.workers)
    work = Work(asked.size_bytes, updates, 0.0, asked.seed, goodput(MTU_BYTES))
    return ideal.run(made, work, pace_s, makes_sums=makes_sums, changes=_changes(asked, topology, made))


def _changes(asked: Asked, topology: Topology, made: Fabric) -> Iterator[Change]:
    """Rates of the workers' links, both directions, drawn anew in each period."""
    if asked.network == CALM:
        return
    drawn = np.random.default_rng((asked.seed, 1))
    links = [link for worker in made.workers for out in topology.ports[worker] for link in (out, out ^ 1)]
    shares, chances = zip(*NETWORK[asked.network].items(), strict=True)
    for period in range(PERIODS):
        chosen = drawn.choice(shares, len(links), p=chances).tolist()
        rates_bps = {link: asked.rate_bps * share for link, share in zip(links, chosen, strict=True)}
        yield Change(period * asked.every_s, rates_bps)


def ring_s(place: tuple[str, str], size_bytes: int = PAPERS.size_bytes) -> float:
    """:func:`ring_of`, of the paper's 30 workers."""
    compute, network = place
    return ring_of(replace(PAPERS, size_bytes=size_bytes, compute=compute, network=network), WORKERS)


def ring_of(asked: Asked, workers: int) -> float:
    """Compute the time that a ring needs at least for an iteration (s), on average: computing, of the slowest worker,
    and 2 (N-1)/N updates over the slowest of the 2 N directions of NICs."""
    probability, slowdown = COMPUTE[asked.compute]
    is_slow = 1 - (1 - probability) ** workers
    alone_s = 8 * asked.size_bytes / asked.rate_bps / goodput(MTU_BYTES)
    return asked.pace_s * (1 + (slowdown - 1) * is_slow) + 2 * (workers - 1) / workers * alone_s * _slowest(
        NETWORK[asked.network], 2 * workers
    )


def _slowest(chances: Mapping[float, float], links: int) -> float:
    """Compute how many times longer the slowest of so many links needs than one with its whole rate, on average."""
    found, above = 0.0, 1.0
    for share in sorted(chances):
        is_above = max(0.0, above - chances[share])  # of one link: that it has more than this share
        found += (above**links - is_above**links) / share
        above = is_above
    return found


def round_s(asked: Asked) -> float:
    """Compute the time (s) that as many updates as there are workers take on an ideal network, on average."""
    return played(asked).jct_s / asked.rounds
