"""TopoOpt's claims, decided from models: they hold, fail, or cannot be told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from itertools import permutations as permutations_of
from typing import Any

import numpy as np
import pytest
import yaml

from testbed.analysis.papers.claim import Experiment, Finding, Verdict
from testbed.analysis.papers.topoopt import computed, permuted
from testbed.analysis.papers.topoopt.compared import (
    CANDLE,
    CANDLE_128,
    CANDLE_D8,
    COUNTS,
    DEGREES,
    DLRM_D4,
    ITERATIONS,
    JOBS,
    JOBS_432,
    OTHERS,
    OTHERS_128,
    SHARED,
    SHARED_432,
    TOPOOPT,
    arm,
    labels,
)
from testbed.analysis.papers.topoopt.panels import (
    DARK_MS,
    LEARNT,
    LOOK_AHEAD,
    MODELS,
    ONESHOT,
    RECONFIGURATION_S,
    RECONFIGURED,
    SECOND,
)
from testbed.analysis.papers.topoopt.panels import arm as dark
from testbed.analysis.papers.topoopt.paper import EXPERIMENTS, PAPER, STAYS
from testbed.analysis.papers.topoopt.permuted import ALONE, DLRM, PERMS, PERMS_ALLREDUCE, PERMS_CANDLE
from testbed.analysis.record.metrics import Accuracy
from testbed.analysis.record.trial import Slot
from testbed.analysis.recorded import Run, Trial
from testbed.base.units import rate_bps
from testbed.comparison.reproduction import EXPERIMENTS as FOLDER
from testbed.experiment.expand import trials
from testbed.spec import read
from testbed.spec.jobs import singly
from testbed.topologies.call import parse
from testbed.topologies.model import Topology
from testbed.topologies.topoopt.demand import Demand, Group
from testbed.topologies.topoopt.finder import find
from testbed.topologies.topoopt.rings import rings as rings_of
from testbed.topologies.topoopt.selection import rings_that_fit

from .made_up import Times, arms, run, trial

HOLDS, FAILS, UNDECIDED = Verdict.HOLDS, Verdict.FAILS, Verdict.UNDECIDED
CLAIMS = {claim.name: claim for claim in PAPER.claims}


def decide(name: str) -> Finding:
    return CLAIMS[name].decide({})


def failing(found: Finding) -> list[str]:
    return [check.says for check in found.checks if check.verdict == FAILS]


def test_the_permutations_hold_with_the_numbers_of_the_example() -> None:
    found = decide("topo.perms")
    assert found.verdict == HOLDS
    assert [row.theory for row in found.rows] == [
        3,
        pytest.approx(94.5, abs=0.05),
        96,
        12,
        pytest.approx(1.733, abs=5e-4),
        pytest.approx(1.041, abs=5e-4),
        3,
    ]


def test_other_permutations_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permuted, "rings", lambda _: [1])
    monkeypatch.setattr(permuted, "FIGURE_9", (1, 5, 7))
    assert failing(decide("topo.perms")) == [
        "12 servers have the permutations 1, 5, 7, 11",
        "their strides are those of figure 9: 1, 5, 7",
    ]


def test_costs_are_told_as_they_are() -> None:
    found = decide("topo.cost")
    assert found.verdict == FAILS
    assert [round(row.theory or 0, 2) for row in found.rows] == [1.82, 1.11, 2.06, 1.26, 3.09, 1.10, 3.43, 1.22]
    assert not [says for says in failing(found) if says.endswith("it costs more")]


def test_costs_of_the_paper_would_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    dollars = {"look": 100.0, "mems": 133.0, "fat_": 340.0}
    monkeypatch.setattr(
        computed, "_dollars", lambda text, _: next(one for word, one in dollars.items() if word in text) * 1e6
    )
    assert decide("topo.cost").verdict == HOLDS
    monkeypatch.setitem(dollars, "fat_", 90.0)
    assert "ideal fat-tree over TopoOpt, d = 4, 100 Gbit/s: it costs more" in failing(decide("topo.cost"))


def test_panels_against_switches() -> None:
    def runs(topoopt_s: float) -> dict[str, Run]:
        paces = {"TopoOpt": topoopt_s, "ideal": 0.2, "one interface": 0.5}
        return {one.spec: arms({arm: Times(0.01, pace_s) for arm, pace_s in paces.items()}) for one in MODELS.values()}

    decide = CLAIMS["topo.fig18"].decide
    assert decide(runs(0.203)).verdict == HOLDS
    assert len(failing(decide(runs(0.3)))) == 3
    assert len(failing(decide(runs(0.6)))) == 6
    assert decide({}).verdict == UNDECIDED
    assert [row.theory for row in decide({}).rows] == [1.0, None] * 3


def test_compared() -> None:
    def runs(dlrm_s: float = 1.6, **changed: float) -> dict[str, Run]:
        """``dlrm_s`` is what DLRM's iterations take on the cost-equivalent network."""
        paces = {
            "TopoOpt": 1.0,
            "ideal": 1.0,
            "cost_equivalent": 2.8,
            "slowed": 3.0,
            "oversubscribed": 1.1,
            "expander": 9.0,
            "spine_leaf": 1.0,
        }
        labels = {"cost_equivalent": "cost-equivalent", "slowed": "ideal / 2.8", "spine_leaf": "spine-leaf"}
        found = {labels.get(name, name): Times(0.001, pace_s) for name, pace_s in (paces | changed).items()}
        of_dlrm = {**found, "cost-equivalent": Times(0.001, dlrm_s)}
        return {one.spec: arms(of_dlrm if one == DLRM_D4 else found) for one in OTHERS}

    decide = CLAIMS["topo.fig12"].decide
    assert decide(runs()).verdict == HOLDS
    assert failing(decide(runs(ideal=0.8))) == [
        f"{name}: the ideal network is at most 5% faster" for name in ("CANDLE, d = 4", "CANDLE, d = 8", "DLRM, d = 4")
    ]
    mean = "mean of CANDLE and DLRM, d = 4: iteration, cost-equivalent over TopoOpt: as the paper says, within 10%"
    assert failing(decide(runs(dlrm_s=2.8, cost_equivalent=1.6))) == [
        "CANDLE: the cost-equivalent one takes as long as the paper says, within 10%"
    ]
    assert failing(decide(runs(dlrm_s=2.8))) == failing(decide(runs(dlrm_s=1.0))) == [mean]
    without = {spec: one for spec, one in runs().items() if spec != DLRM_D4.spec}
    assert [check.verdict for check in decide(without).checks if check.says == mean] == [UNDECIDED]
    assert len(failing(decide(runs(expander=2.0)))) == 2 + 1 + 1
    assert decide({}).verdict == UNDECIDED


def test_compared_on_128_servers() -> None:
    def runs(verdict: str, ideal: float = 1.0) -> dict[str, Run]:
        paces = dict.fromkeys((TOPOOPT, *OTHERS_128), 1.0) | {"cost-equivalent": 2.8, "expander": 9.0, "ideal": ideal}
        found = [trial(label, 1, Times(0.001, pace_s), verdict=verdict) for label, pace_s in paces.items()]
        return {CANDLE_128.spec: run(found)}

    decide = CLAIMS["topo.fig12_128"].decide
    assert decide(runs("SIMULATED")).verdict == HOLDS
    assert failing(decide(runs("SIMULATED", ideal=0.8))) == [
        "CANDLE, 128 servers: the ideal network is at most 5% faster"
    ]
    assert decide(runs("INVALID")).verdict == decide({}).verdict == UNDECIDED


def test_permuted() -> None:
    def runs(**found: float) -> dict[str, Run]:
        times = dict.fromkeys(ALONE, Times(0.2, 0.4)) | {"found": Times(**found)}
        return {one.spec: arms(times) for one in (PERMS_ALLREDUCE, PERMS, PERMS_CANDLE)}

    decide = CLAIMS["topo.permuted"].decide
    assert decide(runs(gst_s=0.2, pace_s=0.3)).verdict == HOLDS
    assert len(failing(decide(runs(gst_s=0.1, pace_s=0.3)))) == 3
    assert len(failing(decide(runs(gst_s=0.2, pace_s=0.5)))) == 4
    assert decide({}).verdict == UNDECIDED


def test_degrees() -> None:
    def runs(exponent: float) -> dict[str, Run]:
        found = arms({arm(d): Times(4.0 / d**exponent) for d in COUNTS})
        return {one.spec: found for one in (DEGREES, *ITERATIONS.values())}

    degrees = CLAIMS["topo.fig16"].decide
    assert degrees(runs(1.0)).verdict == HOLDS
    assert failing(degrees(runs(0.5))) == ["GST is in proportion to the interfaces, within 10%"]
    assert len(failing(degrees(runs(-1.0)))) == 4
    assert degrees({}).verdict == UNDECIDED


def test_degrees_are_of_the_smallest_even_number_of_servers_with_five_rings() -> None:
    most = max(COUNTS) // 2
    assert [n for n in range(4, 23) if n % 2 == 0 and len(rings_of(n)) >= most] == [22]
    assert rings_that_fit(11, max(COUNTS)) < most <= len(rings_of(11)), "ten interfaces do not carry them"


def test_rates_of_figure_16_are_as_the_claim_says() -> None:
    _, rates = CLAIMS["topo.fig16"].assumes
    for one in (DEGREES, *ITERATIONS.values()):
        assert f"{rate_bps(_spec(one.spec)['links']['rate']) / 1e9:g} %" in rates, one.spec


def test_a_trained_dlrm() -> None:
    def runs(**changed: float) -> dict[str, Run]:
        paces = {"found": 1.0, "data": 2.5, "single": 3.5, "star": 1.0} | changed
        return {
            DLRM.spec: arms({"single ring" if one == "single" else one: Times(0.001, s) for one, s in paces.items()})
        }

    decide = CLAIMS["topo.dlrm"].decide
    assert decide(runs()).verdict == HOLDS
    assert failing(decide(runs(data=1.5))) == ["iteration, data over found: at least 2"]
    assert failing(decide(runs(single=2.5))) == ["iteration, single ring over found: at least 3"]
    assert failing(decide(runs(star=0.8))) == ["iteration, star over found: at least 0.9"]
    assert decide({}).verdict == UNDECIDED


def test_accuracy_over_time() -> None:
    """All reach each accuracy in the same iteration."""

    def runs(topoopt_s: float) -> dict[str, Run]:
        run = arms({"TopoOpt": Times(0.01, topoopt_s), "ideal": Times(0.01, 0.2), "one interface": Times(0.01, 0.5)})
        learnt = Accuracy(curve=[[2 * i, 0.1 * min(i, 7)] for i in range(1, 10)], weights_equal=True)
        return {LEARNT.spec: replace(run, trials=tuple(replace(one, accuracy=learnt) for one in run.trials))}

    decide = CLAIMS["topo.fig19"].decide
    assert decide(runs(0.2)).verdict == HOLDS
    assert len(failing(decide(runs(0.3)))) == 1
    assert len(failing(decide(runs(0.9)))) == 2
    assert decide({}).verdict == UNDECIDED


def test_predictions_count_where_there_are_some() -> None:
    def runs(predicted_s: float | None) -> dict[str, Run]:
        run = arms({"a": Times(0.1, 0.9), "b": Times(0.1, 0.9)})
        first, *others = run.trials
        metrics = replace(first.metrics, iteration_predicted_s=predicted_s)
        return {EXPERIMENTS[0].spec: replace(run, trials=(replace(first, metrics=metrics), *others))}

    decide = CLAIMS["topo.predicted"].decide
    near, far = decide(runs(1.02)), decide(runs(1.3))
    assert [row.name for row in near.rows] == ["predicted over measured, dlrm: a"]
    assert (near.verdict, far.verdict) == (HOLDS, FAILS)
    assert decide(runs(None)).verdict == decide({}).verdict == UNDECIDED


def _predicted(label: str, predicted_s: float, slot: Slot | None = None) -> Trial:
    """It takes a second for an iteration."""
    made = trial(label, 1, Times(0.1, 0.9))
    return replace(made, slot=slot, metrics=replace(made.metrics, iteration_predicted_s=predicted_s))


def test_predictions_of_copies_of_a_job_share_a_row_and_none_is_forgotten() -> None:
    def runs(third_s: float) -> dict[str, Run]:
        """The prediction of the third copy."""
        copies = [_predicted(f"a: bert-{i}", s, Slot(f"bert-{i}")) for i, s in enumerate((1.0, 1.0, third_s), 1)]
        return {SHARED.spec: run([*copies, _predicted("b: bert", 1.0, Slot("bert"))])}

    decide = CLAIMS["topo.predicted"].decide
    found = decide(runs(1.0))
    assert [row.name for row in found.rows] == [f"predicted over measured, figure14: {arm}: bert" for arm in ("a", "b")]
    assert found.rows[0].ours is not None
    assert (found.rows[0].ours.trials, len(found.rows[0].ours.samples)) == (3, 15)
    assert (found.verdict, decide(runs(2.0)).verdict) == (HOLDS, UNDECIDED)


def test_a_label_that_ends_with_a_number_is_a_copy_only_if_it_is_a_jobs() -> None:
    found = CLAIMS["topo.predicted"].decide({DLRM.spec: run([_predicted("d-4", 1.0), _predicted("d-6", 1.0)])})
    assert [row.name for row in found.rows] == [f"predicted over measured, dlrm: {label}" for label in ("d-4", "d-6")]


def test_predictions_are_for_circuits_that_stay() -> None:
    labels = [ONESHOT, *map(dark, DARK_MS)]
    found = CLAIMS["topo.predicted"].decide({RECONFIGURED.spec: run([_predicted(one, 1.0) for one in labels])})
    assert [row.name for row in found.rows] == [f"predicted over measured, figure15: {ONESHOT}"]
    moving = {one["label"] for one in _spec(RECONFIGURED.spec)["arms"] if "perturb" in one}
    assert moving == {*labels} - {*STAYS[RECONFIGURED.spec]}, "and all of them move"


def test_all_specs_with_a_strategy_are_predicted() -> None:
    every = {experiment for claim in PAPER.claims for experiment in claim.experiments}
    written = {experiment.spec: (FOLDER / experiment.spec).read_text() for experiment in every}
    with_one = {spec for spec, text in written.items() if "strategy:" in text and "lab: simulator" not in text}
    assert {one.spec for one in EXPERIMENTS} == with_one


def test_jobs_of_figure_14_share_no_links_with_others() -> None:
    """So a prediction of a job alone applies to it."""
    path = FOLDER / SHARED.spec
    for one in trials(read(path.read_text(), path.name, path.parent)):
        links = {job.slot.hosts: _among(job.network.topology, job.slot.hosts) for job in one.jobs if job.slot}
        assert len(links) in (2, 4)
        assert not any(some & others for some, others in combinations(links.values(), 2)), one.name


def test_arms_on_432_servers_have_the_papers_mix_on_all_of_them_and_on_half() -> None:
    path = FOLDER / SHARED_432.spec
    for each in read(path.read_text(), path.name, path.parent).spec.arms:
        jobs, load = singly(each.jobs), " ".join(each.title.split()[1:])
        assert tuple(job.name for job in jobs) == JOBS_432[load]
        assert sum(job.hosts for job in jobs if isinstance(job.hosts, int)) == {"50 %": 216, "100 %": 432}[load]
        models = [job.model for job in jobs]
        shares = {model: models.count(f"{model}_shared") / len(jobs) for model in ("dlrm", "bert", "candle", "vgg")}
        assert shares == {"dlrm": 0.4, "bert": 0.3, "candle": 0.2, "vgg": 0.1}


def _among(topology: Topology, hosts: Sequence[int]) -> set[int]:
    """The links that any two hosts reach each other over."""
    return {link for pair in permutations_of(hosts, 2) for path in topology.paths(*pair) for link in path.links}


@pytest.mark.parametrize(
    ("claim", "experiment", "by_load"), [("fig14", SHARED, JOBS), ("fig14_432", SHARED_432, JOBS_432)]
)
def test_shared(claim: str, experiment: Experiment, by_load: Mapping[str, Sequence[str]]) -> None:
    def runs(**networks: tuple[float, float]) -> dict[str, Run]:
        """TopoOpt's jobs take a second for an iteration. Of another network, the first job of an arm takes the second
        number, and all jobs the first one in the mean. Each job has a batch of its own."""
        found = []
        for network, (mean_s, longest_s) in {TOPOOPT: (1.0, 1.0), **networks}.items():
            for load, jobs in by_load.items():
                rest_s = (len(jobs) * mean_s - longest_s) / (len(jobs) - 1)
                for batch, label in enumerate(labels(network.replace("_", "-"), load, jobs), 1):
                    times = Times(1e-6, longest_s if batch == 1 else rest_s)
                    found.append(trial(label, batch, times))
        return {experiment.spec: run(found)}

    paper = {"cost_equivalent": (1.7, 3.0), "oversubscribed": (1.16, 1.4), "ideal": (1.07, 1.12)}
    decide = CLAIMS[f"topo.{claim}"].decide
    assert decide(runs(**paper)).verdict == HOLDS
    assert failing(decide(runs(**paper | {"cost_equivalent": (1.1, 3.0), "ideal": (0.9, 1.12)}))) == [
        "TopoOpt is as fast as the ideal network, within 5%",
        "mean iteration, cost-equivalent over TopoOpt, 100 %: as the paper says, within 10%",
        "mean iteration, ideal over TopoOpt, 100 %: as the paper says, within 10%",
    ]
    for network, (mean_s, longest_s) in paper.items():
        assert failing(decide(runs(**paper | {network: (mean_s, 1.2 * longest_s)}))) == [
            f"longest iteration, {network.replace('_', '-')} over TopoOpt, 100 %: as the paper says, within 10%"
        ]
    assert decide({}).verdict == UNDECIDED


def test_reconfigured() -> None:
    def runs(*dark_s: float) -> dict[str, Run]:
        found = {dark(ms): Times(0.01, pace_s) for ms, pace_s in zip(DARK_MS, dark_s, strict=True)}
        return {RECONFIGURED.spec: arms({ONESHOT: Times(0.01, 0.4), **found})}

    decide = CLAIMS["topo.fig15"].decide
    assert decide(runs(0.9, 0.9, 1.4)).verdict == HOLDS
    assert len(failing(decide(runs(0.3, 0.3, 1.4)))) == 2
    assert failing(decide(runs(0.9, 0.9, 1.0))) == ["iteration, dark 100 ms over oneshot: at least 3"]
    assert not any(row.paper for row in decide({}).rows), "the paper has no numbers"
    assert any("at least 3 times" in one for one in CLAIMS["topo.fig15"].assumes)
    assert decide({}).verdict == UNDECIDED


def test_look_ahead() -> None:
    def runs(ahead_s: float | None, alone_s: float | None, repeats: int = 3) -> dict[str, Run]:
        """Times of all repeats differ a little."""
        found = [
            replace(
                trial(label, 1, Times(0.1), repeat=repeat),
                slot=Slot("second", dark_s=None if dark_s is None else dark_s * (1 + 0.01 * repeat)),
            )
            for label, dark_s in zip(SECOND.values(), (ahead_s, alone_s), strict=True)
            for repeat in range(repeats)
        ]
        return {LOOK_AHEAD.spec: run(found)}

    decide = CLAIMS["topo.fig10"].decide
    assert decide(runs(0.006, 3.006)).verdict == HOLDS
    assert failing(decide(runs(0.3, 3.006))) == ["servers dark before the second job, look-ahead: at most 50 ms"]
    for alone_s in (0.006, 1.5, 6.0):
        assert failing(decide(runs(0.006, alone_s))) == [
            "servers dark before the second job, one panel: as long as patching takes, within 5%"
        ]
    assert decide(runs(0.006, 3.006, repeats=1)).verdict == UNDECIDED, "one wait tells nothing of its spread"
    assert decide(runs(0.006, None)).verdict == UNDECIDED
    assert decide({}).verdict == UNDECIDED


def test_look_ahead_is_compared_with_what_patching_takes_in_its_spec() -> None:
    """In both arms; one looks ahead."""
    asked = {one["label"]: parse(one["topology"], "ring").arguments for one in _spec(LOOK_AHEAD.spec)["arms"]}
    assert {label: arguments["reconfiguration_s"] for label, arguments in asked.items()} == dict.fromkeys(
        SECOND, RECONFIGURATION_S
    )
    assert [arguments.get("look_ahead", False) for arguments in asked.values()] == [True, False]


def test_hops_depend_on_the_size_of_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    found = decide("topo.three_hops")
    assert found.verdict == UNDECIDED
    assert [row.theory for row in found.rows[17:]] == [7, 6, 9]
    assert found.checks[-1].why == "it is so for jobs of 16 to 128 servers; the paper gives no sizes"
    monkeypatch.setattr(computed, "JOBS", (16, 32, 64, 128))
    assert decide("topo.three_hops").verdict == HOLDS
    monkeypatch.setattr(computed, "RINGS", 1)
    monkeypatch.setattr(computed, "JOBS", (64, 128, 256, 432))
    assert "most servers are at most three hops away" in failing(decide("topo.three_hops"))


def _spec(spec: str) -> Any:
    return yaml.safe_load((FOLDER / spec).read_text())


def _written(spec: str) -> list[tuple[int, int, list[int]]]:
    """Servers, degree and rings of each arm on panels that has them written."""
    found = []
    for one in _spec(spec)["arms"]:
        call = parse(one["topology"], "ring")
        if call.name == "patch_panel":
            servers, degree, rings = (call.arguments[name] for name in ("servers", "degree", "rings"))
            found.append((int(str(servers)), int(str(degree)), [int(str(ring)) for ring in rings]))  # type: ignore[union-attr]
    return found


@pytest.mark.parametrize("one", [PERMS, PERMS_ALLREDUCE, PERMS_CANDLE], ids=lambda one: one.spec)
def test_arms_of_written_rings_use_both_directions(one: Experiment) -> None:
    """As those of found rings do; else they would be slower for that alone."""
    schemes = [arm["scheme"] for arm in _spec(one.spec)["arms"] if "patch_panel" in arm["topology"]]
    for scheme, (servers, _, written) in zip(schemes, _written(one.spec), strict=True):
        strides = {int(str(stride)) for stride in parse(scheme, "ring").arguments["strides"]}  # type: ignore[union-attr]
        assert strides == {stride for ring in written for stride in (ring, servers - ring)}


@pytest.mark.parametrize("one", [CANDLE, CANDLE_D8, DEGREES, *MODELS.values()], ids=lambda one: one.spec)
def test_rings_that_specs_have_written_are_the_finders(one: Experiment) -> None:
    """All of data-parallel jobs."""
    written = _written(one.spec)
    assert written
    for servers, degree, rings in written:
        job = Demand(servers, (Group(tuple(range(servers)), 10**9),), np.zeros((servers, servers), np.int64))
        assert find(job, degree).strides == rings
