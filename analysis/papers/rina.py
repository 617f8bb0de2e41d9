"""Rina (Chen et al., ICNP 2024): its claims, and what measures and decides them here."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from testbed.analysis.papers.claim import (
    ALL_SIMULATED,
    Claim,
    Experiment,
    Finding,
    Paper,
    Row,
    Runs,
    Stated,
    Statement,
    Verdict,
    near,
    rising,
    true,
    within,
)
from testbed.analysis.papers.evidence import GST, Measured, explained, gst_s, measure, speed_up
from testbed.analysis.papers.rina_theory import NETWORKS, PS, RACKS, RATE_BPS, as_numbered, curve
from testbed.analysis.theory.dependency_chain import (
    EXAMPLE,
    Overheads,
    h_ar_share,
    rina_share,
    rina_steps,
    ring_members,
    ring_steps,
    scatter_reduce_s,
)
from testbed.analysis.theory.occupation import occupation, to_replace, worked_example
from testbed.topologies.build import build as build_topology
from testbed.workloads.sync.cost import cost, depth
from testbed.workloads.sync.schemes import build

EXACT = 1e-9
EIGHT_A_RACK = "spine_leaf(racks=8,hosts_per_rack=8,spines=1)"
"""The rack size of section IV-B2's example."""


def count_steps(_: Runs) -> Finding:
    """Steps of forests: a ring's, and Rina's with every ToR replaced."""
    rows, checks = [], []
    for text in (EIGHT_A_RACK, RACKS, *NETWORKS):
        net = build_topology(text, rate_bps=RATE_BPS)
        tors = [node.name for node in net.nodes if node.kind == "switch" and node.rack is not None]
        able = build_topology(f"{text[:-1]},ina=[{','.join(tors)}])", rate_bps=RATE_BPS)
        workers, groups = net.host_count, len(tors)
        ring, rina = build("ring", net, []), build("rina", able, [])
        found = [
            Row(f"RAR, both phases, N = {workers}", "steps", ring_steps(workers), cost(ring, net, 1.0).rounds),
            Row(f"Rina's ScatterReduce, G = {groups}", "steps", rina_steps(groups), float(depth(rina.reduce).max())),
            Row(f"Rina's AllGather, G = {groups}", "steps", rina_steps(groups), float(depth(rina.broadcast).max())),
        ]
        rows += found
        checks += [near(f"{row.name}: as many as the paper says", row, EXACT) for row in found[:2]]
        checks.append(within(f"{found[2].name}: no more than the paper says", found[2], high=rina_steps(groups)))
        if text == EIGHT_A_RACK:
            fewer = found[1].theory + found[2].theory < found[0].theory  # type: ignore[operator]
            checks.append(true("racks of eight: Rina takes fewer than RAR", fewer, "it does not"))
    return Finding(
        tuple(rows),
        tuple(checks),
        (
            "The paper gives both phases of Rina the same 2G-1 steps. In its own AllGather (section IV-B4) a switch "
            "sends to its workers and to the next group at once, which is one step a group.",
            "Steps are of unlike kind: a ring's is from worker to worker, one of Rina's to a switch or from it. In "
            "racks of two, both phases of Rina are as many as the paper's for RAR, or a few less.",
        ),
    )


def bandwidth_occupation(_: Runs) -> Finding:
    """The lemmas on the smallest networks that show each, the worked example, and 80 % of the switches."""
    racks = "spine_leaf(racks=2,hosts_per_rack=4,spines=1,oversubscription=4,ina=[{}])"
    rows = [
        Row("worked example of figure 4", "B0", 1 / 4, worked_example().share),
        Row("lemma 1: 4 workers on a regular switch", "B0", 1 / 4, _share("star(hosts=5)")),
        Row("lemma 2: the same on an INA switch", "B0", 1.0, _share("star(hosts=5,ina=all)")),
        Row("lemma 2: a rack of 4 that is one flow, beside 3 workers", "B0", 1 / 4, _share(racks.format("leaf1"))),
        Row("lemma 3: an INA switch whose child is 4 flows", "B0", 1 / 4, _share(racks.format("leaf0"))),
    ]
    for text in NETWORKS:
        net = build_topology(text, rate_bps=RATE_BPS)
        order = to_replace(net, PS)
        rows.append(Row(f"80 % replaced, {net.family}", "B0", 1 / 2, curve(net, order)[int(0.8 * len(order))][0]))
    checks = [near(f"{row.name}: as the paper says", row, EXACT) for row in rows]
    note = "The order is that of rina.fig11. By number alone, 80 % of a dragonfly's give an eighth."
    return Finding(tuple(rows), tuple(checks), (note,))


def _share(expression: str) -> float:
    """Return the share of B0 that each worker has, the PS being on the first host."""
    net = build_topology(expression, rate_bps=RATE_BPS)
    return occupation(net, PS, {node for node in net.switches if net.nodes[node].ina}).share


def replaced(_: Runs) -> Finding:
    """Figure 11's curves, from the model."""
    rows, checks = [], []
    for text in NETWORKS:
        net = build_topology(text, rate_bps=RATE_BPS)
        order = to_replace(net, PS)
        tors = sum(net.nodes[switch].rack is not None for switch in order)
        atp, rina = ([each[i] for each in curve(net, order)] for i in (0, 1))
        numbered = [share for share, _ in curve(net, as_numbered(net))]
        for part in (0.0, 0.5, 0.75, 1.0):
            count = int(part * len(order) + 1e-9)
            name = f"{net.family}, {count} of {len(order)} replaced"
            rows.append(Row(f"Rina, {name}", "B0", theory=rina[count]))
            rows.append(Row(f"ATP, {name}", "B0", theory=atp[count]))
            rows.append(Row(f"ATP by number, {name}", "B0", theory=numbered[count]))
        grows = all(later > earlier for earlier, later in pairwise(rina[: tors + 1]))
        jump = all(share <= 1 / 2 for each in (atp, numbered) for share in each[:-1])
        low = all(share < 1 / 3 for share in numbered[: int(0.75 * len(numbered))])
        checks += [
            true(f"{net.family}: Rina rises with each ToR switch", grows, "it does not"),
            true(
                f"{net.family}: the last switch doubles ATP, or more, in either order", jump, "it is above half before"
            ),
            true(f"{net.family}: ATP is below a third until three quarters are replaced, by number", low, "it is not"),
        ]
    return Finding(
        tuple(rows),
        tuple(checks),
        (
            "A model: B0 is a link's rate, computing takes no time. The figure's values are lost; what is checked is "
            "what section VI-C says of its shape. A switch that is no ToR adds nothing to Rina; its curve ends there.",
            "Section IV-D leaves open in which order a dragonfly's routers, all alike, are replaced. By number, ATP "
            "rises late; where those come first that most workers send through, it has half of B0 with half of them.",
        ),
    )


CHAIN = Experiment("rina/chain.yaml", ("workload.iterations=9",), ("repeats=5", "workload.iterations=21"), GST)
WORKERS, SIGMAS_MS = (4, 8, 16, 32), (2, 5, 10)
FITS = 0.95
"""R^2 from which on equation 3's form is said to explain what was measured: that of benchmarks/ring_jitter.py."""


def chain_arm(workers: int, sigma_ms: int) -> str:
    """The label of an arm of ``chain.yaml``."""
    return f"{workers} workers, {sigma_ms} ms"


def long_chain(runs: Runs) -> Finding:
    """GST of a ring for each number of workers and jitter, and how well equation 3's form explains it."""
    run = runs.get(CHAIN.spec)
    cells = {
        (n, sigma): Row(
            f"GST, {n} workers, sigma {sigma} ms",
            "ms",
            theory=equation_3_ms(n, sigma),
            ours=measure(run, [chain_arm(n, sigma)], lambda trial: 1e3 * gst_s(trial), number=GST),
        )
        for sigma in SIGMAS_MS
        for n in WORKERS
    }
    fit = Row("R^2 of equation 3's form", "", 1.0, ours=goodness([row.ours for row in cells.values()], list(cells)))
    checks = [
        rising(f"sigma {sigma} ms: GST grows with the workers", [cells[n, sigma] for n in WORKERS])
        for sigma in SIGMAS_MS
    ]
    checks += [rising(f"{n} workers: GST grows with sigma", [cells[n, sigma] for sigma in SIGMAS_MS]) for n in WORKERS]
    checks.append(within(f"a N + k + b N sigma sqrt(2 ln N) explains it, R^2 of {FITS} or more", fit, FITS))
    return Finding(
        (fit, *cells.values()),
        tuple(checks),
        (
            "Theory is equation 3 for both phases, with O = 0. It has each round end with a barrier of all; in our "
            "ring a worker waits for its predecessor only, so less is measured, and the fitted b is below theory's 2.",
        ),
    )


GRADIENT_S = 4 * 3_274_634 * 8 / 10e9
"""k in ``chain.yaml``: LeNet-5's gradient over a link of 10 Gbit/s."""


def equation_3_ms(workers: int, sigma_ms: int) -> float:
    """Both phases by equation 3, without any overhead O."""
    return 2e3 * scatter_reduce_s(workers, 0.0, GRADIENT_S, sigma_ms / 1e3)


def goodness(cells: Sequence[Measured | None], places: Sequence[tuple[int, int]]) -> Measured:
    """R^2 of the fit to the mean GST of each cell, with its interval; ``places`` are (workers, sigma in ms)."""
    found = [cell for cell in cells if cell is not None]
    doubts = tuple(doubt for cell in found for doubt in cell.doubts)
    valid, trials = sum(cell.valid for cell in found), sum(cell.trials for cell in found)
    verdict = found[0].verdict
    if doubts or not all(cell.samples for cell in found):
        return Measured((), "fit", valid, trials, doubts, verdict=verdict)
    form = np.array([[n, 1.0, n * sigma * math.sqrt(2 * math.log(n))] for n, sigma in places])
    r_squared = explained(form, [np.array(cell.samples) for cell in found])
    return Measured((r_squared.value,), "fit", valid, trials, (), r_squared, verdict=verdict)


ABOUT = 0.2
"""Share that is taken for "comparable": the paper gives no number, and its figures are lost."""
ADVANTAGE = 1.5
"""Section I's "50 % throughput advantage at an equivalent cost"."""
FULL = ("repeats=5", "workload.iterations=12")
VGG16 = Experiment("rina/figure12_vgg16.yaml", ("workload.iterations=6",), FULL)
RESNET50 = Experiment("rina/figure12_resnet50.yaml", ("workload.iterations=8",), FULL)
FIGURE_10 = Experiment("rina/figure10.yaml", (), FULL)
DRAGONFLY = Experiment("rina/figure10_dragonfly.yaml", ("workload.iterations=3",), ("workload.iterations=12",))


def ratio(runs: Runs, experiment: Experiment, arms: tuple[str, str], paper: Stated, name: str) -> Row:
    """Throughput of the first arm over that of the second, measured."""
    above, below = arms
    ours = measure(runs.get(experiment.spec), [below, above], speed_up)
    return Row(f"{name}: {above} over {below}", "x", paper, ours=ours)


def testbed(runs: Runs) -> Finding:
    """Figure 12: two racks of four."""
    rows, checks = [], []
    for model, experiment in (("VGG-16", VGG16), ("ResNet-50", RESNET50)):
        part = ratio(runs, experiment, ("Rina 50 %", "ATP 50 %"), (1.0, math.inf), model)
        over_ps = ratio(runs, experiment, ("Rina 100 %", "PS"), (1.0, 6.0), model)
        over_ring = ratio(runs, experiment, ("Rina 100 %", "RAR"), (1.0, 6.0), model)
        whole = ratio(runs, experiment, ("Rina 100 %", "ATP 100 %"), 1.0, model)
        rows += [part, over_ps, over_ring, whole]
        checks += [
            within(f"{model}: with half of the switches, Rina is above ATP", part, 1.0),
            within(f"{model}: Rina is above PS, up to six times", over_ps, 1.0, 6.0),
            within(f"{model}: Rina is above RAR, up to six times", over_ring, 1.0, 6.0),
            near(f"{model}: with all, Rina is within {ABOUT:.0%} of ATP", whole, ABOUT),
        ]
    return Finding(tuple(rows), tuple(checks))


OVERHEADS = tuple(10 ** (exponent / 4) for exponent in range(-16, -3))
"""O / k = sigma / k from 0.01 % to 10 %, four a decade: no system is worse than the last, or better than the first."""


def for_overheads(says: str, holds: Callable[[Overheads], bool]) -> Statement:
    """A statement of the model, which holds or fails if it does so for any overheads; the paper gives none."""
    agreeing = [each for each in OVERHEADS if holds(Overheads(each, each))]
    if len(agreeing) == len(OVERHEADS):
        return Statement(says, Verdict.HOLDS)
    if not agreeing:
        return Statement(says, Verdict.FAILS, "for no overheads does the model have it so")
    low, high = (f"{100 * limit:.2g} %" for limit in (min(agreeing), max(agreeing)))
    return Statement(
        says, Verdict.UNDECIDED, f"the model has it so for O / k = sigma / k of {low} to {high}; the paper gives none"
    )


def compared(runs: Runs, experiment: Experiment, network: str) -> tuple[list[Row], list[Statement]]:
    """Ratios of throughputs on a network, and what section VI-B says of them."""
    rows = [
        ratio(runs, experiment, ("Rina 50 %", "ATP 50 %"), ADVANTAGE, network),
        ratio(runs, experiment, ("Rina 100 %", "PS"), (1.0, 6.0), network),
        ratio(runs, experiment, ("Rina 100 %", "RAR"), (1.0, 6.0), network),
        ratio(runs, experiment, ("Rina 50 %", "H-AR"), (1.0, math.inf), network),
        ratio(runs, experiment, ("Rina 100 %", "ATP 100 %"), 1.0, network),
    ]
    return rows, [
        within(f"{network}: with half of the switches, Rina is {ADVANTAGE:g} times ATP or more", rows[0], ADVANTAGE),
        within(f"{network}: Rina is above PS, up to six times", rows[1], 1.0, 6.0),
        within(f"{network}: Rina is above RAR", rows[2], 1.0, 6.0),
        within(f"{network}: with half of the switches, Rina is above H-AR", rows[3], 1.0),
        near(f"{network}: with all, Rina is within {ABOUT:.0%} of ATP", rows[4], ABOUT),
    ]


def simulated(runs: Runs) -> Finding:
    """Figure 10(b): the dragonfly, in simulated time."""
    rows, checks = compared(runs, DRAGONFLY, "dragonfly")
    return Finding(
        tuple(rows),
        tuple(checks),
        (
            ALL_SIMULATED,
            "Steps neither jitter nor cost anything, so a ring of 72 workers is as fast as its links, and few steps "
            "gain nothing. With what steps cost, rina.fig10 has the model.",
            "PS is one server, which takes all gradients through one link.",
        ),
    )


def throughput(runs: Runs) -> Finding:
    """Figure 10: the fat-tree measured, the dragonfly from the model."""
    tree, checks = compared(runs, FIGURE_10, "fat-tree")
    rows, model = dragonfly()
    return Finding(
        (*tree, *rows),
        (*checks, *model),
        (
            "The dragonfly's 72 workers and 36 switches are more than two cores carry: it is simulated in "
            "rina.fig10_dragonfly. Here it is modelled, as a share of a "
            f"link's rate B0, with O / k = sigma / k = {EXAMPLE.overhead:g} in the table, and without computing, which "
            "brings all nearer to each other.",
            "Which 18 switches of the dragonfly ATP has, section IV-D leaves open; here they are taken by number.",
        ),
    )


def dragonfly() -> tuple[list[Row], list[Statement]]:
    """Shares of B0 by the models of sections III-A and III-B, and what section VI-B says of them."""
    net = build_topology(NETWORKS[1], rate_bps=RATE_BPS)
    order = as_numbered(net)
    half, racks = order[: len(order) // 2], len(net.switches)

    def rina(ina: Sequence[int], overheads: Overheads) -> float:
        return rina_share(ring_members(net, ina), overheads)

    ps, atp, every = (occupation(net, PS, ina).share for ina in ((), half, order))

    def h_ar(overheads: Overheads) -> float:
        return h_ar_share(racks, net.host_count // racks, overheads)

    shares = {
        "PS": ps,
        "RAR": rina((), EXAMPLE),
        "H-AR": h_ar(EXAMPLE),
        "ATP 50 %": atp,
        "Rina 50 %": rina(half, EXAMPLE),
        "ATP 100 %": every,
        "Rina 100 %": rina(order, EXAMPLE),
    }
    rows = [Row(f"dragonfly: {name}", "B0", theory=share) for name, share in shares.items()]
    return rows, [
        for_overheads("dragonfly: Rina is above PS", lambda o: rina(order, o) > ps),
        for_overheads("dragonfly: Rina is above RAR", lambda o: rina(order, o) > rina((), o)),
        for_overheads(
            f"dragonfly: with half of the switches, Rina is {ADVANTAGE:g} times ATP or more",
            lambda o: rina(half, o) >= ADVANTAGE * atp,
        ),
        for_overheads("dragonfly: with half of the switches, Rina is above H-AR", lambda o: rina(half, o) > h_ar(o)),
        for_overheads(
            f"dragonfly: with all, Rina is within {ABOUT:.0%} of ATP",
            lambda o: abs(rina(order, o) / every - 1) <= ABOUT,
        ),
    ]


_OPEN = (
    "The paper gives neither how long a batch takes nor how uneven steps are: 0.5 s for VGG-16 and 0.25 s for "
    "ResNet-50, about what an RTX 3090 needs, and sigma 5 ms a step of each worker.",
    "Links have the 20 Gbit/s at which its switches add (section IV-C); rates and gradients are divided by 100 or 400.",
    f"Within {ABOUT:.0%} is what is taken for comparable.",
)

PAPER = Paper(
    "rina",
    "Rina: ring all-reduce with in-network aggregation (Chen et al., ICNP 2024)",
    (
        Claim(
            "rina.steps",
            "RAR takes 2(N-1) steps; each phase of Rina with G groups takes 2G-1, fewer in racks of eight.",
            "section IV-B2",
            count_steps,
        ),
        Claim(
            "rina.chain",
            "A ring's synchronisation takes longer with the number of workers N and the jitter sigma of each step: "
            "N O + k + N sigma sqrt(2 ln N) for the scatter-reduce.",
            "section III-A, equation 3",
            long_chain,
            (CHAIN,),
            ("Jitter is the positive half of a normal distribution, added to each step of each worker.",),
        ),
        Claim(
            "rina.bom",
            "On regular switches n workers have 1/n each; an INA switch and its children are one worker, as fast as "
            "the slowest child; the worked example has B0/4. With 80 % of switches replaced, PS-based INA has half.",
            "section III-B, lemmas 1 to 3 and figure 4; section I",
            bandwidth_occupation,
        ),
        Claim(
            "rina.fig10",
            "Rina is above PS and RAR, by up to six times; with half of the switches it is above H-AR and 1.5 times "
            "ATP; with all of them it is about ATP.",
            "section VI-B, figure 10; sections I and III-A",
            throughput,
            (FIGURE_10,),
            _OPEN,
        ),
        Claim(
            "rina.fig10_dragonfly",
            "On a dragonfly with 72 workers, Rina is above PS and RAR, by up to six times; with half of the switches "
            "it is above H-AR and 1.5 times ATP; with all of them it is about ATP.",
            "section VI-B, figure 10(b)",
            simulated,
            (DRAGONFLY,),
            (
                "Simulated, as in the paper, with ResNet-50 alone. A batch takes 0.25 s, about what an RTX 3090 needs, "
                "and links have the 20 Gbit/s at which its switches add (section IV-C).",
                f"Within {ABOUT:.0%} is what is taken for comparable.",
            ),
        ),
        Claim(
            "rina.fig11",
            "Rina's throughput rises with each switch that is replaced; ATP's only when nearly all are.",
            "section VI-C, figure 11; section III-C, figure 5",
            replaced,
            assumes=("Overheads O / k and sigma / k of 0.01 are ours. The curves' shape is the same for any above 0.",),
        ),
        Claim(
            "rina.fig12",
            "On two racks of four, Rina is above PS and RAR, and above ATP where half of the switches are replaced; "
            "where all are, it is about ATP.",
            "section VI-D, figure 12",
            testbed,
            (VGG16, RESNET50),
            _OPEN,
        ),
    ),
)
