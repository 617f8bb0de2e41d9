"""A profile played back: exact sums that cannot be right by chance, and buckets at their moments."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.workloads.job import Compute, Replay
from testbed.workloads.learning import replay as replay_module
from testbed.workloads.learning.replay import FORWARD, PERIOD, Checked, Player, Values, norms


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


@settings(max_examples=30, deadline=None)
@given(world=st.integers(1, 4), floats=st.integers(1, 300), iteration=st.integers(0, 200), seed=st.integers(0, 9))
def test_a_norm_is_known_without_the_gradient(world: int, floats: int, iteration: int, seed: int) -> None:
    norm = norms(floats, seed, world)
    for rank in range(world):
        values = Values(floats, seed, rank, world)
        values.fill(iteration)
        assert norm(rank, iteration) == pytest.approx(float(np.linalg.norm(values.gradient)))


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


BEGIN_S = 1000.0


class LateEngine:
    """On a clock of its own, sums that are complete at given moments, and waits that end ``late_s`` late."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, complete_s: Sequence[float], late_s: float) -> None:
        self.now_s, self.complete_s, self.late_s = BEGIN_S, complete_s, late_s
        self.released_s: list[float] = []
        monkeypatch.setattr(replay_module, "time", SimpleNamespace(monotonic=lambda: self.now_s))

    def start(self, bucket: int) -> None:
        assert bucket == len(self.released_s)
        self.released_s.append(self.now_s)

    def wait_bucket(self, bucket: int, timeout_s: float) -> float:
        assert timeout_s == 5
        if self.now_s < self.complete_s[bucket]:
            self.poll(self.complete_s[bucket] - self.now_s)
        return self.complete_s[bucket]

    def poll(self, timeout_s: float) -> None:
        assert timeout_s > 0
        self.now_s += timeout_s + self.late_s

    def player(self, shares: Sequence[float], compute: Compute) -> Player:
        """One that has played the forward pass of iteration 1."""
        replay = Replay(iterations=3, seed=1, shares=tuple(shares))
        player = Player(replay, compute, Values(30, 1, 0, 1), self.start, Checked())
        player.forward(1, self, 5)  # type: ignore[arg-type]
        return player


def test_values_are_made_when_the_forward_pass_is_about_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others may still synchronise when it begins. But values that take long are made at once."""
    engine = LateEngine(monkeypatch, [], late_s=0)
    begun_s: list[float] = []

    def fill(_iteration: int, takes_s: float) -> None:
        begun_s.append(engine.now_s)
        engine.now_s += takes_s

    values = Values(30, 1, 0, 1)
    values.took_s = 0.010
    player = Player(Replay(9, 1, (1.0,)), Compute("paced", 0.3), values, lambda _: None, Checked())
    for takes_s in (0.020, 0.060, 0.030):
        monkeypatch.setattr(values, "fill", partial(fill, takes_s=takes_s))
        start_s = engine.now_s
        player.run(len(begun_s), start_s, engine.poll)
        begun_s[-1] -= start_s
        assert engine.now_s - start_s == pytest.approx(0.3)
    assert begun_s == pytest.approx([0.1 - 3 * 0.010, 0.1 - 3 * 0.020, 0.0], abs=1e-9)


def test_waits_that_end_late_do_not_add_up_in_a_forward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 layers of 0.5 ms, and every wait ends 1 ms late."""
    engine = LateEngine(monkeypatch, [BEGIN_S] * 100, late_s=0.001)
    player = engine.player([0.01] * 100, Compute("paced", 0.05 / FORWARD))
    assert player.start_s() == BEGIN_S
    late_s = engine.now_s - (BEGIN_S + 0.05)
    assert 0 <= late_s < 0.002
    computed = player.run(1, player.start_s(), engine.poll)
    assert late_s <= computed.overrun_s < 0.002
    assert engine.released_s[-1] - BEGIN_S == pytest.approx(0.05 / FORWARD, abs=0.002)


def test_layers_begin_when_the_one_before_was_due_or_their_sum_was_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers of 25, 50 and 25 ms: one begins when its sum is complete, the next was ready before; all is seen late."""
    engine = LateEngine(monkeypatch, [BEGIN_S + 0.020, BEGIN_S + 0.100, BEGIN_S - 0.003], late_s=0.002)
    player = engine.player([0.25, 0.5, 0.25], Compute("paced", 0.1 / FORWARD))
    assert player.start_s() == BEGIN_S - 0.003
    assert engine.now_s == pytest.approx(BEGIN_S + 0.100 + 0.050 + 0.025 + 0.002, abs=1e-9)
    engine.late_s = 0
    computed = player.run(1, player.start_s(), engine.poll)
    due_s = [BEGIN_S + 0.175 + 0.2 * done for done in (0.25, 0.75, 1.0)]
    assert engine.released_s == pytest.approx(due_s, abs=1e-9)
    assert computed.overrun_s == pytest.approx(0.002, abs=1e-9)


@pytest.mark.parametrize(("mode", "overrun_s"), [("paced", 0.040), ("none", 0.0)])
def test_a_forward_pass_that_ends_late_is_an_overrun_of_its_iteration(
    monkeypatch: pytest.MonkeyPatch, mode: str, overrun_s: float
) -> None:
    """The backward pass has time enough to make up for it, and that of the next iteration has nothing to do with it."""
    engine = LateEngine(monkeypatch, [BEGIN_S], late_s=0.040)
    player = engine.player([1.0], Compute(mode, 0.3 if mode == "paced" else 0.0))  # type: ignore[arg-type]
    engine.late_s = 0
    assert player.run(1, player.start_s(), engine.poll).overrun_s == pytest.approx(overrun_s, abs=1e-9)
    engine.released_s.clear()
    assert player.run(2, player.start_s(), engine.poll).overrun_s == 0
