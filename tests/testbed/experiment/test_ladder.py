"""The ladder: where it climbs, what its trials are, and one step of it for real."""

from __future__ import annotations

import pytest

from testbed.capacity.model import Step, load_of
from testbed.experiment import ladder
from testbed.experiment.ladder import GST_S, RUNGS, STEP, Rung, frontier_bps, trial_of


@pytest.mark.parametrize("frontier", [3.3e8, 2e9, 6e9, 7.1e9, 4.4e10])
def test_the_ladder_ends_with_a_rate_that_held_just_below_one_that_did_not(frontier: float) -> None:
    asked: list[float] = []

    def held(bps: float) -> bool:
        asked.append(bps)
        return bps <= frontier

    found = frontier_bps(held, 6e9)
    assert found <= frontier < found * STEP
    assert any(bps == pytest.approx(found * STEP) for bps in asked)
    assert found in asked
    assert len(asked) == len(set(asked)) <= 12


def test_it_ends_where_nothing_holds_and_where_everything_does() -> None:
    assert frontier_bps(lambda _: False, 6e9) == 0
    assert frontier_bps(lambda _: True, 6e9) > 1e11


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.scheme + rung.topology)
@pytest.mark.parametrize("in_all_bps", [1e9, 1e10])
def test_a_step_asks_for_what_it_is_to_ask_for(rung: Rung, in_all_bps: float) -> None:
    trial = trial_of(rung, in_all_bps)
    load = load_of(trial)
    assert load is not None
    assert load.in_all_bps == pytest.approx(in_all_bps, rel=1e-3)
    assert trial.job.gst_theory_s == pytest.approx(
        GST_S, rel=0.1
    )  # the scale changes the share of a bucket and a large packet


def test_a_step_is_a_real_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """One, at a hundredth of what any machine carries."""
    monkeypatch.setattr(ladder, "frontier_bps", lambda held, _: float(held(1e8)))
    told: list[Step] = []
    steps = ladder.climb(told.append, (Rung("star(hosts=2)", "ring", "64 KiB"),))
    assert steps == told
    assert {step.network for step in steps} == {"ring on star(hosts=2), chunks of 64 KiB"}
    assert all(step.ratio > 0.9 and 0 <= step.idle <= 1 for step in steps)
