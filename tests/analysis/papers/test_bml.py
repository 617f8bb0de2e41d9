"""BML's claims, decided from made-up runs: each holds where times are theory's, and fails where they are not."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from testbed.analysis.papers import bml
from testbed.analysis.papers.bml import GST, LENET5, PAPER, VGG19, Job
from testbed.analysis.papers.bml_theory import least_gst_t_f
from testbed.analysis.papers.claim import Claim, Finding, Verdict
from testbed.analysis.recorded import Run
from testbed.topologies.build import build

from .made_up import Times, arms, run, trial

HOLDS, FAILS, UNDECIDED = Verdict.HOLDS, Verdict.FAILS, Verdict.UNDECIDED
CLAIMS = {claim.name: claim for claim in PAPER.claims}
UNIT_S = bml.t_f_s(arms({"any": Times(1.0)}))
"""T_F of a made-up run."""
GSTS = {"BML on BCube(3,2)": 8 / 9, "PS of 9": 16 / 9, "BML on BCube(2,3)": 7 / 12, "PS of 8": 7 / 4}
BARS = {"BML on BCube": 15 / 16, "PS on BCube": 1.5, "hierarchical on fat-tree": 15 / 8, "PS on fat-tree": 15 / 8}


def decide(name: str, found: Run | None) -> Finding:
    claim: Claim = CLAIMS[name]
    return claim.decide({} if found is None else {claim.experiments[0].spec: found})


def in_t_f(times: Mapping[str, float], **changed: float) -> Run:
    """GSTs in T_F, some of them changed; underscores stand for spaces."""
    changes = {name.replace("_", " "): value for name, value in changed.items()}
    return arms({label: Times(UNIT_S * changes.get(label, value)) for label, value in times.items()})


def test_t_f_is_how_long_a_link_takes_with_headers() -> None:
    """LeNet-5's 3,274,634 floats at 1 Gbit/s, whatever they are divided by, over 1448/1514."""
    assert pytest.approx(3_274_634 * 32 / 1e9 / (1448 / 1514), rel=1e-6) == UNIT_S


def test_gst() -> None:
    assert decide("bml.gst", in_t_f(GSTS)).verdict == HOLDS
    failing = decide("bml.gst", in_t_f(GSTS, PS_of_9=1.9))
    assert failing.verdict == FAILS
    assert [check.says for check in failing.checks if check.verdict == FAILS] == [
        "PS of 9: GST within 5 % of the paper's"
    ]
    assert [row.paper == pytest.approx(row.theory) for row in failing.rows] == [True] * 4


def test_gst_of_other_forests_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bml, "least_gst_t_f", lambda *_: 1.0)
    assert decide("bml.gst", in_t_f(GSTS)).checks[0].verdict == FAILS


@pytest.fixture
def quick_theory(monkeypatch: pytest.MonkeyPatch) -> None:
    """1,024 servers without their forests, which test_bml_theory.py looks at."""

    def known(scheme: str, network: str) -> float:
        if network in ("bcube(n=32,k=2)", "fat_tree(k=16)"):
            return {"bml": 1023 / 1024, "ps": 62 / 32 if "bcube" in network else 2046 / 1024}.get(scheme, 2046 / 1024)
        return least_gst_t_f(scheme, network)

    monkeypatch.setattr(bml, "least_gst_t_f", known)


@pytest.mark.usefixtures("quick_theory")
def test_figure_5() -> None:
    assert decide("bml.fig5", in_t_f(BARS)).verdict == HOLDS
    faster = arms({label: Times(UNIT_S * (0.9 if label == "PS on BCube" else one)) for label, one in BARS.items()})
    assert [check.says for check in decide("bml.fig5", faster).checks if check.verdict == FAILS] == [
        "BML on BCube is below PS on BCube, 16 servers"
    ]


@pytest.mark.usefixtures("quick_theory")
def test_figure_5_of_the_larger_network() -> None:
    flat = 2046 / 1024
    large = BARS | {"BML on BCube": flat / 2, "hierarchical on fat-tree": flat, "PS on fat-tree": flat}
    found = [trial(label, 1, Times(UNIT_S * gst_t_f), verdict="SIMULATED") for label, gst_t_f in large.items()]
    assert decide("bml.fig5_1024", run(found)).verdict == HOLDS
    found[0] = trial("BML on BCube", 1, Times(UNIT_S * 1.4), verdict="SIMULATED")
    assert [check.says for check in decide("bml.fig5_1024", run(found)).checks if check.verdict == FAILS] == [
        "BML on BCube, 1024 servers: GST within 5 % of the paper's"
    ]


@pytest.mark.usefixtures("quick_theory")
def test_ps_on_bcube_is_not_twice_bml_but_could_have_been() -> None:
    assert decide("bml.ps_on_bcube", in_t_f(BARS)).verdict == FAILS
    assert decide("bml.ps_on_bcube", in_t_f(BARS, PS_on_BCube=15 / 8)).verdict == HOLDS


def job_run(job: Job, change: Callable[[str, int, float], float] = lambda _label, _batch, gst: gst) -> Run:
    """Every trial of figures 6 and 7, as theory has it, with GSTs changed."""
    schemes = {bml.TENSORS: ("ps(place=tensor)", bml.STAR), bml.SHARES: ("ps", bml.STAR), bml.BML: ("bml", bml.BCUBE)}
    return run(
        [
            trial(label, batch, Times(change(label, batch, job.gst_t_f(*arm)), job.pace_t_f(batch)))
            for batch in job.batches
            for label, arm in schemes.items()
        ],
        model=job.model,
    )


@pytest.mark.parametrize(("name", "job"), [("bml.lenet5", LENET5), ("bml.vgg19", VGG19)])
def test_jct_as_theory_has_it(name: str, job: Job) -> None:
    found = decide(name, job_run(job))
    assert found.verdict == HOLDS
    first, last = found.rows[0], found.rows[len(job.batches) - 1]
    assert (first.paper, last.paper) == (job.most, job.least)
    assert (first.theory, last.theory) == pytest.approx((job.most, job.least))


@pytest.mark.parametrize(("name", "job"), [("bml.lenet5", LENET5), ("bml.vgg19", VGG19)])
@pytest.mark.parametrize(
    ("change", "failing"),
    [
        (lambda label, _, gst: gst * (2.5 if label == bml.BML else 1), "in the paper's range"),
        (lambda label, batch, gst: gst * (batch if label == bml.TENSORS else 1), "the reduction falls"),
        (lambda label, _, gst: gst * (0.6 if label == bml.TENSORS else 1), "more than 50 %"),
        (lambda label, _, gst: gst * (0.4 if label == bml.SHARES else 1), "0 to 50 %"),
        (lambda label, batch, gst: gst * (batch if label == bml.SHARES else 1), "so it does"),
    ],
)
def test_jct_otherwise(name: str, job: Job, change: Callable[[str, int, float], float], failing: str) -> None:
    found = decide(name, job_run(job, change))
    assert found.verdict == FAILS
    assert any(failing in check.says and check.verdict == FAILS for check in found.checks)


def test_the_smallest_batch_computes_for_less_than_the_largest_in_proportion() -> None:
    """A time a sample and one an iteration, both positive: the paper's two numbers could be of a real machine."""
    for job in (LENET5, VGG19):
        assert 0 < job.pace_t_f(0) < job.pace_t_f(job.batches[0]) < job.pace_t_f(job.batches[-1])


def test_switches_and_their_price(monkeypatch: pytest.MonkeyPatch) -> None:
    assert decide_model("bml.cost").verdict == HOLDS
    price = decide_model("bml.price")
    assert [check.verdict for check in price.checks] == [HOLDS, FAILS, FAILS] * 2
    monkeypatch.setattr(bml, "network", lambda _: build("star(hosts=8)", rate_bps=1000))
    assert decide_model("bml.cost").verdict == FAILS


def decide_model(name: str) -> Finding:
    return CLAIMS[name].decide({})


@pytest.mark.usefixtures("quick_theory")
@pytest.mark.parametrize("name", ["bml.gst", "bml.fig5", "bml.ps_on_bcube"])
def test_what_was_not_run_is_not_decided(name: str) -> None:
    assert decide(name, None).verdict == UNDECIDED


def test_an_invalid_trial_is_not_decided() -> None:
    trials = [trial(label, 1, Times(UNIT_S * one)) for label, one in GSTS.items()]
    trials[1] = trial("PS of 9", 1, Times(UNIT_S * 16 / 9), verdict="INVALID")
    found = CLAIMS["bml.gst"].decide({GST.spec: run(trials)})
    assert found.verdict == UNDECIDED
    assert [check.why for check in found.checks if check.why] == ["PS of 9: INVALID in GST (CPU headroom)"]


def test_theory_of_whole_tensors_goes_by_the_tensors() -> None:
    """A server gets its tensor from 8 others, and the one tenth from the other's server: 8 x 0.9 + 0.1."""
    assert least_gst_t_f("ps(place=tensor)", "star(hosts=9)", (90, 10)) == pytest.approx(8 * 0.9 + 0.1)
