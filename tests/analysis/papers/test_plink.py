"""PLink's claims, decided from made-up runs and from models: they hold, fail, or cannot be told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from testbed.analysis.papers import plink
from testbed.analysis.papers.claim import Finding, Runs, Verdict
from testbed.analysis.papers.plink import (
    BANDWIDTH,
    EQUAL,
    FLAT,
    GROUPING,
    IDLE,
    LABELS,
    LATENCY,
    PAPER,
    PROBE,
    PROBED,
    RANDOM,
    TENANTS,
    TRUTH,
    UNEQUAL,
    K,
    arm,
)
from testbed.analysis.papers.plink_theory import ROWS, Costs
from testbed.analysis.record.happened import Found
from testbed.analysis.recorded import Run, Trial
from testbed.topologies.build import build
from testbed.topologies.cloud import places

from .made_up import Times, run, trial

HOLDS, FAILS, UNDECIDED = Verdict.HOLDS, Verdict.FAILS, Verdict.UNDECIDED
CLAIMS = {claim.name: claim for claim in PAPER.claims}
CLOUD = "cloud(rows=2,racks=2)"
TRUE = places(build(CLOUD, rate_bps=1))
RACKS = [[f"h{host}" for host in rack] for rack in TRUE.groups]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plink, "SEEDS", 2)
    monkeypatch.setattr(plink, "GROUPINGS", 3)
    monkeypatch.setattr(plink, "DRAWS", 1)


def decide(name: str, runs: Runs) -> Finding:
    return CLAIMS[name].decide(runs)


def failing(found: Finding) -> list[str]:
    return [check.says for check in found.checks if check.verdict == FAILS]


def test_the_table_is_right_for_two_algorithms_and_off_for_three() -> None:
    found = decide("plink.table4.1", {})
    assert found.verdict == FAILS
    verdicts = {check.says: check.verdict for check in found.checks}
    assert {says.partition(":")[0] for says, verdict in verdicts.items() if verdict == FAILS} == {
        row.name for row in ROWS if row.why
    }
    assert verdicts["Halving doubling: rounds as the table has them"] == HOLDS
    why = next(check.why for check in found.checks if check.says.startswith("Ring-Chunked: rounds"))
    assert why == "with N = 2 and C = 2 it is 6, where the table has 7"
    assert [row.theory for row in found.rows[:3]] == [4, 30, 6]


def test_another_table_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plink, "exact", lambda *_: Costs(4.0, 1.0, 1.0))
    assert "2-level hierarchical: bytes on the wire / S as the table has them" in failing(decide("plink.table4.1", {}))


def test_the_embedding_gains() -> None:
    found = decide("plink.embedding", {})
    assert found.verdict == HOLDS
    assert [row.paper for row in found.rows[:5]] == [5.0, 8.1, 5.0, 8.1, 81.3]
    assert all((row.theory or 0) < 0 for row in found.rows if "50 ms" in row.name)


def test_an_embedding_that_changes_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plink, "points", lambda *_: (90.0, 90.0))
    assert failing(decide("plink.embedding", {})) == [
        "PAIA as probed is the thesis's, within 5%",
        "gain by alpha 1, 2 dimensions: 3 points or more",
        "gain by alpha 2, 2 dimensions: 3 points or more",
        "gain by alpha 1, 3 dimensions: 3 points or more",
        "gain by alpha 2, 3 dimensions: 3 points or more",
    ]


def distances(rows_tell: bool) -> np.ndarray:
    """As racks and rows have them, each pair a bit its own; if rows do not tell, hosts of other racks are alike."""
    far = np.not_equal.outer(TRUE.racks, TRUE.racks) * 2.0
    far += np.not_equal.outer(TRUE.rows, TRUE.rows) * 2.0 * rows_tell
    noise = np.random.default_rng(1).uniform(0, 0.1, far.shape)
    return far + noise + noise.T


def probing(*, sure: str = LATENCY, took_s: float = 18.0, groups: Sequence[Sequence[str]] = RACKS) -> Run:
    """A run in which one probe tells rows, and the other does not."""
    trials = []
    for (state, by), label in LABELS.items():
        told = dict(zip((f"h{host}" for host in range(16)), distances(by == sure).tolist(), strict=True))
        names = "],[".join(",".join(group) for group in groups)
        found = Found("", by, {"scheme": f"two_level(groups=[[{names}]])"}, told, took_s)
        points: list[dict[str, Any]] = [{"scheme.alpha": 1}, {"scheme.alpha": 2}] if state == IDLE else [{}]
        trials += [replace(trial(label, 32, Times(0.1)), topology=CLOUD, found=(found,), point=at) for at in points]
    return run(trials)


def test_probes_that_tell_rows_and_racks() -> None:
    found = decide("plink.probe", {PROBE.spec: probing()})
    assert [check.why for check in found.checks if check.verdict != HOLDS] == []
    rows = {row.name: row.ours for row in found.rows if row.ours}
    latency, bandwidth = (rows[f"PAIA by {by}, idle"] for by in (LATENCY, BANDWIDTH))
    assert latency.interval
    assert bandwidth.interval
    assert latency.interval.value == 100
    assert 60 < bandwidth.interval.value < 95
    assert (len(latency.samples), latency.of, latency.valid, latency.trials) == (32, "hosts", 2, 2)
    assert rows[f"PAIA by {LATENCY}, {TENANTS}"].trials == 1


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (
            {"sure": BANDWIDTH},
            [
                "PAIA by latency, idle: 99 % or more",
                "probes of latency are more accurate than those of bandwidth",
            ],
        ),
        (
            {"took_s": 31.0},
            [
                "16 hosts probe each other, latency, at most 30 s",
                "16 hosts probe each other, bandwidth, at most 30 s",
            ],
        ),
        (
            {"groups": [RACKS[0][:3], [*RACKS[1], RACKS[0][3]], *RACKS[2:]]},
            ["by latency, groups are the racks in each idle trial"],
        ),
    ],
)
def test_probes_otherwise(changed: dict[str, Any], says: list[str]) -> None:
    assert failing(decide("plink.probe", {PROBE.spec: probing(**changed)})) == says


def test_groups_that_are_no_racks_in_simulated_probes_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plink, "groups_are_racks", lambda *_: 1)
    assert len(failing(decide("plink.probe", {PROBE.spec: probing()}))) == 1


GST_S = {FLAT: (1.6, 3.2), PROBED: (1.0, 1.0), RANDOM: (1.75, 3.5), TRUTH: (1.0, 1.0)}
"""By arm, with oversubscription 2 and 4."""


def grouped(gst_s: Mapping[str, tuple[float, float]] = GST_S, over_forest: float = 1.02) -> Run:
    """A run with five draws of random groups, where the n-th is slower by n - 3 tenths."""

    def timed(label: str, seconds: float, point: dict[str, Any]) -> Trial:
        made = trial(label, 32, Times(seconds, pace_s=0.0))
        return replace(made, point=point, metrics=replace(made.metrics, gst_theory_s=seconds / over_forest))

    trials = []
    for label, both in gst_s.items():
        for oversubscription, seconds in zip((2, 4), both, strict=True):
            at: dict[str, Any] = {"topology.oversubscription": oversubscription}
            if label == RANDOM:
                trials += [timed(label, seconds + (n - 3) / 10, {**at, "scheme.draw": n}) for n in range(1, 6)]
            else:
                trials.append(timed(label, seconds, at))
    for label, seconds in {PROBED: 1.15, EQUAL: 1.0, TRUTH: 1.15}.items():
        trials.append(timed(f"{label}{UNEQUAL}", seconds, {}))
    return run(trials)


def test_groups_found_by_probes_are_as_good_as_racks() -> None:
    found = decide("plink.2lha", {GROUPING.spec: grouped()})
    assert [check.why for check in found.checks if check.verdict != HOLDS] == []
    rows = {row.name: row for row in found.rows}
    for oversubscription, paper, ratio in ((2, 1.3, 1.75), (4, 3.9, 3.5)):
        row = rows[f"random over probed, oversubscription {oversubscription}"]
        assert row.interval
        assert (row.paper, round(row.interval.value, 2)) == (paper, ratio)
        assert row.theory == pytest.approx(1.733 * oversubscription / 2, abs=1e-3)
    assert rows["flat over truth, oversubscription 4"].theory == pytest.approx(3.2)
    unequal = rows["truth over probed equal, unequal racks"].interval
    assert unequal
    assert unequal.value == pytest.approx(1.15, abs=0.01)


@pytest.mark.parametrize(
    ("times", "says"),
    [
        ({RANDOM: (1.4, 3.5)}, ["random over probed, oversubscription 2: 1.5 times or more"]),
        ({RANDOM: (1.75, 2.5)}, ["random over probed, oversubscription 4: 3 times or more"]),
        ({PROBED: (1.05, 1.0)}, ["probed over truth, oversubscription 2: 1.02 at most"]),
    ],
)
def test_groups_otherwise(times: dict[str, tuple[float, float]], says: list[str]) -> None:
    assert failing(decide("plink.2lha", {GROUPING.spec: grouped({**GST_S, **times})})) == says


def test_what_is_slower_than_its_forest_fails() -> None:
    says = failing(decide("plink.2lha", {GROUPING.spec: grouped(over_forest=1.08)}))
    assert len(says) == 11
    assert all(text.endswith("a sum's time over its forest's bound: 1.05 at most") for text in says)


def test_a_draw_that_was_not_run_leaves_the_median_open() -> None:
    whole = grouped()
    part = replace(whole, trials=tuple(each for each in whole.trials if each.point.get("scheme.draw") != 3))
    found = decide("plink.2lha", {GROUPING.spec: part})
    assert found.verdict == UNDECIDED
    assert "random: was not run" in found.checks[0].why
    full = CLAIMS["plink.2lha"].decide_full
    assert full
    assert full({GROUPING.spec: whole}).verdict == UNDECIDED, "twenty draws are asked for"


def test_any_number_of_groups_takes_as_long() -> None:
    found = decide("plink.k", {K.spec: run([trial(arm(k), 32, Times(0.1)) for k in (2, 4, 8)])})
    assert found.verdict == HOLDS
    messages = {row.name: row.theory for row in found.rows if row.name.startswith("messages")}
    assert [messages[f"messages to a GM, 64 hosts, k = {k}"] for k in (4, 8, 16)] == [18, 14, 18]


def test_a_number_of_groups_with_which_gst_is_least_fails() -> None:
    best = run([trial(arm(k), 32, Times(0.1 if k == 4 else 0.12)) for k in (2, 4, 8)])
    assert failing(decide("plink.k", {K.spec: best})) == [
        "GST, 16 hosts, k = 2 over k = 4: as long, within 5%",
        "GST, 16 hosts, k = 8 over k = 4: as long, within 5%",
    ]


def test_other_messages_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plink, "_loads", lambda _, k: (float(k), float(k)))
    says = failing(decide("plink.k", {}))
    assert "a GM has fewest messages with k = 8 of 64 hosts" in says
    assert "the busiest link has as many bytes with any k" in says


@pytest.mark.parametrize("name", [claim.name for claim in PAPER.claims if claim.experiments])
def test_what_was_not_run_does_not_hold(name: str) -> None:
    assert decide(name, {}).verdict != HOLDS
