"""PHub's measured claims, decided from made-up runs: they hold, fail, or cannot be told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import pytest

from testbed.analysis.jobs import label_of
from testbed.analysis.papers import phub_measured as measured
from testbed.analysis.papers.claim import Finding, Runs, Verdict
from testbed.analysis.papers.phub_measured import CLAIMS, FAULTS, HIERARCHICAL, JOBS, RATES_BPS, pays
from testbed.analysis.record.metrics import Accuracy
from testbed.analysis.record.trial import Slot
from testbed.analysis.recorded import Run, Trial

from .made_up import Times, run, trial

HOLDS, FAILS, UNDECIDED = Verdict.HOLDS, Verdict.FAILS, Verdict.UNDECIDED
BY_NAME = {claim.name: claim for claim in CLAIMS}


def decide(name: str, runs: Runs) -> Finding:
    return BY_NAME[name].decide(runs)


def failing(finding: Finding) -> list[str]:
    return [check.says for check in finding.checks if check.verdict == FAILS]


def swept(path: str, times: Mapping[object, Mapping[str, float]]) -> Run:
    """A run with arms' GST by the value of what is swept."""
    return run(
        [
            replace(trial(label, 32, Times(gst_s)), point={path: value})
            for value, arms in times.items()
            for label, gst_s in arms.items()
        ]
    )


def by_world(arms: Iterable[tuple[str, int, Times]]) -> Run:
    return run([replace(trial(label, 32, times), world=world) for label, world, times in arms])


def halving(half: float = 1.75) -> Runs:
    times = {"alexnet": (0.195, 0.016), "vgg19": (0.46, 0.268)}
    runs = {
        measured.FIGURE_6_2[model].spec: by_world(
            [
                ("PShard", 8, Times(half * gst_s, pace_s)),
                ("PBox", 8, Times(gst_s, pace_s)),
                ("PBox and 7", 7, Times(gst_s, pace_s)),
            ]
        )
        for model, (gst_s, pace_s) in times.items()
    }
    few = by_world([("2 workers", 2, Times(0.1, 0.0)), ("8 workers", 8, Times(0.101, 0.0))])
    return {**runs, measured.FIGURE_6_5.spec: few}


def localities(by_worker: float = 1.25, wide: float = 1.09) -> Runs:
    models = {"alexnet": 1.516, "vgg11": 1.773, "resnet50": wide}
    return {
        measured.AFFINITY.spec: swept(
            "workload.model", {model: {"by key": 1.0, "by worker": by_worker} for model in ("alexnet", "resnet50")}
        ),
        measured.AGGREGATION.spec: swept(
            "workload.model", {model: {"tall": 1.0, "wide": ratio} for model, ratio in models.items()}
        ),
    }


def sharing(slowest: float = 1.01, half: float = 2.0) -> Runs:
    runs = {}
    for experiment in measured.SHARED.values():
        alone = trial(label_of("1 job", JOBS[0]), 32, Times(1.0, 0.0))
        others = [trial(label_of("8 jobs", job), 32, Times(1.01, 0.0)) for job in JOBS[1:]]
        runs[experiment.spec] = run([alone, trial(label_of("8 jobs", JOBS[0]), 32, Times(slowest, 0.0)), *others])
    nics = {"16 NICs": 1.0, "8 NICs": half}
    each = [trial(label_of(arm, job), 32, Times(gst_s)) for arm, gst_s in nics.items() for job in JOBS]
    return {**runs, measured.SHARED_NICS.spec: run(each)}


def across_racks(last: float = 0.8) -> Runs:
    streamed, whole = (4.0, 3.2, 2.13, 1.6), (2.0, 1.33, 0.99, last)
    return {
        HIERARCHICAL.spec: swept(
            "links.level 2.rate",
            {
                rate_bps: {
                    "flat": small,
                    "hierarchical": 1.0,
                    "flat, a key for each NIC": large,
                    "hierarchical, a key for each NIC": 1.0,
                }
                for rate_bps, small, large in zip(RATES_BPS, streamed, whole, strict=True)
            },
        )
    }


def kills(other: Callable[[Trial], Trial] = lambda trial: trial, gst_s: float = 0.1) -> Runs:
    """Job a, b-1 and b-2 undisturbed, and when a worker of a is killed; ``other`` changes what became of b-1 then."""
    right = Accuracy(weights_error=1e-7, weights_equal=True)

    def job(arm: str, name: str, times: Times, **point: str) -> Trial:
        made = trial(label_of(arm, name), 2, times, done=(arm, name) != ("killed", "a"))
        return replace(made, point=point, accuracy=right, slot=Slot(name))

    names = ("a", "b-1", "b-2")
    trials = [job("undisturbed", name, Times(0.1)) for name in names]
    for moment in ("0.6 s", "1.4 s"):
        hit = [job("killed", name, Times(gst_s), **{"arm.perturb.0.at": moment}) for name in names]
        trials += [hit[0], other(hit[1]), hit[2]]
    return {FAULTS.spec: run(trials)}


def test_claims_hold_where_links_set_times() -> None:
    assert decide("phub.halved", halving()).verdict == HOLDS
    assert decide("phub.shared", sharing()).verdict == HOLDS
    assert decide("phub.faults", kills()).verdict == HOLDS


def test_bytes_that_are_not_halved_fail() -> None:
    assert "GST PShard / PBox, AlexNet: 1.75, within 0.05" in failing(decide("phub.halved", halving(1.5)))


def test_twenty_times_fails_as_bytes_cannot_make_it() -> None:
    assert failing(decide("phub.locality", localities())) == ["wide / tall, ResNet-50: 20 times, within 5 %"]
    assert "by worker / by key, AlexNet: 1.25, within 0.04" in failing(decide("phub.locality", localities(1.43)))
    assert "wide / tall, ResNet-50: 1.092, within 0.055" in failing(decide("phub.locality", localities(wide=20.0)))


def test_a_job_that_is_slower_than_the_others_fails() -> None:
    assert failing(decide("phub.shared", sharing(slowest=1.2))) == [
        "fewer samples/s, AlexNet, the slowest job: 5 % at most",
        "fewer samples/s, ResNet-50, the slowest job: 2 % at most",
    ]
    assert failing(decide("phub.shared", sharing(half=1.8))) == [
        "GST with half of the NICs, mean of eight jobs: 2, within 0.06"
    ]


def test_the_condition_is_not_exact_where_keys_stream() -> None:
    assert failing(decide("phub.hier", across_racks())) == [
        "flat / hierarchical at 150: it does not pay, as the condition says",
        "flat / hierarchical at 200: it does not pay, as the condition says",
    ]
    assert "flat / hierarchical at 200, a key for each NIC: 0.8, within 0.08" in failing(
        decide("phub.hier", across_racks(last=1.2))
    )


def test_the_condition_is_met_below_150() -> None:
    assert [pays(mbps) for mbps in (50, 100, 149, 151, 200)] == [True, True, True, False, False]


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (lambda hit: replace(hit, done=False, error="h2 died"), "jobs of others that failed: none of 6"),
        (
            lambda hit: replace(hit, accuracy=Accuracy(weights_error=1e-7, weights_equal=False)),
            "jobs of others with other weights than a single process: none of 6",
        ),
        (
            lambda hit: replace(hit, accuracy=Accuracy()),
            "jobs of others with other weights than a single process: none of 6",
        ),
    ],
)
def test_a_tenant_that_loses_something_fails(other: Callable[[Trial], Trial], says: str) -> None:
    assert failing(decide("phub.faults", kills(other))) == [says]


def test_tenants_that_get_slower_fail() -> None:
    assert failing(decide("phub.faults", kills(gst_s=0.11))) == ["GST of the others, over undisturbed: 1, within 0.02"]


def test_small_keys_are_not_decided_by_trials() -> None:
    finding = decide("phub.chunks", {})
    assert finding.verdict == UNDECIDED
    least = [row.theory for row in finding.rows]
    assert least == sorted(least), "by links, smaller keys are never slower"


def test_nothing_is_decided_without_runs() -> None:
    for claim in CLAIMS:
        assert claim.decide({}).verdict == UNDECIDED, claim.name
