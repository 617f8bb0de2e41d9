"""A profile played back: exact sums that cannot be right by chance, and buckets at their moments."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads import replay as replay_module
from workloads.job import Compute, Replay
from workloads.replay import FORWARD, PERIOD, Checked, Player, Values


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.integers(1, 3000), st.integers(0, 200), st.integers(0, 99))
def test_sums_in_any_order_are_right(world: int, floats: int, iteration: int, seed: int) -> None:
    ranks = [Values(floats, seed, rank, world) for rank in range(world)]
    for rank in ranks:
        rank.fill(iteration)
    order = np.random.default_rng(seed).permutation(world)
    total = np.sum([ranks[rank].gradient for rank in order], axis=0, dtype=np.float32)
    for rank in ranks:
        rank.gradient[:] = total
        assert rank.wrong(iteration) == 0


@pytest.mark.parametrize("mistake", ["missing", "twice", "an iteration before", "shifted", "quantised"])
def test_what_is_not_the_sum_is_counted(mistake: str) -> None:
    world, floats = 3, 10_000
    ranks = [Values(floats, 1, rank, world) for rank in range(world)]
    for i, rank in enumerate(ranks):
        rank.fill(4 if mistake == "an iteration before" and i == 1 else 5)
    parts = [rank.gradient.copy() for rank in ranks]
    total = np.sum(parts, axis=0)
    wrong = {
        "missing": total - parts[1],
        "twice": total + parts[1],
        "an iteration before": total,
        "shifted": np.roll(total, 1),
        "quantised": total + np.float32(1e-6),
    }[mistake]
    ranks[0].gradient[:] = wrong
    assert ranks[0].wrong(5) > 0.8 * floats


def test_one_wrong_element_is_counted() -> None:
    (one,) = [Values(100, 1, 0, 1)]
    one.fill(7)
    assert one.wrong(7) == 0
    one.gradient[42] += 1
    assert one.wrong(7) == 1


def test_gradients_differ_between_ranks_and_iterations() -> None:
    seen = set()
    for rank in range(3):
        values = Values(500, 9, rank, 3)
        for iteration in range(PERIOD):
            values.fill(iteration)
            seen.add(values.gradient.tobytes())
    assert len(seen) == 3 * PERIOD


def test_buckets_are_released_when_they_are_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock of our own, so to the microsecond."""
    now_s = [1000.0]
    monkeypatch.setattr(replay_module, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    released: list[tuple[int, float]] = []
    replay = Replay(iterations=2, seed=1, shares=(0.25, 0.5, 0.25))
    values = Values(30, 1, 0, 1)
    sums = Checked()

    def wait(seconds: float) -> None:
        now_s[0] += seconds

    player = Player(
        replay, Compute("paced", 0.3), values, lambda bucket: released.append((bucket, now_s[0] - start_s)), sums
    )
    start_s = player.start_s()
    computed = player.run(0, start_s, wait)
    assert [bucket for bucket, _ in released] == [0, 1, 2]
    due_s = [0.3 * (FORWARD + (1 - FORWARD) * done) for done in (0.25, 0.75, 1.0)]
    assert [at_s for _, at_s in released] == pytest.approx(due_s, abs=1e-6)
    assert computed.loss is None
    assert computed.overrun_s == 0
    player.check(0)
    assert sums == Checked(1)
