"""Ten kinds of run, made of the made-up ones: what their arms, networks, verdicts and workloads have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from testbed.analysis.record.happened import Checkpoints, Event, Loss
from testbed.analysis.record.trial import Collective, LinkCount, PairCount, Stage
from testbed.analysis.recorded import Run, Trial

from .helpers import LATE, judged, only, sharing

STAR, BCUBE = "star(hosts=9)", "bcube(n=3,k=2)"
TIMES = (
    *("jct_s", "compute_s", "sync_s", "straggler_wait_s", "gst_median_s", "gst_p95_s", "gst_ratio"),
    *("iteration_median_s", "exposed_s", "hidden_s", "setup_s", "connect_s"),
)
"""Metrics that grow with a trial's time."""
MOMENTS = ("start_s", "ready_s", "sum_s", "end_s")
"""Columns of samples that do."""


@dataclass(frozen=True)
class Made:
    """The runs that kinds are made of: one run of three arms and two batches, a sweep with repeats, and a run in
    which transfers were planned."""

    run: Run
    sweep: Run
    scheduled: Run


def slowed(trial: Trial, times: float) -> Trial:
    """The trial as if everything in it had taken so many times as long."""
    known = {name: value * times for name in TIMES if (value := getattr(trial.metrics, name)) is not None}
    if trial.metrics.throughput_sps is not None:
        known["throughput_sps"] = trial.metrics.throughput_sps / times
    samples = trial.samples
    if samples is not None:
        samples = samples.assign(**{name: samples[name] * times for name in MOMENTS})
    collectives = tuple(replace(one, median_s=one.median_s * times) for one in trial.collectives)
    losses = tuple(replace(one, recovered_s=(one.recovered_s or 0.0) * times) for one in trial.losses)
    return replace(
        trial,
        metrics=replace(trial.metrics, **known),
        samples=samples,
        collectives=collectives,
        losses=losses,
    )


def each(run: Run, change: Callable[[Trial], Trial]) -> Run:
    return replace(run, trials=tuple(map(change, run.trials)))


def whole(run: Run) -> Run:
    """The arms of the first batch, all on one network, finished and VALID, one as fast again as the next."""
    speeds = dict(zip(run.labels, (1.0, 0.9, 0.6), strict=True))
    return each(only(run, "ps-b16", "ring-b16", "bml-b16"), lambda trial: _on(slowed(trial, speeds[trial.label]), STAR))


def _on(trial: Trial, topology: str) -> Trial:
    return replace(trial, topology=topology)


def with_copies(run: Run, copies: Mapping[str, str]) -> Run:
    """The run with more arms, by label the one that each is a copy of; the nth is slowed by n %."""
    more = [
        replace(slowed(trial, 1 + 0.01 * n), label=label, id=f"{trial.id}-{n}")
        for n, (label, of) in enumerate(copies.items(), 1)
        for trial in run.trials
        if trial.label == of
    ]
    arms = [{"label": label} for label in copies]
    resolved = run.resolved | {"arms": [*run.resolved["arms"], *arms]}
    return replace(run, trials=(*run.trials, *more), labels=(*run.labels, *copies), resolved=resolved)


def _of(trials: Iterable[Trial], label: str) -> list[Trial]:
    return [trial for trial in trials if trial.label == label]


def plain(made: Made) -> Run:
    return whole(made.run)


def invalid_in_part(made: Made) -> Run:
    """A sweep in which one arm is INVALID at a batch, and another in one number of one repeat of three."""
    return each(
        made.sweep,
        lambda trial: (
            judged(trial, "VALID", **LATE)
            if (trial.label.startswith("BML"), trial.repeat, trial.batch) == (True, 1, 16)
            else trial
        ),
    )


def invalid(made: Made) -> Run:
    return each(whole(made.run), lambda trial: judged(trial, "INVALID"))


def simulated(made: Made) -> Run:
    """A sweep in simulated time; the error of GST is known of all schemes but one."""

    def simulate(trial: Trial) -> Trial:
        told = judged(trial, "SIMULATED")
        error = None if trial.scheme == "ring" else 0.013
        return replace(told, numbers=told.numbers | {"gst": replace(told.numbers["gst"], error=error)})

    return each(made.sweep, simulate)


def failed_in_part(made: Made) -> Run:
    """The first arm failed at one batch, and so did another at the other batch."""

    def fail(trial: Trial) -> Trial:
        return replace(trial, done=False, error="h1 died", numbers={}, verdict=None, links=(), samples=None)

    return each(made.run, lambda trial: fail(trial) if trial.id == "ring-b16" else trial)


def two_networks(made: Made) -> Run:
    """Two arms on each of two networks; one of them is INVALID."""
    run = with_copies(whole(made.run), {"Ring on BCube": "Ring on fat-tree"})
    run = each(run, lambda trial: _on(trial, BCUBE) if trial.label.endswith("BCube") else trial)
    doubtful = with_copies(run, {"slow ring": "Ring on fat-tree"})
    return each(doubtful, lambda trial: judged(trial, "INVALID") if trial.label == "slow ring" else trial)


def numbers_of_workers(made: Made) -> Run:
    """Two arms with as many workers as the first, and two with twice as many."""
    run = with_copies(whole(made.run), {"large ring": "Ring on fat-tree", "large BML": "BML on BCube"})
    return each(
        run,
        lambda trial: replace(trial, topology="star(hosts=18)", world=18) if trial.label.startswith("large") else trial,
    )


def scripts(made: Made) -> Run:
    """Three schemes under a script, the first Gloo; every third sum is compared. Each has more kinds of collectives
    than there is room for."""

    def script(trial: Trial) -> Trial:
        known: dict[str, Any] = {"op": "allreduce", "dtype": "float32", "ranks": 9, "count": 20, "median_s": 0.2}
        own = [Collective(bytes=1000 * n, by="scheme", **known) for n in range(1, 12)]
        compared = Collective(bytes=1000, by="gloo", **known)
        metrics = replace(trial.metrics, exposed_s=0.1, hidden_s=0.05, setup_s=1.0)
        scheme = "gloo" if trial.label.startswith("PS") else trial.scheme
        return replace(
            trial, metrics=metrics, scheme=scheme, collectives=(*own, compared), gradient_sums=trial.iterations
        )

    run = each(whole(made.run), script)
    workload = run.resolved["workload"] | {"check": 3}
    doubtful = each(run, lambda trial: judged(trial, "VALID", gst="INVALID") if trial.scheme == "ring" else trial)
    return replace(doubtful, resolved=run.resolved | {"workload": workload})


def asynchronous(made: Made) -> Run:
    """A synchronous arm, and two whose transfers a scheduler plans; one of these is INVALID."""
    run = only(made.scheduled, "ps-b16", "ring-b16", "bml-b16")
    return each(run, lambda trial: judged(trial, "INVALID") if trial.id == "bml-b16" else trial)


def several_jobs(made: Made) -> Run:
    """Two arms, in each of which two jobs share a network."""
    run = with_copies(whole(made.run), {"more": "PS on fat-tree"})
    named = {"ps-b16": "x: a", "bml-b16": "x: b", "ring-b16": "y: a", "ps-b16-1": "y: b"}
    return sharing(run, named)


def many_arms(made: Made) -> Run:
    """Thirteen arms with checkpoints at two settings: more cells than any table has rows."""
    wrote = Checkpoints(9, 4, 36 * 10**6, 0.5)
    run = with_copies(made.run, {f"arm {n}": "Ring on fat-tree" for n in range(1, 11)})
    return each(run, lambda trial: replace(trial, checkpoints=wrote) if trial.done else trial)


def perturbed(made: Made) -> Run:
    """Arms whose links changed their rates and whose nodes died, with strategies: pairs of servers, critical paths."""
    happened = (Event("rate", "h0 at 20 Mbit/s", planned_s=1.0, begun_s=1.0, done_s=1.0),)
    lost = (Loss("h6", "", ("server",), 0.9, 0.95, 0.25),)
    pairs = (PairCount("h0", "h1", 60 * 2**20, 60 * 2**20, 20 * 2**20),)
    path = (Stage("forward e0", "h0", 0.0, 0.1), Stage("AllReduce of dense", "h0-p1-h3", 0.1, 0.3))
    run = with_copies(whole(made.run), {f"arm {n}": "BML on BCube" for n in range(1, 6)})
    run = each(
        run, lambda trial: replace(trial, events=happened, losses=lost, pairs=pairs, critical_path=path, links=_links())
    )
    return each(run, lambda trial: judged(trial, "INVALID") if trial.label in ("arm 2", "arm 3") else trial)


def _links() -> tuple[LinkCount, ...]:
    counts = np.arange(18) + 10**6
    return tuple(
        LinkCount(n, *(("s0", f"h{n // 2}") if n % 2 else (f"h{n // 2}", "s0")), 2e8, int(count), 0, 1e6)
        for n, count in enumerate(counts)
    )


KINDS: Mapping[str, Callable[[Made], Run]] = {
    "a plain comparison": plain,
    "INVALID in part": invalid_in_part,
    "INVALID": invalid,
    "simulated": simulated,
    "FAILED in part": failed_in_part,
    "two networks": two_networks,
    "numbers of workers": numbers_of_workers,
    "scripts": scripts,
    "asynchronous": asynchronous,
    "several jobs": several_jobs,
    "many arms": many_arms,
    "perturbed": perturbed,
}
