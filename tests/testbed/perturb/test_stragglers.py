"""Slowdowns of workers: how many, how much, whose, and always the same ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from testbed.base.errors import SpecError
from testbed.perturb.stragglers import draw
from testbed.topologies.build import build

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
