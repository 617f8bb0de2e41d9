"""PLink Collectives (chapter 5 of the PHub thesis): its claims, and what measures and decides them here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from testbed.analysis.papers import collectives_programs
from testbed.analysis.papers.claim import Claim, Experiment, Finding, Paper, Row, Runs, Statement, true, within
from testbed.analysis.papers.collectives_programs import BEST, WORST
from testbed.analysis.papers.collectives_theory import (
    BOUNDS,
    EXAMPLES,
    HOSTS,
    LIGHTGBM,
    MODELS,
    annealed_over_optimum,
    bound,
    ends,
    lightgbm,
    near_and_far,
    of_64_hosts,
    two_racks,
)
from testbed.analysis.papers.evidence import (
    GST,
    Measured,
    Values,
    by_bounds,
    extreme,
    gst_s,
    mean_of,
    measure,
    over_forest,
    pooled,
    slower,
    spearman,
    sum_to_sum_s,
    where,
)
from testbed.analysis.recorded import Run, Trial
from testbed.base.extras import install
from testbed.workloads.ranks.costs import COSTS
from testbed.workloads.ranks.exact import is_installed
from testbed.workloads.ranks.orders import by_chance

EXACT = 1e-9
UP_TO = 3.7
"""The thesis's largest speed-up of the best order over the worst one (figure 6.16)."""


def modelled(_: Runs) -> Finding:
    """Costs of orders beside least times of forests: worked examples, and what annealing by each cost finds."""
    near, far = near_and_far()
    forests = {scheme: (bound(scheme, near), bound(scheme, far)) for scheme in BOUNDS}
    rows = [
        Row(f"{scheme}: worst / best, forest", "x", UP_TO if scheme == "ring" else None, worst / best)
        for scheme, (best, worst) in forests.items()
    ]
    checks = [
        _same(f"{cost}, 8 ranks in 2 racks: least, most, by number", two_racks(cost), by_hand)
        for cost, by_hand in EXAMPLES.items()
    ]
    checks += [
        _same(f"{scheme}, {HOSTS} hosts in 4 racks: M/B in a good and in a bad order", forests[scheme], by_hand)
        for scheme, by_hand in BOUNDS.items()
    ]
    checks.append(_same("LightGBM's reduce-scatter, in S/B", tuple(lightgbm().values()), tuple(LIGHTGBM.values())))
    for model in MODELS:
        found = ends(model)
        rows += [
            Row(f"{model.name}: worst / best, cost", "x", theory=found.costs[1] / found.costs[0]),
            Row(f"{model.name}: GST in the best order found", "M/B", theory=found.bounds[0]),
            Row(f"{model.name}: GST in the worst order found", "M/B", theory=found.bounds[1]),
        ]
        if model.scheme == "ring":
            says = "a ring's best and worst order by cost are those of its forest"
            checks.append(_same(says, found.bounds, BOUNDS["ring"]))
    return Finding(
        tuple(rows),
        tuple(checks),
        (
            "M/B are the bytes of the gradient over the rate of a host's link. By latency, a transfer costs 1 within "
            "and 3 between racks; by bytes, it costs 4 times as much between racks.",
            "The thesis has rings gain most (6.3.3). Bytes let halving-doubling and BCube gain as much. By latency "
            "alone, their rounds look alike: the best order may have racks in the high bits of ranks, and send most "
            "bytes between racks.",
            "C_dbt is the cost of the thesis's trees. Testbed's double binary trees are others, so its best order is "
            "not the best one for them.",
        ),
    )


def _same(says: str, ours: Sequence[float], by_hand: Sequence[float]) -> Statement:
    texts = [", ".join(f"{value:g}" for value in some) for some in (ours, by_hand)]
    is_so = all(math.isclose(a, b, rel_tol=EXACT) for a, b in zip(ours, by_hand, strict=True))
    return true(f"{says}: {texts[1]}", is_so, f"it is {texts[0]}")


SEEDS, MOST_RATIO, MOST_S = 20, 1.02, 10.0


def solver(_: Runs) -> Finding:
    """Annealed rings beside proven ones, and how long 64 hosts take on the machine that makes the page."""
    proven = [times for seed in range(SEEDS) if (times := annealed_over_optimum(seed)) is not None]
    missing = "the solver did not prove it" if is_installed() else install("collectives")
    doubts = (f"{SEEDS - len(proven)} seeds: {missing}",) if len(proven) < SEEDS else ()
    ratio = Row(
        f"annealed cost / proven optimum, rings of {HOSTS}, at most",
        "x",
        theory=1.0,
        ours=extreme(Measured(() if doubts else tuple(proven), "seeds", 0, 0, doubts)),
    )
    took = {cost: of_64_hosts(cost).took_s for cost in COSTS}
    rows = [
        Row(f"64 hosts, {cost}", "s", ours=extreme(Measured((took_s,), "searches", 0, 0)))
        for cost, took_s in took.items()
    ]
    return Finding(
        (ratio, *rows),
        (
            within(f"{ratio.name}: {MOST_RATIO:g}", ratio, high=MOST_RATIO),
            *(within(f"{row.name}: {MOST_S:g} s at most", row, high=MOST_S) for row in rows),
        ),
        (
            "Seconds of this machine, which made this page, with whatever else ran on it. benchmarks/rank_orders.py "
            "has the same numbers. The thesis lets its solver run for a few minutes after annealing.",
        ),
    )


FULL = ("repeats=5",)
REORDER = Experiment("collectives/reorder.yaml", (), FULL, GST)
RING, GLOO = "ring", "Gloo"
SCHEMES = {RING: "ring", GLOO: "gloo"}
"""Schemes whose best and worst order follow from the racks, whatever noise probes have."""
OTHERS = ("halving-doubling", "halving-doubling, linear", "BCube", "double binary tree")
ABOUT, ABOVE_RING = 0.1, 1.05


def reorder(runs: Runs) -> Finding:
    """Time of a sum in the worst order over that in the best one, beside the same ratio of these orders' forests."""
    run, near_far = runs.get(REORDER.spec), near_and_far()
    rows, checks = [], []
    for name in (RING, GLOO, *OTHERS):
        arms = _ends(name)
        if name in SCHEMES:
            best, worst = (bound(SCHEMES[name], order) for order in near_far)
            theory: float | None = worst / best
        else:
            theory = _median(measure(run, arms, by_bounds, number=GST))
        row = Row(
            f"{name}: worst / best",
            "x",
            UP_TO if name == RING else None,
            theory,
            measure(run, arms, longer, number=GST),
        )
        rows.append(row)
        low, high = ((1 - ABOUT) * theory, (1 + ABOUT) * theory) if theory else (-np.inf, np.inf)
        checks.append(within(f"{row.name}: the forests' ratio, within {ABOUT:.0%}", row, low, high))
    more = [
        Row(
            f"{name}: worst / best, over the ring's",
            "x",
            ours=measure(run, _ends(RING) + _ends(name), gain_over, number=GST),
        )
        for name in (GLOO, *OTHERS)
    ]
    checks += [within(f"{row.name}: {ABOVE_RING:g} at most", row, high=ABOVE_RING) for row in more]
    bounds = [
        Row(f"{arm}: a sum's time over its forest's bound", "x", theory=1.0, ours=over_forest(run, arm))
        for name in (RING, GLOO, *OTHERS)
        for arm in _ends(name)
    ]
    return Finding(
        (*rows, *more, *bounds),
        tuple(checks),
        (
            "A sum's time is that from a rank's sum to its next one, the mean over ranks; nothing is computed in "
            "between. GST counts from the last gradient on, and in a bad order most ranks have sent theirs by then.",
            "The thesis has speed-ups from 1.1 to 3.7 on 512 hosts of a cloud whose oversubscription it does not give, "
            "and rings gain most.",
            "A ring's best order leaves each rack once, and its worst one with every hop. Of the others, theory is "
            "that of the orders that were found: their costs count latency, or latency and the bandwidth of pairs, "
            "and no cost counts that hosts of a rack share its uplink.",
        ),
    )


def _ends(name: str) -> list[str]:
    """Return the labels of a scheme's arms in ``reorder.yaml``."""
    return [f"{name}, {order}" for order in (BEST, WORST)]


def longer(best: Trial, worst: Trial) -> Values:
    """Time from sum to sum in the worst order over that in the best one, iteration by iteration."""
    times: Values = sum_to_sum_s(worst) / sum_to_sum_s(best)
    return times


def gain_over(ring_best: Trial, ring_worst: Trial, best: Trial, worst: Trial) -> Values:
    """How much more a scheme gains than the ring, iteration by iteration."""
    times: Values = longer(best, worst) / longer(ring_best, ring_worst)
    return times


def _median(measured: Measured) -> float | None:
    return float(np.median(measured.samples)) if measured.samples else None


ORDERS = Experiment("collectives/orders.yaml", (), (*FULL, "arms.0.order=random(draw=1..100)"), GST)
RANDOM = "random"
NO_FASTER, LEAST_GAIN = 1.03, 3.0


def random_orders(runs: Runs, draws: Sequence[int]) -> Finding:
    """A ring in the best order beside random ones; ``draws`` are their seeds."""
    run = runs.get(ORDERS.spec)
    theory = [bound(RING, by_chance(HOSTS, draw)) for draw in draws]
    best, _ = BOUNDS[RING]
    over_best = [measure(where(run, draw=draw), [BEST, RANDOM], slower, number=GST) for draw in draws]
    under = [measure(where(run, draw=draw), [RANDOM, BEST], slower, number=GST) for draw in draws]
    median, slowest = (
        Row(f"{name} random order / best", "x", None, float(of(theory)) / best, mean_of(over_best, of))
        for name, of in (("median", np.median), ("slowest", np.max))
    )
    fastest = Row("best / fastest random order", "x", None, best / min(theory), mean_of(under, np.max))
    return Finding(
        (median, fastest, slowest),
        (
            within(f"{fastest.name}: {NO_FASTER:g} at most", fastest, high=NO_FASTER),
            within(f"{median.name}: {LEAST_GAIN:g} at least", median, LEAST_GAIN),
        ),
        (
            f"{len(draws)} draws, where the thesis has 500, and shows their times as a picture. An interval is that of "
            "measuring these draws, and says nothing of others.",
            "A random order is as slow as the worst one if it has one rack all of whose hosts send to other racks.",
        ),
    )


SPEARMAN = Experiment("collectives/spearman.yaml", ("where=[\"label != 'Open MPI'\"]",), FULL, GST)
MPI = "Open MPI"
PERCENTILES = range(10, 101, 10)
TABLE_6_4 = {GLOO: (0.58, 0.78), MPI: (0.81, 0.94)}
"""Spearman's coefficients on Azure and on EC2."""


def prediction(runs: Runs) -> Finding:
    """Spearman's coefficient between predicted costs of orders and GST."""
    run = runs.get(SPEARMAN.spec)
    rows = [
        Row(f"{name}: Spearman's coefficient", "", stated, *_coefficient(run, name))
        for name, stated in TABLE_6_4.items()
    ]
    least = TABLE_6_4[GLOO][0]
    return Finding(
        tuple(rows),
        (within(f"{rows[0].name}: {least:g} at least", rows[0], least),),
        (
            "Theory is the coefficient between predicted costs and the least times of the forests of the same orders. "
            "Costs add up hops, and the time is that of the busiest uplink.",
            "Ten orders: one for each tenth of the way from the best cost to the worst one. The thesis has ten, on 64 "
            "hosts of two clouds. Open MPI decides nothing: its ranks poll, and so does each trial of it take all "
            "cores that it gets. It has 8 ranks, and is measured with --full only.",
        ),
    )


def _coefficient(run: Run | None, label: str) -> tuple[float | None, Measured]:
    """Return the coefficient by forests, and the measured one."""
    parts, predicted, least = [], [], []
    for percentile in PERCENTILES:
        here = where(run, percentile=percentile)
        parts.append(measure(here, [label], gst_s, number=GST))
        predicted.append(_median(measure(here, [label], predicted_s, number=GST)))
        least.append(_median(measure(here, [label], least_s, number=GST)))
    together = replace(pooled(parts), fitted=None)
    if not all(part.samples for part in parts):
        return None, replace(together, samples=())
    costs = np.array(predicted, np.float64)
    theory = spearman(costs, [np.array([each, each]) for each in least]).value
    return theory, replace(together, fitted=spearman(costs, [np.array(part.samples) for part in parts]))


def predicted_s(trial: Trial) -> Values:
    """Return the predicted cost (s) of the order that was found, as the only sample."""
    search = trial.found[0].search
    assert search is not None  # an order was found
    return np.array([search.cost_s])


def least_s(trial: Trial) -> Values:
    """Return the least GST (s) that the forest of this order allows, as the only sample."""
    return np.array([trial.metrics.gst_theory_s or math.nan])


PAPER = Paper(
    "collectives",
    "PLink Collectives: orders of ranks that cost little, found by probes (PHub thesis, chapter 5)",
    (
        Claim(
            "coll.costs",
            "A cost model of each collective tells good orders of ranks from bad ones.",
            "section 5.2.1",
            modelled,
            assumes=("Racks, and what a transfer costs within and between them, are ours: the thesis gives none.",),
            computes_s=20.0,
        ),
        Claim(
            "coll.solver",
            "Annealing finds orders that an exact solver can hardly improve.",
            "section 5.2.3",
            solver,
            assumes=(
                f"Limits are ours: {MOST_RATIO:g} times the proven optimum, and {MOST_S:g} s. CP-SAT of OR-Tools is "
                "the exact solver, where the thesis has Z3.",
            ),
            computes_s=50.0,
        ),
        Claim(
            "coll.reorder",
            "The best order is 1.1 to 3.7 times as fast as the worst one, and rings gain most.",
            "section 6.3.3, figure 6.16",
            reorder,
            (REORDER,),
            (
                f"{HOSTS} hosts in four racks at oversubscription 4, where the thesis has 512 of a cloud. NCCL and the "
                "OSU benchmarks have no counterpart here.",
            ),
        ),
        Claim(
            "coll.random",
            "Random orders of a ring differ widely in time, and the best order is at least as fast as all of them.",
            "section 5.1, figure 5.1",
            partial(random_orders, draws=range(1, 16)),
            (ORDERS,),
            ("The least gain over the median is ours: 3, from the bounds of forests.",),
            partial(random_orders, draws=range(1, 101)),
        ),
        Claim(
            "coll.spearman",
            "Predicted costs of orders rank them as their times do.",
            "section 6.3.2, table 6.4",
            prediction,
            (SPEARMAN,),
            ("The 10i-th percentile of costs is read as best + i/10 (worst - best).",),
        ),
        *collectives_programs.CLAIMS,
    ),
    prefix="coll",
)
