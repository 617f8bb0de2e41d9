"""Playing what perturbations leave to chance, before a trial, and in its record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from testbed.base.errors import SpecError
from testbed.experiment.expand import trials
from testbed.spec import read
from testbed.trial.model import Trial

SPEC = """\
name: chance
links: {rate: 20 Gbit/s}
workload:
  kind: profile
  model: vgg19
  scale: 200
  batch: 32
  iterations: 4
  compute: {mode: paced, pace: {32: 0.05 s}}
arms:
  - {label: a, topology: star(hosts=3), scheme: ring}
  - {label: b, topology: star(hosts=3), scheme: ring, rate: 18 Gbit/s}
"""
RARE = "{kind: straggle, probability: 30 %, slowdown: 4, workers: [h1]}"


def planned(perturb: str, *overrides: str) -> list[Trial]:
    return trials(read(SPEC, "spec.yaml", Path(), (f"perturb=[{perturb}]", *overrides)))


def said(trial: Trial, jct_s: float | None = None) -> list[str]:
    return list(map(str, trial.strikes(jct_s)))


def test_the_draws_are_those_that_workers_get() -> None:
    for seed in range(6):
        rare, usual = planned(f"{RARE}, C1", f"seed={seed}")[0].strikes(None)
        alone = planned(RARE, f"seed={seed}")[0].job.stragglers
        assert alone is not None
        assert rare.struck == (alone.factor[1] > 1).sum()
        assert (rare.chances, usual.chances) == (4, 12)
        assert usual.of == "iterations of 3 workers"


def test_a_worker_that_is_never_struck_is_found_before_the_trial_runs() -> None:
    trial, _ = planned(RARE)
    assert said(trial) == ["straggle strikes 0 of 4 iterations of h1"]
    assert (trial.job.stragglers.factor == 1).all()  # type: ignore[union-attr]


@pytest.mark.parametrize("always", ["{kind: slow, workers: h0, slowdown: 2}", "{kind: rate, links: h0, share: 0.5}"])
def test_what_is_not_left_to_chance_is_not_told(always: str) -> None:
    assert said(planned(always)[0], 10.0) == []


def test_half_of_jitters_draws_are_zero() -> None:
    (jitter,) = planned("{kind: jitter, sigma: 20 ms}", "workload.iterations=400")[0].strikes(None)
    assert (jitter.chances, jitter.of) == (1200, "iterations of 3 workers")
    assert 500 < jitter.struck < 700


def test_a_trace_that_tells_of_later_iterations_only_strikes_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "trace.csv").write_text("worker,iteration,slowdown\nh0,7,2.5\n")
    monkeypatch.chdir(tmp_path)
    assert said(planned("{kind: trace, file: trace.csv}")[0]) == ["trace strikes 0 of 12 iterations of 3 workers"]


def test_draws_of_rates_are_played_for_as_long_as_the_trial_takes() -> None:
    rates = "{kind: rates, every: 1 s, shares: {50 %: 0.2, 100 %: 0.8}, links: h0, direction: out}"
    trial, _ = planned(rates)
    assert said(trial) == []  # how long it takes is not known
    changes = [event.links[0].rate_bps for event, _ in zip(trial.schedule().streams[0], range(20), strict=False)]
    slower = [rate_bps != max(filter(None, changes)) for rate_bps in changes]
    assert said(trial, 20.0) == [f"rates strikes {sum(slower)} of 20 draws of a link's rate"]
    first = slower.index(True)
    assert said(trial, float(first)) == [f"rates strikes 0 of {first} draws of a link's rate"]


def test_jobs_are_played_together() -> None:
    jobs = "[{name: x, scheme: ring, hosts: [h0, h1]}, {name: y, scheme: ring, hosts: [h2, h3]}]"
    arms = f"arms=[{{topology: star(hosts=5), jobs: {jobs}}}]"
    rare, nobody = planned(f"{RARE}, {RARE.replace('h1', 'h4')}", arms)[0].strikes(None)
    assert (rare.chances, rare.of) == (4, "iterations of h1")
    assert (nobody.struck, nobody.of) == (0, "iterations, since no worker runs on its hosts")


def test_arms_meet_the_same_unless_that_is_asked_for() -> None:
    def struck(*overrides: str) -> list[Any]:
        return [trial.job.stragglers.factor.tolist() for trial in planned("C2", *overrides)]  # type: ignore[union-attr]

    more = "workload.iterations=40"
    same, (first, second) = struck(more), struck(more, "draws=by arm")
    assert same[0] == same[1]
    assert first != second
    assert same[0] not in (first, second)
    assert struck(more, "draws=by arm") == [first, second]
    assert struck(more, "draws=by arm", "seed=2") != [first, second]
    assert struck(more, "draws=by arm", "arms.0.label=c")[0] != first


def test_draws_by_arm_make_another_trial_only_where_something_is_drawn() -> None:
    def identities(perturb: str, *overrides: str) -> list[str]:
        return [trial.identity for trial in planned(perturb, *overrides)]

    rates = "{kind: rates, every: 1 s, shares: {50 %: 0.2, 100 %: 0.8}}"
    for drawn in (rates, "C1", "{kind: jitter, sigma: 1 ms, of: step}"):
        assert identities(drawn) == identities(drawn, "draws=same")
        assert not set(identities(drawn)) & set(identities(drawn, "draws=by arm"))
    assert identities("") == identities("", "draws=by arm")


def test_other_words_are_refused() -> None:
    with pytest.raises(SpecError, match="draws"):
        planned("C1", "draws=by worker")
