"""PHub and PBox: claims that are measured, and what decides them here."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from testbed.analysis.papers.claim import Claim, Experiment, Finding, Row, Runs, Statement, Verdict, near, true, within
from testbed.analysis.papers.evidence import (
    GST,
    Measured,
    Values,
    by_bounds,
    extreme,
    mean_of,
    measure,
    slower,
    speed_up,
    where,
)
from testbed.analysis.recorded import Run, Trial
from testbed.topologies.build import build
from testbed.workloads import kinds
from testbed.workloads.profiles import profile
from testbed.workloads.sync.schemes import build_plan

QUICK, FULL = (), ("repeats=5",)
PSHARD, PBOX, PBOX_AND_7 = "PShard", "PBox", "PBox and 7"
SIZES_OF = {"alexnet": "AlexNet", "vgg11": "VGG-11", "vgg19": "VGG-19", "resnet50": "ResNet-50"}


def longer(run: Run | None, name: str, paper: float | None, arms: tuple[str, str]) -> Row:
    """Return the row of the second arm's GST over the first one's, beside the same ratio of their bounds."""
    bounds = measure(run, arms, by_bounds, number=GST).samples
    theory = float(np.median(bounds)) if bounds else None
    return Row(name, "x", paper, theory, measure(run, arms, slower, number=GST))


def about(row: Row, asked: float, off: float) -> Statement:
    """State that a row's number is the one that links give, or off by at most ``off``."""
    return within(f"{row.name}: {asked:g}, within {off:.2g}", row, asked - off, asked + off)


FIGURE_6_2 = {
    "alexnet": Experiment("phub/figure6_2.yaml", QUICK, FULL),
    "vgg19": Experiment("phub/figure6_2_vgg19.yaml", QUICK, FULL),
}
FIGURE_6_5 = Experiment("phub/figure6_5.yaml", QUICK, FULL)
HALF, THESIS_HALF = 1.75, 2.0
"""Gradients that pass a worker's link with PShard over those with PBox, 2(N-1)/N of 8 workers; the thesis has "about
half"."""
THROUGHPUT = {"alexnet": (1.69, 0.08), "vgg19": (1.48, 0.07)}
"""Samples/s with PBox over those with PShard, from bytes and the times of Table 6.1, and by how much they may be
off."""
SAME_MACHINES = (1.47, 0.07)
LINEAR = 7.6
"""Least throughput of eight workers over one's."""


def more_samples(base: Trial, other: Trial) -> Values:
    """Samples/s of all workers of ``other`` over those of ``base``, iteration by iteration."""
    assert base.world
    assert other.world
    times: Values = speed_up(base, other) * (other.world / base.world)
    return times


def halved(runs: Runs) -> Finding:
    """GST and throughput with a box, beside servers on the workers' hosts."""
    rows, checks = [], []
    for model, experiment in FIGURE_6_2.items():
        run, name = runs.get(experiment.spec), SIZES_OF[model]
        gst = longer(run, f"GST {PSHARD} / {PBOX}, {name}", THESIS_HALF, (PBOX, PSHARD))
        asked, off = THROUGHPUT[model]
        samples = Row(
            f"samples/s {PBOX} / {PSHARD}, {name}", "x", theory=asked, ours=measure(run, [PSHARD, PBOX], more_samples)
        )
        rows += [gst, samples]
        checks += [about(gst, HALF, 0.05), about(samples, asked, off)]
    run, (asked, off) = runs.get(FIGURE_6_2["alexnet"].spec), SAME_MACHINES
    same = Row(
        f"samples/s {PBOX} with 7 workers / {PSHARD}, AlexNet",
        "x",
        theory=asked,
        ours=measure(run, [PSHARD, PBOX_AND_7], more_samples),
    )
    linear = Row(
        "samples/s of 8 workers / 2, ResNet-18",
        "x",
        4.0,
        4.0,
        measure(runs.get(FIGURE_6_5.spec), ["2 workers", "8 workers"], more_samples),
    )
    return Finding(
        (*rows, same, linear),
        (*checks, about(same, asked, off), within(f"{linear.name}: {LINEAR / 2:g} or more", linear, LINEAR / 2)),
        ("About half is 2(N-1)/N = 1.75 with 8 workers: each has a server's share of the keys on its own host.",),
    )


AFFINITY = Experiment("phub/affinity.yaml", QUICK, FULL, GST)
AGGREGATION = Experiment("phub/aggregation.yaml", QUICK, FULL, GST)
BY_WORKER, THESIS_BY_WORKER = (1.25, 0.04), 1.43
WIDE = {"alexnet": 1.516, "vgg11": 1.773, "resnet50": 1.092}
"""1 + the largest layer's share of the model, with which wide aggregation takes longer than tall."""
WIDE_OFF, THESIS_WIDE = 0.05, 20.0


def locality(runs: Runs) -> Finding:
    """GST with keys by worker over keys by key, and of wide over tall aggregation."""
    affinity = [
        longer(
            where(runs.get(AFFINITY.spec), model=model),
            f"by worker / by key, {SIZES_OF[model]}",
            THESIS_BY_WORKER,
            ("by key", "by worker"),
        )
        for model in ("alexnet", "resnet50")
    ]
    wide = {
        model: longer(
            where(runs.get(AGGREGATION.spec), model=model),
            f"wide / tall, {SIZES_OF[model]}",
            THESIS_WIDE if model == "resnet50" else None,
            ("tall", "wide"),
        )
        for model in WIDE
    }
    return Finding(
        (*affinity, *wide.values()),
        (
            *(about(row, *BY_WORKER) for row in affinity),
            *(about(row, WIDE[model], WIDE_OFF * WIDE[model]) for model, row in wide.items()),
            near(f"{wide['resnet50'].name}: 20 times, within 5 %", wide["resnet50"], WIDE_OFF),
        ),
        (
            "By key each of five NICs carries 1.6 gradients; by worker three have two workers, and carry 2.0. The "
            "thesis has 1.43, which it explains by memory and synchronisation of cores.",
            "20 times cannot come from bytes: while a layer comes, wide aggregation sends nothing back, so it adds at "
            "most its largest layer to the model. The thesis's threads in lock-step have no counterpart here.",
        ),
    )


KEY_BYTES = tuple(4096 * 4**power for power in range(6))
"""Sizes of keys from 4 KiB to 4 MiB."""
THESIS_KEY_BYTES = 32768
CHUNKS_BOX = "star(hosts=9,server_nics=8,routing=every_nic)"


def chunks(_: Runs) -> Finding:
    """Least GST by the size of keys, from links alone."""
    network = build(CHUNKS_BOX, rate_bps=10**10)
    tensors = [math.prod(shape) for layer in profile("resnet50").layers for _, shape in layer.tensors]
    plans = {size: build_plan(f"pbox(key_bytes={size})", network, tensors) for size in (*KEY_BYTES, THESIS_KEY_BYTES)}
    least_s = {size: kinds.cost(plan, network, 4.0 * sum(tensors)).bound_s() for size, plan in plans.items()}
    rows = [
        Row(
            f"least GST with keys of {size // 1024:,} KiB / 32 KiB",
            "x",
            None,
            least_s[size] / least_s[THESIS_KEY_BYTES],
        )
        for size in KEY_BYTES
    ]
    smallest = min(KEY_BYTES, key=lambda size: least_s[size])
    return Finding(
        tuple(rows),
        (
            true("by links alone the smallest keys take least", smallest == KEY_BYTES[0], f"{smallest:,} bytes do"),
            Statement(
                "keys between 4 KiB and 4 MiB are best",
                Verdict.UNDECIDED,
                "no trial can tell: links set the times of VALID trials, and only processors make small keys slow",
            ),
        ),
        (
            "benchmarks/pbox_chunks.py measures it over loopback, where processors set the times. The thesis found "
            "32 KiB best.",
        ),
    )


SHARED = {
    "alexnet": Experiment("phub/shared.yaml", QUICK, FULL),
    "resnet50": Experiment("phub/shared_resnet50.yaml", QUICK, FULL),
}
SHARED_NICS = Experiment("phub/shared_nics.yaml", QUICK, FULL, GST)
SLOWER = {"alexnet": 5.0, "resnet50": 2.0}
"""Per cent by which each of eight jobs may be slower than one alone."""
JOBS = tuple(f"a-{number}" for number in range(1, 9))
TWICE, TWICE_OFF = 2.0, 0.03


def drop(alone: Trial, shared: Trial) -> Values:
    """Compute by how many per cent a job trains fewer samples/s than alone, iteration by iteration."""
    less: Values = 100 * (1 - speed_up(alone, shared))
    return less


def shared(runs: Runs) -> Finding:
    """Throughput of eight jobs on one box beside one job's, and GST with half of the box's NICs."""
    rows, checks = [], []
    for model, most in SLOWER.items():
        run = runs.get(SHARED[model].spec)
        each = [measure(run, [f"1 job: {JOBS[0]}", f"8 jobs: {job}"], drop, signed=True) for job in JOBS]
        thesis = most if model == "alexnet" else None
        mean = Row(f"fewer samples/s with 8 jobs, {SIZES_OF[model]}", "%", thesis, 0.0, mean_of(each))
        slowest = Row(f"fewer samples/s, {SIZES_OF[model]}, the slowest job", "%", ours=mean_of(each, np.max))
        rows += [mean, slowest]
        checks.append(within(f"{slowest.name}: {most:g} % at most", slowest, high=most))
    run = runs.get(SHARED_NICS.spec)
    by_job = [measure(run, [f"16 NICs: {job}", f"8 NICs: {job}"], slower, number=GST) for job in JOBS]
    twice = Row("GST with half of the NICs, mean of eight jobs", "x", theory=TWICE, ours=mean_of(by_job))
    return Finding(
        (*rows, twice),
        (*checks, about(twice, TWICE, TWICE_OFF * TWICE)),
        (
            "Eight jobs of two workers, and a NIC for each worker: at 16 NICs a NIC of the box carries as many bytes "
            "as a worker's. The thesis has 5 % for AlexNet, and less for ResNet-50.",
        ),
    )


HIERARCHICAL = Experiment("phub/hierarchical.yaml", QUICK, FULL, GST)
RATES_BPS = (10**9, 2 * 10**9, 3 * 10**9, 4 * 10**9)
"""Rates of links between racks; a worker's has 2 Gbit/s, as 100 Mbit/s to 50, 100, 150 and 200."""
WORKER_MBPS, WORKER_BPS = 100, 2 * 10**9
BY_KEYS = {"": (4.0, 3.2, 2.13, 1.6), ", a key for each NIC": (2.0, 1.33, 1.0, 0.8)}
"""GST of flat over hierarchical reduction by rate: if keys stream, and if racks add all before boxes do."""
HIER_OFF = 0.1
WORKERS, BOX_MBPS, RACKS = 4, 400, 2


def pays(core_mbps: float) -> bool:
    """Tell whether hierarchical reduction pays by the thesis's condition (section 2.3)."""
    bottleneck = min(BOX_MBPS, core_mbps)
    flat = WORKERS * (RACKS - 1) / (RACKS * core_mbps)
    return flat > max(WORKERS / BOX_MBPS, 1 / WORKER_MBPS) + (RACKS - 1) / (RACKS * bottleneck)


def hierarchical(runs: Runs) -> Finding:
    """GST of flat over hierarchical reduction by the rate between racks, beside the thesis's condition."""
    run, rows, checks = runs.get(HIERARCHICAL.spec), [], []
    exact = []
    for keys, asked in BY_KEYS.items():
        for rate_bps, ratio in zip(RATES_BPS, asked, strict=True):
            mbps = WORKER_MBPS * rate_bps / WORKER_BPS
            arms = (f"hierarchical{keys}", f"flat{keys}")
            row = longer(where(run, rate=rate_bps), f"flat / hierarchical at {mbps:g}{keys}", None, arms)
            rows.append(row)
            checks.append(about(row, ratio, HIER_OFF * ratio))
            if pays(mbps):
                checks.append(within(f"{row.name}: it pays, as the condition says", row, low=1.0))
            elif not keys:
                exact.append(within(f"{row.name}: it does not pay, as the condition says", row, high=1.0))
    return Finding(
        tuple(rows),
        (*checks, *exact),
        (
            "Hierarchical reduction helps where N(R-1)/(R B_core) > max(N/B_box, 1/B_wkr) + (R-1)/(R B_bn). The "
            "condition has racks and boxes add one after the other, as they do with one key for each NIC. With small "
            "keys both steps go on at once, and it pays up to 320, so the condition is sufficient and not exact.",
        ),
    )


FULL_MOMENTS = ", ".join(f"{0.4 + 0.1 * step:.1f} s" for step in range(25))
FAULTS = Experiment("phub/faults.yaml", QUICK, (f"arms.1.perturb.0.at=[{FULL_MOMENTS}]",), GST)
"""A worker of job a is killed at several moments; b-1 and b-2 share its box."""
OTHERS, LOSES, KEPT = ("b-1", "b-2"), "a", 0.02


def faults(runs: Runs) -> Finding:
    """Tell what became of jobs that share a box with one of which a worker is killed."""
    run = runs.get(FAULTS.spec)
    killed = [] if run is None else [trial for trial in run.trials if trial.label.startswith("killed")]
    lost = [trial for trial in killed if trial.job == LOSES]
    others = [trial for trial in killed if trial.job != LOSES]
    failed = counted("jobs of others that failed", others, lambda trial: not trial.done)
    wrong = counted("jobs of others with other weights than a single process", others, has_other_weights)
    kept = counted("jobs that went on although a worker was killed", lost, lambda trial: trial.done)
    moments = {trial.setting: trial.point for trial in killed}.values()
    parts = [
        measure(_with(run, moment), [f"{arm}: {job}" for arm in ("undisturbed", "killed")], slower, number=GST)
        for moment in moments or [{}]
        for job in OTHERS
    ]
    times = Row("GST of the others, over undisturbed", "x", theory=1.0, ours=mean_of(parts, np.median))
    return Finding(
        (times, failed, wrong, kept),
        (
            *(within(f"{row.name}: none of {len(killed)}", row, high=0.0) for row in (failed, wrong, kept)),
            about(times, 1.0, KEPT),
        ),
        ("benchmarks/tenants.py kills 200 workers of random jobs at random moments.",),
    )


def _with(run: Run | None, point: Mapping[str, object]) -> Run | None:
    """Return the run with trials at this point of the sweep alone, and those that do not vary it."""
    if run is None:
        return None
    return replace(run, trials=tuple(trial for trial in run.trials if trial.point in ({}, point)))


def counted(name: str, trials: Sequence[Trial], is_so: Callable[[Trial], bool]) -> Row:
    """Return the row of the number of trials of which something is so."""
    doubts = () if trials else ("it was not run",)
    number = tuple(float(sum(map(is_so, trials))) for _ in trials[:1])
    return Row(name, "", theory=0.0, ours=extreme(Measured(number, "trials", len(trials), len(trials), doubts)))


def has_other_weights(trial: Trial) -> bool:
    """Tell whether a job that is done has no proof of the reference's weights."""
    told = trial.accuracy
    return trial.done and (told.weights_error is None or not told.weights_equal or told.apart)


CLAIMS = (
    Claim(
        "phub.halved",
        "A box of as many NICs as workers moves about half the bytes over each interface of servers on the workers' "
        "hosts, and throughput grows in proportion to the number of workers.",
        "sections 6.1.3 and 6.1.4, figures 6.2 and 6.5",
        halved,
        (*FIGURE_6_2.values(), FIGURE_6_5),
        (
            "Links have a quarter of 10 Gbit/s and computing takes four times as long as in Table 6.1: shares of time "
            "stay. A trial needs two workers, so eight are compared with two: 3.8 times, where 7.6 of one is asked.",
        ),
    ),
    Claim(
        "phub.locality",
        "Keys by interface are 1.43 times as fast as workers by interface, and tall aggregation 20 times as fast as "
        "wide.",
        "section 6.1.5",
        locality,
        (AFFINITY, AGGREGATION),
        ("Limits are those that bytes give: 1.25, and one and the largest layer's share of the model.",),
    ),
    Claim(
        "phub.chunks",
        "Throughput has its best value at keys between 4 KiB and 4 MiB: at 32 KiB.",
        "section 6.1.6, figure 6.7 left",
        chunks,
    ),
    Claim(
        "phub.shared",
        "Eight jobs that share a box train at most 5 % fewer samples/s each than one alone (AlexNet), and less if they "
        "compute more (ResNet-50).",
        "section 6.1.9, figure 6.9",
        shared,
        (*SHARED.values(), SHARED_NICS),
        ("Less is taken as 2 %. Jobs have two workers each, and the box a NIC for each worker.",),
    ),
    Claim(
        "phub.hier",
        "Hierarchical reduction across racks is faster than flat exactly where N(R-1)/(R B_core) > max(N/B_box, "
        "1/B_wkr) + (R-1)/(R B_bn).",
        "section 2.3, figure 6.10",
        hierarchical,
        (HIERARCHICAL,),
        ("Two racks of four workers; links of 100, a box's 400, and 50 to 200 between racks, in proportion.",),
    ),
    Claim(
        "phub.faults",
        "Jobs that share a box are isolated: if a worker of one is killed, the others go on, and lose neither time "
        "nor weights.",
        "section 3.3",
        faults,
        (FAULTS,),
        ("The thesis has no experiment with faults. Limits are ours: 2 % of GST.",),
    ),
)
