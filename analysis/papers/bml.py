"""BML (Wang et al.): its claims, and what measures and decides them here."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from testbed.analysis.papers import evidence
from testbed.analysis.papers.bml_theory import SIZES, least_gst_t_f, network
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
    falling,
    near,
    true,
    within,
)
from testbed.analysis.papers.evidence import Measured, Values, gst_s, measure, reduction
from testbed.analysis.recorded import Run, Trial
from testbed.topologies.build import build as build_topology
from testbed.topologies.prices import bill, total
from testbed.workloads.catalogue import tensor_sizes
from testbed.workloads.sync.cost import goodput

GST = Experiment(
    "bml/gst.yaml", quick=("repeats=3",), full=("repeats=5", "workload.iterations=21"), number=evidence.GST
)
FIGURE_5 = Experiment(
    "bml/figure5.yaml", quick=("repeats=3",), full=("repeats=5", "workload.iterations=21"), number=evidence.GST
)
FIGURE_5_1024 = Experiment(
    "bml/figure5_1024.yaml",
    quick=("workload.iterations=3",),
    full=("workload.iterations=9",),
    number=evidence.GST,
)
EXACT = 1e-9
CLOSE = 0.05
"""Share by which a GST may differ from what is claimed: what benchmarks/gst.py asks of the lab."""
MTU_BYTES = 1500
"""MTU (bytes) of the experiments."""


def t_f_s(run: Run) -> float:
    """T_F (s) in a run: as long as headers let a link take for the whole gradient."""
    model, scale, rate_bps = run.played or ("", 1.0, 1.0)
    assert model, "every experiment of this paper plays a profile"
    size_bytes = 4 * round(sum(count for _, count in tensor_sizes(model)) / scale)
    return size_bytes * 8 * scale / rate_bps / goodput(MTU_BYTES)


def measured_t_f(runs: Runs, experiment: Experiment, label: str) -> Measured:
    """GST of an arm, in T_F."""
    run = runs.get(experiment.spec)
    unit_s = t_f_s(run) if run else 1.0

    def in_t_f(trial: Trial) -> Values:
        return gst_s(trial) / unit_s

    return measure(run, [label], in_t_f, number=evidence.GST)


def gst(runs: Runs) -> Finding:
    arms = (
        ("BML on BCube(3,2)", "bml", "bcube(n=3,k=2)", Fraction(2 * 8, 2 * 9)),
        ("PS of 9", "ps", "star(hosts=9)", Fraction(2 * 8, 9)),
        ("BML on BCube(2,3)", "bml", "bcube(n=2,k=3)", Fraction(2 * 7, 3 * 8)),
        ("PS of 8", "ps", "star(hosts=8)", Fraction(2 * 7, 8)),
    )
    rows = [
        Row(label, "T_F", float(paper), least_gst_t_f(scheme, text), measured_t_f(runs, GST, label))
        for label, scheme, text, paper in arms
    ]
    exact = all(abs(row.theory - float(arm[-1])) < 1e-9 for row, arm in zip(rows, arms, strict=True) if row.theory)
    checks = [true("the forests give the paper's formulas", exact, "they differ, see the table")]
    checks += [near(f"{row.name}: GST within 5 % of the paper's", row, CLOSE) for row in rows]
    return Finding(tuple(rows), tuple(checks))


@dataclass(frozen=True)
class Bar:
    """One bar of figure 5; ``paper`` is None where the text gives no formula for it."""

    label: str
    scheme: str
    network: str
    servers: int
    paper: Fraction | None


def bars() -> list[Bar]:
    """Figure 5's, for both sizes, in its order."""
    found = []
    for servers, bcube, fat_tree in SIZES:
        flat = Fraction(2 * (servers - 1), servers)
        found += [
            Bar("BML on BCube", "bml", bcube, servers, flat / 2),
            Bar("PS on BCube", "ps", bcube, servers, None),
            Bar("hierarchical on fat-tree", "hierarchical", fat_tree, servers, flat),
            Bar("PS on fat-tree", "ps", fat_tree, servers, flat),
        ]
    return found


def fig5(runs: Runs) -> Finding:
    rows, checks = [], []
    for servers in dict.fromkeys(bar.servers for bar in bars()):
        own, said = _bars(runs, servers, FIGURE_5 if servers == 16 else None)
        rows += own
        checks += said
    return Finding(
        tuple(rows),
        tuple(checks),
        (
            _LOST,
            "1,024 servers are computed from the forests, not measured; bml.fig5_1024 has them in simulated time.",
        ),
    )


def fig5_1024(runs: Runs) -> Finding:
    """The larger network, in simulated time."""
    rows, checks = _bars(runs, SIZES[-1][0], FIGURE_5_1024)
    return Finding(
        tuple(rows),
        tuple(checks),
        (
            _LOST,
            ALL_SIMULATED,
            "All servers send to all others at once there, and what meets in a queue comes late and is sent on late. "
            "So BML and PS take longer than their links would allow. No such network was emulated.",
        ),
    )


_LOST = (
    "The bars' heights are lost. The text gives formulas for three of the four; of PS on BCube it says that it takes "
    "twice BML's time, which is a claim of its own: bml.ps_on_bcube."
)


def _bars(runs: Runs, servers: int, experiment: Experiment | None) -> tuple[list[Row], list[Statement]]:
    """Bars of one size, and that they are as high as the paper says."""
    rows, checks = [], []
    for bar in bars():
        if bar.servers != servers:
            continue
        ours = measured_t_f(runs, experiment, bar.label) if experiment else None
        paper = None if bar.paper is None else float(bar.paper)
        row = Row(f"{bar.label}, {servers} servers", "T_F", paper, least_gst_t_f(bar.scheme, bar.network), ours)
        rows.append(row)
        if paper is not None:
            checks.append(near(f"{row.name}: GST within 5 % of the paper's", row, CLOSE))
    checks += [falling(f"BML on BCube is below {row.name}", [row, rows[0]]) for row in rows[1:]]
    return rows, checks


def ps_on_bcube(runs: Runs) -> Finding:
    rows = []
    for servers, bcube, _ in SIZES:
        theory = least_gst_t_f("ps", bcube) / least_gst_t_f("bml", bcube)
        run = runs.get(FIGURE_5.spec)

        def over(ps: Trial, bml: Trial) -> Values:
            found: Values = gst_s(ps) / gst_s(bml)
            return found

        ours = measure(run, ["PS on BCube", "BML on BCube"], over, number=evidence.GST) if servers == 16 else None
        rows.append(Row(f"PS over BML, {bcube}, {servers} servers", "x", 2.0, theory, ours))
    return Finding(
        tuple(rows),
        tuple(near(f"{row.name}: within 5 % of twice", row, CLOSE) for row in rows),
        (
            "Twice is right where every transfer of PS takes k = 2 hops. Servers whose numbers differ in one digit "
            "only take one: of the 15 others of a server in BCube(4,2) these are 6, so it is 1.6 times; of 1,023, 62.",
        ),
    )


TENSORS, SHARES, BML = "PS, whole tensors", "PS, equal shares", "BML"
BY_FIT = 2.0
"""Per cent of JCT that a reduction may be off the paper's range: computing times are fitted to the ends of the range
with theory's GST, so that what the lab's GST is off theory shows there."""


@dataclass(frozen=True)
class Job:
    """Training job of figures 6 and 7.

    Attributes:
        batches: samples a worker, ascending.
        least, most: the range of the reductions of JCT that the paper states, in per cent.
    """

    model: str
    experiment: Experiment
    batches: tuple[int, ...]
    least: float
    most: float

    def gst_t_f(self, scheme: str, topology: str) -> float:
        """Least GST, in T_F."""
        return least_gst_t_f(scheme, topology, tuple(floats for _, floats in tensor_sizes(self.model)))

    def pace_t_f(self, batch: int) -> float:
        """Return the time that computing takes, in T_F, so that theory's reductions are the paper's at both ends of the
        range.

        A time that each iteration takes and one a sample: two unknowns from two numbers.
        """
        ps, bml = (self.gst_t_f(*arm) for arm in (("ps(place=tensor)", STAR), ("bml", BCUBE)))
        short, long = (100 * (ps - bml) / reduced - ps for reduced in (self.most, self.least))
        first, last = self.batches[0], self.batches[-1]
        return short + (long - short) * (batch - first) / (last - first)

    def reduction(self, scheme: str, batch: int) -> float:
        """Theory's reduction of JCT against PS of this scheme, in per cent."""
        ps, bml, pace = self.gst_t_f(scheme, STAR), self.gst_t_f("bml", BCUBE), self.pace_t_f(batch)
        return 100 * (ps - bml) / (pace + ps)


STAR, BCUBE = "star(hosts=9)", "bcube(n=3,k=2)"
FULL_JOB = ("repeats=5", "workload.iterations=20")
LENET5 = Job("lenet5", Experiment("bml/lenet5.yaml", (), FULL_JOB), (128, 256, 512, 1024), 18.7, 56.4)
VGG19 = Job("vgg19", Experiment("bml/vgg19.yaml", (), FULL_JOB), (4, 16, 32, 64), 29.2, 52.1)


def job_completion(job: Job, runs: Runs) -> Finding:
    """Reductions of JCT for each batch: against PS of whole tensors, the paper's, and of equal shares."""
    run = runs.get(job.experiment.spec)
    ends = {job.batches[0]: job.most, job.batches[-1]: job.least}

    def less(ps: str, scheme: str, arm: str, batch: int, paper: Stated) -> Row:
        ours = measure(run, [arm, BML], reduction, batch, signed=True)
        return Row(f"JCT less than {ps}, batch {batch}", "%", paper, job.reduction(scheme, batch), ours)

    in_range = (job.least, job.most)
    whole = [less("PS", "ps(place=tensor)", TENSORS, batch, ends.get(batch, in_range)) for batch in job.batches]
    equal = [less("PS of equal shares", "ps", SHARES, batch, (0.0, 50.0)) for batch in job.batches]
    low, high = job.least - BY_FIT, job.most + BY_FIT
    checks = [within(f"{row.name}: in the paper's range, +-{BY_FIT:g}", row, low, high) for row in whole]
    checks += [
        falling("the reduction falls as the batch grows", whole),
        within("whole tensors: more than 50 % at the smallest batch", whole[0], 50.0),
        *(within(f"{row.name}: 0 to 50 %", row, 0.0, 50.0) for row in equal),
        falling("so it does against PS of equal shares", equal),
    ]
    return Finding((*whole, *equal), tuple(checks), _job_notes(job))


def _job_notes(job: Job) -> tuple[str, ...]:
    largest = max(floats for _, floats in tensor_sizes(job.model)) / sum(
        floats for _, floats in tensor_sizes(job.model)
    )
    return (
        f"One tensor has {largest:.0%} of {job.model}'s parameters, so the server that holds it carries "
        f"{job.gst_t_f('ps(place=tensor)', STAR):.3g} T_F, and one of equal shares {job.gst_t_f('ps', STAR):.3g}. With "
        "these computing times nearly all of the reduction is that server's: against equal shares, it is "
        f"{job.reduction('ps', job.batches[0]):.0f} % at most.",
        "JCT is measured as the time an iteration takes after the first, of which a job of 1,000 is the sum.",
    )


def _job_assumes(job: Job) -> tuple[str, ...]:
    fixed = job.pace_t_f(0)
    each = job.pace_t_f(1) - fixed
    return (
        "The paper gives no computing times, and its figures are lost. A batch b is taken to compute for "
        f"{fixed:.3g} + {each:.3g} b T_F: the two numbers with which theory gives {job.most:g} % at the smallest batch "
        f"and {job.least:g} % at the largest. So both ends test the lab, not the paper; what lies between, that it "
        "falls, and what equal shares give follow.",
        "T_F is the paper's (VGG-19) or forty times as long (LeNet-5): a reduction is a ratio of times, and stays.",
        "PS sends a sum on while others still arrive; one that waits for whole tensors takes up to twice as long.",
    )


def switch_count(_: Runs) -> Finding:
    rows = []
    for n, k in ((4, 2), (8, 2), (16, 2), (4, 3), (4, 4)):
        net = network(f"bcube(n={n},k={k})")
        rows.append(Row(f"switches of {net.expression}, k N / n", "", k * net.host_count / n, float(len(net.switches))))
    for n in (4, 8, 16):
        net = network(f"fat_tree(k={n})")
        rows.append(Row(f"switches of {net.expression}, 5 N / n", "", 5 * net.host_count / n, float(len(net.switches))))
    exact = [true(f"{row.name}", row.theory == row.paper, f"{row.theory:g} are built") for row in rows if row.theory]
    share = [_switch_share(k) for k in (2, 3, 4)]
    checks = [near(f"{row.name}: as the paper says", row, EXACT) for row in share]
    return Finding((*share, *rows), (*checks, *exact))


def _switch_share(k: int) -> Row:
    bcube, fat_tree = network(f"bcube(n=4,k={k})"), network("fat_tree(k=4)")
    each = [len(net.switches) / net.host_count for net in (bcube, fat_tree)]
    return Row(f"switches a server, BCube(4,{k}) over fat-tree(4)", "%", 20.0 * k, 100 * each[0] / each[1])


def whole_cost(_: Runs) -> Finding:
    rows = [_cost_share(k, gbps) for gbps in (10, 40) for k in (2, 3, 4)]
    return Finding(
        tuple(rows),
        tuple(within(f"{row.name}: less than 100 %", row, high=100.0) for row in rows),
        (
            "The paper compares a NIC's price with a whole switch's. By Table 3 of TopoOpt a NIC costs more than a "
            "switch's port, and each further level of BCube needs one a server, with its cable and transceivers.",
            "The paper's own testbed has 40 Gbit/s. The same with other prices: testbed topo --prices FILE.",
        ),
    )


def _cost_share(k: int, gbps: int) -> Row:
    nets = [build_topology(text, rate_bps=gbps * 10**9) for text in (f"bcube(n=4,k={k})", "fat_tree(k=4)")]
    each = [total(bill(net)) / net.host_count for net in nets]
    return Row(
        f"cost a server at {gbps} Gbit/s, BCube(4,{k}) over fat-tree(4)", "%", (0.0, 100.0), 100 * each[0] / each[1]
    )


PAPER = Paper(
    "bml",
    "BML: gradient synchronisation on BCube (Wang et al., NeurIPS 2018)",
    (
        Claim(
            "bml.gst",
            "PS takes 2(N-1)/N T_F on a fat-tree, BML 2(N-1)/(kN) T_F on BCube(n,k): 8/9 T_F for BCube(3,2).",
            "sections 2 and 3.2",
            gst,
            (GST,),
            ("One switch stands for the fat-tree, as in the paper's testbed (section 4.2).",),
        ),
        Claim(
            "bml.fig5",
            "Only BML on BCube takes 1/k of the time: the same two steps on a fat-tree take as long as PS there.",
            "section 3.3, figure 5",
            fig5,
            (FIGURE_5,),
        ),
        Claim(
            "bml.fig5_1024",
            "Only BML on BCube takes 1/k of the time, also with 1,024 servers.",
            "section 3.3, figure 5",
            fig5_1024,
            (FIGURE_5_1024,),
            ("LeNet-5's gradient; the paper gives no sizes. Simulated, as in the paper.",),
        ),
        Claim(
            "bml.ps_on_bcube",
            "PS on BCube takes twice as long as BML on BCube.",
            "section 3.3",
            ps_on_bcube,
            (FIGURE_5,),
        ),
        Claim(
            "bml.lenet5",
            "LeNet-5 on nine servers: BML's JCT is 18.7 % to 56.4 % below that of PS, less so with larger batches, and "
            "by more than half only because PS places whole tensors.",
            "section 4.3, figure 6",
            partial(job_completion, LENET5),
            (LENET5.experiment,),
            _job_assumes(LENET5),
        ),
        Claim(
            "bml.vgg19",
            "VGG-19 on nine servers: BML's JCT is 29.2 % to 52.1 % below that of PS, less so with larger batches.",
            "section 4.3, figure 7",
            partial(job_completion, VGG19),
            (VGG19.experiment,),
            _job_assumes(VGG19),
        ),
        Claim(
            "bml.cost",
            "N servers need k N / n switches of n ports as BCube, 5 N / n as a fat-tree: 40 % to 80 % for k of 2 to 4.",
            "section 3.1",
            switch_count,
        ),
        Claim(
            "bml.price",
            "The whole network costs less as BCube than as a fat-tree, further NICs included.",
            "section 3.1",
            whole_cost,
            assumes=("Prices are those of TopoOpt's Table 3; the paper has none.",),
        ),
    ),
)
