"""Slowdowns of workers: how many, how much, whose, and always the same ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.base.errors import SpecError
from testbed.experiment.expand import trials
from testbed.perturb.stragglers import draw
from testbed.spec import read
from testbed.topologies.build import build
from testbed.trial.model import Trial

STAR = build("star(hosts=4)", rate_bps=10**8)
MANY = 20_000


def drawn(perturbations, iterations: int = MANY, seed: int = 1, folder: Path = Path()):
    return draw(perturbations, STAR, range(4), iterations, seed, folder)


@pytest.mark.parametrize(("name", "probability", "slowdown"), [("C1", 0.1, 2), ("C2", 0.1, 4), ("C3", 0.04, 2)])
def test_mlfabrics_settings(read, name: str, probability: float, slowdown: float) -> None:
    factor = drawn(read(name)).factor
    assert set(np.unique(factor)) == {1.0, float(slowdown)}
    assert abs((factor > 1).mean() - probability) < 5 * np.sqrt(probability / factor.size)


def test_the_same_seed_draws_the_same_and_another_one_does_not(read) -> None:
    once, again, other = (drawn(read("C1"), seed=seed).factor for seed in (7, 7, 8))
    assert (once == again).all()
    assert (once != other).any()


def test_a_shorter_trial_has_the_beginning_of_no_other(read) -> None:
    """Each trial has its own draw; within one, workers differ."""
    factor = drawn(read("C1"), 200).factor
    assert (factor[0] != factor[1]).any()


def test_another_perturbation_leaves_the_first_ones_numbers(read) -> None:
    slow = {"kind": "slow", "workers": "h3", "slowdown": 3}
    assert (drawn(read("C1", slow)).factor[:3] == drawn(read("C1")).factor[:3]).all()


def test_fixed_slow_workers(read) -> None:
    factor = drawn(read({"kind": "slow", "workers": ["h1", "h3"], "slowdown": 3}), 5).factor
    assert factor[:, 0].tolist() == [1, 3, 1, 3]
    assert (factor == factor[:, :1]).all()


def test_jitter_is_a_normal_distributions_positive_half(read) -> None:
    found = drawn(read({"kind": "jitter", "sigma": "20 ms", "workers": "h0"}))
    assert (found.factor == 1).all()
    assert (found.extra_s[1:] == 0).all()
    late = found.extra_s[0]
    assert late.min() == 0
    assert abs((late > 0).mean() - 0.5) < 0.03
    assert abs(np.sqrt((late**2).sum() / (late > 0).sum()) - 0.02) < 0.001


def test_jitter_of_steps_is_none_of_computing(read) -> None:
    assert drawn(read({"kind": "jitter", "sigma": "20 ms", "of": "step"})) is None


def test_several_multiply(read) -> None:
    slow = {"kind": "slow", "workers": "h1", "slowdown": 3}
    assert drawn(read(slow, slow), 2).factor.tolist() == [[1, 1], [9, 9], [1, 1], [1, 1]]


def test_a_trace_says_who_and_when(read, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("worker,iteration,slowdown\nh1,0,2.5\nh2,3,4\nh2,99,4\n")
    factor = drawn(read({"kind": "trace", "file": "t.csv"}), 4, folder=tmp_path).factor
    assert np.argwhere(factor > 1).tolist() == [[1, 0], [2, 3]]
    assert (factor[1, 0], factor[2, 3]) == (2.5, 4)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "its columns are none"),
        ("a,b\n1,2\n", "its columns are a, b"),
        ("worker,iteration,slowdown\nh9,0,2\n", "line 2: star(hosts=4) has no node 'h9'"),
        ("worker,iteration,slowdown\ns0,0,2\n", "line 2: s0 has no worker"),
        ("worker,iteration,slowdown\nh0,x,2\n", "line 2: iteration 'x'"),
        ("worker,iteration,slowdown\nh0,-1,2\n", "line 2: iteration '-1'"),
        ("worker,iteration,slowdown\nh0,0,2\nh0,1,nan\n", "line 3: slowdown 'nan'"),
        ("worker,iteration,slowdown\nh0,0,0.5\n", "line 2: slowdown '0.5'"),
        ("worker,iteration,slowdown\nh0\n", "line 2: iteration None"),
    ],
)
def test_a_trace_that_makes_no_sense_names_its_line(read, tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(SpecError) as caught:
        drawn(read({"kind": "trace", "file": "t.csv"}), folder=tmp_path)
    assert problem in caught.value.problem
    assert caught.value.fix


def test_a_trace_must_be_a_file(read, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="is no file"):
        drawn(read({"kind": "trace", "file": "/dev/zero"}), folder=tmp_path)


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
