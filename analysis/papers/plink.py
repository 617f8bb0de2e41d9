"""PLink (Parameter Link, chapter 4 of the PHub thesis): its claims, and what measures and decides them here."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from testbed.analysis.papers.claim import Claim, Experiment, Finding, Paper, Row, Runs, falling, near, true, within
from testbed.analysis.papers.evidence import (
    GST,
    Measured,
    Values,
    extreme,
    mean_of,
    measure,
    measure_means,
    over_forest,
    pooled,
    slower,
    where,
)
from testbed.analysis.papers.forests import bound_s, network
from testbed.analysis.papers.plink_theory import GRID, ROWS, Costs, exact
from testbed.analysis.papers.plink_tuning import AUTOTUNE, SWITCH, autotune, switch
from testbed.analysis.recorded import Run, Trial
from testbed.analysis.theory.probed_cloud import Cloud, groups_are_racks, points, shared_information
from testbed.topologies.call import parse
from testbed.topologies.cloud import places
from testbed.workloads.locality.distances import by_observer
from testbed.workloads.locality.probe_embed import embed
from testbed.workloads.sync.cost import cost
from testbed.workloads.sync.forest import ROOT
from testbed.workloads.sync.schemes import build

EXACT = 1e-9
QUANTITIES: tuple[tuple[str, Callable[[Costs], float]], ...] = (
    ("rounds", lambda costs: costs.rounds),
    ("bytes on the wire / S", lambda costs: costs.wire),
    ("bytes between racks / S", lambda costs: costs.between),
)


def table_4_1(_: Runs) -> Finding:
    """Table 4.1 by forests: shown for four racks of four, decided for all sizes of ``testbed theory``."""
    rows, checks, notes = [], [], []
    for row in sorted(ROWS, key=lambda row: row.scheme != "two_level"):
        costs = {(n, c): (row.paper(n, c), exact(row.scheme.format(c=c), n, c)) for n, c in GRID}
        for quantity, of in QUANTITIES:
            paper, ours = map(of, costs[4, 4])
            rows.append(Row(f"{row.name}: {quantity}", "", paper, ours))
            off = [
                f"with N = {n} and C = {c} it is {of(ours):g}, where the table has {of(paper):g}"
                for (n, c), (paper, ours) in costs.items()
                if not math.isclose(of(ours), of(paper), rel_tol=EXACT)
            ]
            checks.append(true(f"{row.name}: {quantity} as the table has them", not off, "".join(off[:1])))
        if row.why:
            notes.append(f"{row.name}: {row.why}")
    return Finding(tuple(rows), tuple(checks), ("Rows are those of N = 4 hosts in each of C = 4 racks.", *notes))


PROBE = Experiment("plink/probe.yaml", (), ("repeats=5",), GST)
LATENCY, BANDWIDTH, ALPHAS = "latency", "bandwidth", (1, 2)
IDLE, TENANTS = "idle", "other tenants"
LABELS = {
    (IDLE, LATENCY): LATENCY,
    (IDLE, BANDWIDTH): BANDWIDTH,
    (TENANTS, LATENCY): f"{LATENCY}, {TENANTS}: ours",
    (TENANTS, BANDWIDTH): f"{BANDWIDTH}, {TENANTS}: ours",
}
"""Labels of trials in ``probe.yaml``."""
PAPERS_PAIA = {LATENCY: 95.6, BANDWIDTH: 77.4}
PROBED_S = 30.0
LEAST_PAIA = 99.0
SEEDS, LEAST_SEEDS, NOISE_MS = 100, 95, 0.1


def probe(runs: Runs) -> Finding:
    """Distances that hosts measured, and groups that were found, beside the racks that the cloud hides."""
    run = runs.get(PROBE.spec)
    accuracy = {
        (state, by): Row(
            f"PAIA by {by}, {state}",
            "%",
            PAPERS_PAIA[by] if state == IDLE else None,
            ours=_by_host(run, (state, by), probed_paia),
        )
        for state, by in LABELS
    }
    embedded = [
        Row(
            f"PAIA by {LATENCY}, {state}, embedded, alpha {alpha}",
            "%",
            ours=_by_host(run, (state, LATENCY), partial(probed_paia, alpha=alpha)),
        )
        for state in (IDLE, TENANTS)
        for alpha in ALPHAS
    ]
    in_racks = [
        Row(f"hosts whose group is their rack, {by}, {state}", "%", ours=_by_host(run, (state, by), in_its_rack))
        for state, by in LABELS
    ]
    took = [
        Row(f"16 hosts probe each other, {by}, at most", "s", ours=_longest(run, LABELS[IDLE, by]))
        for by in (LATENCY, BANDWIDTH)
    ]
    right = groups_are_racks(Cloud(2, 2, 4, NOISE_MS), 1, SEEDS)
    seeds = Row(f"seeds of {SEEDS} with which groups are the racks, simulated", "", theory=right)
    first, bandwidth = accuracy[IDLE, LATENCY], accuracy[IDLE, BANDWIDTH]
    return Finding(
        (*accuracy.values(), *embedded, *in_racks, *took, seeds),
        (
            within(f"{first.name}: {LEAST_PAIA:g} % or more", first, LEAST_PAIA),
            falling("probes of latency are more accurate than those of bandwidth", [first, bandwidth]),
            within("by latency, groups are the racks in each idle trial", in_racks[0], low=100.0, high=100.0),
            *(within(f"{row.name} {PROBED_S:g} s", row, high=PROBED_S) for row in took),
            within(
                f"groups are the racks with {LEAST_SEEDS} % of the seeds or more, noise of {NOISE_MS:g} ms",
                seeds,
                LEAST_SEEDS / 100 * SEEDS,
            ),
        ),
        (
            "A sample of PAIA is the share of one host's triplets. The thesis probed 64 hosts in 61 racks of two "
            "datacenters; its values stand beside ours and decide nothing.",
            "Rows do not block here, so a burst does not tell a host of the same row from one of the other row.",
        ),
    )


def _by_host(run: Run | None, cell: tuple[str, str], values: Callable[[Trial], Values]) -> Measured:
    """Return the mean over hosts and over trials; idle ones are run with each alpha, on which probes do not depend."""
    alphas = ALPHAS if cell[0] == IDLE else ALPHAS[:1]
    parts = [measure_means(where(run, alpha=alpha), [LABELS[cell]], values, number=GST) for alpha in alphas]
    return pooled(parts, parts[0].of.replace("iterations", "hosts"))


def _longest(run: Run | None, label: str) -> Measured:
    """Return how long hosts probed in the trial in which it took longest."""
    parts = [measure(where(run, alpha=alpha), [label], took_s, number=GST) for alpha in ALPHAS]
    return extreme(pooled(parts, "trials"))


def probed_paia(trial: Trial, alpha: float = 0.0) -> Values:
    """Return each host's PAIA in per cent, float64[hosts], of distances as probed, or embedded with ``alpha``."""
    measured = np.array(list(trial.found[0].measured.values()), dtype=np.float64)
    truth = places(network(trial.topology))
    distances = embed(measured, alpha=alpha).distances if alpha else measured
    return 100 * by_observer(list(zip(truth.rows, truth.racks, strict=True)), distances)


def in_its_rack(trial: Trial) -> Values:
    """Return 100 for each host whose group is all that the job has of its rack, and nobody else; else 0."""
    groups = parse(str(trial.found[0].settings["scheme"]), "two_level").arguments["groups"]
    assert isinstance(groups, tuple)
    members = [{str(name) for name in group} for group in groups if isinstance(group, tuple)]
    ours, net = set().union(*members), network(trial.topology)
    racks = [{net.nodes[host].name for host in rack} & ours for rack in places(net).groups]
    return np.array([100.0 * (group in racks) for group in members for _ in group])


def took_s(trial: Trial) -> Values:
    """Return for how long hosts probed (s), as the only sample."""
    return np.array([trial.found[0].took_s])


DRAWS, GROUPINGS = 3, 40
LEAST_GAIN, ABOUT_RAW = 3.0, 0.05
THESIS_RAW, THESIS_GAINS, FIGURE_4_4 = 81.3, {1: 5.0, 2: 8.1}, {1: 0.59, 2: 0.76}
NOISY = Cloud(4, 4, 4, 2.0)
SHOWN = (
    ("one row of 4 x 4 hosts", Cloud(1, 4, 4, 2.0)),
    ("20 pairs take 50 ms more", Cloud(4, 4, 4, 0.1, outliers=20)),
)


def embedding(_: Runs) -> Finding:
    """Accuracy of simulated probes, as probed and embedded, and how alike groupings are."""
    raw = points(NOISY, 1, 2, DRAWS)[0]
    gains = {
        (alpha, dimensions): Row(
            f"gain by alpha {alpha}, {dimensions} dimensions",
            "points",
            THESIS_GAINS[alpha],
            points(NOISY, alpha, dimensions, DRAWS)[1] - raw,
        )
        for dimensions in (2, 3)
        for alpha in ALPHAS
    }
    probed = Row("PAIA as probed", "%", THESIS_RAW, raw)
    shown = []
    for name, cloud in SHOWN:
        for alpha in ALPHAS:
            before, after = points(cloud, alpha, 2, DRAWS)
            shown.append(Row(f"gain by alpha {alpha}, {name}", "points", theory=after - before))
    alike = [
        Row(f"information that groupings share, alpha {alpha}", "", figure, shared_information(NOISY, alpha, GROUPINGS))
        for alpha, figure in FIGURE_4_4.items()
    ]
    return Finding(
        (*gains.values(), probed, *shown, *alike),
        (
            near(f"PAIA as probed is the thesis's, within {ABOUT_RAW:.0%}", probed, ABOUT_RAW),
            *(within(f"{row.name}: {LEAST_GAIN:g} points or more", row, LEAST_GAIN) for row in gains.values()),
        ),
        (
            "Simulated: 4 rows of 4 racks of 4 hosts, whose round trips are 0.15, 2.15 and 4.15 ms, and exponential "
            "noise of 2 ms. The thesis gives neither its noise nor its dimensions.",
            "Where an embedding loses: racks of one row are equally far from each other, which takes three dimensions; "
            "and a few probes that take far too long bend all of it.",
            f"Information is adjusted and mutual, of {GROUPINGS} groupings of one embedding. A larger alpha does not "
            "make them more alike here.",
        ),
    )


QUICK, FULL = ("where=['draw <= 5']",), ("repeats=5",)
GROUPING = Experiment("plink/grouping.yaml", QUICK, FULL, GST)
FLAT, PROBED, EQUAL, RANDOM, TRUTH = "flat", "probed", "probed equal", "random", "truth"
UNEQUAL = ", unequal racks"
OVERSUBSCRIBED = {2: (1.3, 1.5), 4: (3.9, 3.0)}
"""Speed-ups over random groups by oversubscription: the thesis's, which is only shown, and the least that is asked.
The thesis does not give its oversubscription."""
BY_LUCK = 1.15
"""Speed-up over groups by racks, where racks have unlike sizes (section 6.2.4)."""
BOUND, OF_FOREST, OF_TRUTH = "a sum's time over its forest's bound", 1.05, 1.02
ALL = f"two_level(groups=[[{','.join(map(str, range(16)))}]])"


def grouping(runs: Runs, draws: Sequence[int]) -> Finding:
    """GST of 2LHA by its groups; ``draws`` are the seeds of random groups."""
    run, rows, forests, checks = runs.get(GROUPING.spec), [], [], []
    for oversubscription, (thesis, least) in OVERSUBSCRIBED.items():
        here, name = where(run, oversubscription=oversubscription), f"oversubscription {oversubscription}"
        bound = partial(bound_s, f"cloud(oversubscription={oversubscription})")
        truth_s = bound("two_level(groups=truth)")
        random_s = float(np.median([bound(f"two_level(groups=random,draw={draw})") for draw in draws]))
        by_draw = [measure(where(here, draw=draw), [PROBED, RANDOM], slower, number=GST) for draw in draws]
        over_probed = Row(
            f"{RANDOM} over {PROBED}, {name}", "x", thesis, random_s / truth_s, mean_of(by_draw, np.median)
        )
        flat = Row(
            f"{FLAT} over {TRUTH}, {name}",
            "x",
            theory=bound(ALL) / truth_s,
            ours=measure(here, [TRUTH, FLAT], slower, number=GST),
        )
        as_truth = Row(
            f"{PROBED} over {TRUTH}, {name}", "x", theory=1.0, ours=measure(here, [TRUTH, PROBED], slower, number=GST)
        )
        rows += [over_probed, flat, as_truth]
        by_arm = {arm: over_forest(here, arm) for arm in (FLAT, PROBED, TRUTH)}
        by_arm[RANDOM] = mean_of([over_forest(where(here, draw=draw), RANDOM) for draw in draws], np.median)
        forests += [Row(f"{arm}, {name}: {BOUND}", "x", theory=1.0, ours=ours) for arm, ours in by_arm.items()]
        checks += [
            within(f"{over_probed.name}: {least:g} times or more", over_probed, least),
            within(f"{as_truth.name}: {OF_TRUTH:g} at most", as_truth, high=OF_TRUTH),
        ]
    unequal = [f"{arm}{UNEQUAL}" for arm in (EQUAL, PROBED, TRUTH)]
    for label in unequal[:-1]:
        ours = measure(run, [label, unequal[-1]], slower, number=GST)
        rows.append(Row(f"{TRUTH} over {label}", "x", BY_LUCK, ours=ours))
    forests += [Row(f"{arm}: {BOUND}", "x", theory=1.0, ours=over_forest(run, arm)) for arm in unequal]
    checks += [within(f"{row.name}: {OF_FOREST:g} at most", row, high=OF_FOREST) for row in forests]
    return Finding(
        (*rows, *forests),
        tuple(checks),
        (
            f"Random is the median of {len(draws)} draws. The thesis has the expected gain on two clouds whose "
            "oversubscription it does not give, so its 1.3 and 3.9 stand beside 2 and 4 and decide nothing.",
            "Racks of 7, 5, 3 and 1 hosts: the thesis's 1.15 is of racks whose sizes it does not give. By forests, "
            "groups of four in the order of racks take 0.83 of the racks' time. With an elasticity of 1.5, k-means "
            "keeps the rack of seven whole, and it bounds the time as it does with groups by racks.",
        ),
    )


K = Experiment("plink/k.yaml", (), ("repeats=5", "workload.iterations=12"), GST)
COUNTS, HOSTS, LARGE, AS_LONG = (2, 4, 8), 16, 64, 0.05


def arm(count: int) -> str:
    """Return the label of an arm of ``k.yaml``."""
    return f"k = {count}"


def group_count(runs: Runs) -> Finding:
    """Messages and bytes by forests, and GST, for several numbers of groups."""
    run = runs.get(K.spec)
    by_k = {k: _loads(LARGE, k) for k in (2, 4, 8, 16, 32)}
    messages = [
        Row(f"messages to a GM, {LARGE} hosts, k = {k}", "", LARGE / k - 1 + k - 1, most)
        for k, (most, _) in by_k.items()
    ]
    wire = [
        Row(f"bytes of the busiest link / S, {LARGE} hosts, k = {k}", "", theory=share)
        for k, (_, share) in by_k.items()
    ]
    root, (least, *_) = math.isqrt(HOSTS), sorted(by_k, key=lambda k: by_k[k][0])
    times = [
        Row(
            f"GST, {HOSTS} hosts, {arm(k)} over {arm(root)}",
            "x",
            theory=_loads(HOSTS, k)[1] / _loads(HOSTS, root)[1],
            ours=measure(run, [arm(root), arm(k)], slower, number=GST),
        )
        for k in COUNTS
        if k != root
    ]
    same = all(math.isclose(row.theory or 0.0, wire[0].theory or 0.0, rel_tol=EXACT) for row in wire)
    return Finding(
        (*times, *messages, *wire),
        (
            *(near(f"{row.name}: as equation 4.2 counts", row, EXACT) for row in messages),
            true("a GM has fewest messages with k = 8 of 64 hosts", least == math.isqrt(LARGE), f"with k = {least}"),
            true("the busiest link has as many bytes with any k", same, "it has not"),
            *(within(f"{row.name}: as long, within {AS_LONG:.0%}", row, 1 - AS_LONG, 1 + AS_LONG) for row in times),
        ),
        (
            "There is no k with which GST is least. The thesis takes a GM's messages for its bytes; but each host is "
            "GM of its part of the gradient and LM of others, so in equal groups all hosts send and receive "
            "2(n - 1) / n of the gradient, whatever k is. Only the number of messages has its least value at the root "
            "of n, and messages take no time here but for their bytes.",
        ),
    )


def _loads(hosts: int, k: int) -> tuple[float, float]:
    """Return the messages that a GM receives of a chunk, at most, and the bytes of the busiest link over S."""
    net = network(f"star(hosts={hosts})")
    forest = build(f"two_level(groups=random,k={k})", net, [])
    masters = np.argmax(forest.reduce == ROOT, axis=1)
    received = (forest.reduce == masters[:, None]).sum(axis=1)
    return float(received.max()), float(cost(forest, net, 1.0).link_bytes.max())


PAPER = Paper(
    "plink",
    "PLink: groups of near hosts found by probes, and aggregation on them (PHub thesis, chapter 4)",
    (
        Claim(
            "plink.table4.1",
            "Rounds, bytes on the wire and bytes between racks of five algorithms. 2LHA takes 4 rounds however many "
            "hosts there are, has no more bytes on the wire than a sharded PS, and 1/N of its bytes between racks.",
            "section 4.1.1, table 4.1",
            table_4_1,
        ),
        Claim(
            "plink.probe",
            "Probes tell which hosts are near each other, those of latency better than those of bandwidth. All pairs "
            "are probed in as many rounds as there are hosts.",
            "sections 4.2.1, 5.2.2 and 6.2.5",
            probe,
            (PROBE,),
            (
                "16 hosts in 2 rows of 2 racks, where the thesis has 64. A packet takes 1 ms from rack to rack, and 2 "
                "ms from row to row. Limits are ours: 99 %, 30 s, and groups that are the racks.",
                "200 round trips for each pair and direction, where the thesis has 10,000 by DPDK.",
            ),
            computes_s=7.0,
        ),
        Claim(
            "plink.embedding",
            "An embedding makes probes more accurate: by 5.0 points of PAIA with alpha 1, and 8.1 with alpha 2.",
            "sections 4.2.1 and 6.2.5, figure 4.4",
            embedding,
            assumes=("The noise is ours, and so is the least gain: 3 points.",),
            computes_s=8.0,
        ),
        Claim(
            "plink.2lha",
            "2LHA on groups that probes find takes 1/1.3 and 1/3.9 of the time of 2LHA on balanced random groups, and "
            "no longer than on groups by racks.",
            "section 6.2.4, figures 6.13 and 6.14",
            partial(grouping, draws=range(1, 6)),
            (GROUPING,),
            (
                "16 hosts in 4 racks, where the thesis has 64. The oversubscription is 2 and 4, and the speed-ups "
                "asked for are 1.5 and 3.0, from the bounds of forests. Links have 1.75 Gbit/s: times are 5.7 times "
                "those of 10 Gbit/s.",
            ),
            partial(grouping, draws=range(1, 21)),
        ),
        Claim(
            "plink.k",
            "The number of groups is the root of the number of hosts: then a global master sends and receives least.",
            "section 4.2.1, equation 4.2",
            group_count,
            (K,),
        ),
        Claim(
            "plink.switch",
            "Hosts change to another plan while they train. No step is lost.",
            "section 4.2.3",
            switch,
            (SWITCH,),
            (
                "The thesis gives no time of a switch: 50 ms at most is asked for. Four hosts lose their rate in turn, "
                "so that Autotune tells plans.",
            ),
        ),
        Claim(
            "plink.autotune",
            "When a host loses its rate, Autotune moves masters away from it: iterations are 1.27 times as fast as "
            "with masters that stay. Once it has its rate again, loads are even within 14 steps.",
            "section 6.2.6, figure 6.15",
            autotune,
            (AUTOTUNE,),
            (
                "The host has 2 of 5 Gbit/s, as in the thesis; links and gradients are divided by 50. At least 1.45 "
                "times is asked for: theory has 0.91 s, and 0.59 s if the host has no masters. Loads are even if the "
                "most bytes of a host are below 1.05 of the least.",
            ),
        ),
    ),
)
