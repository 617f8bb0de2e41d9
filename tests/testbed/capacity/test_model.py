"""What follows from a ladder: prices, the limit, and whether a load is carried."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.capacity.model import NothingCarriedError, Step, certified, fitted, least_squares, units

from .made_up import LIMIT, PRICES, load, steps


def test_prices_are_found_again() -> None:
    found = fitted(steps(), 2)
    assert found.prices == pytest.approx(PRICES, rel=1e-6)
    assert found.limit == pytest.approx(LIMIT, rel=0.2)  # a step of the ladder


@pytest.mark.parametrize("seed", range(5))
def test_loads_on_both_sides_are_told_apart_though_steps_are_noisy(seed: int) -> None:
    """Networks that no ladder climbs: more hosts, more links on the way, smaller chunks."""
    found = fitted(steps(noise=0.08, seed=seed), 2)
    for processes, hops, chunk_kib in ((2, 2, 128), (16, 2, 32), (8, 4, 32), (25, 2, 8), (12, 6, 256)):
        one = load(1.0, processes, hops, chunk_kib)
        fixed = PRICES[-1] * processes
        edge_gbps = (LIMIT - fixed) / (float(units(one) @ np.array(PRICES)) - fixed)
        assert found.room(load(0.65 * edge_gbps, processes, hops, chunk_kib)) > 1
        assert found.room(load(1.5 * edge_gbps, processes, hops, chunk_kib)) < 1


def test_room_is_by_what_rates_may_grow() -> None:
    found = fitted(steps(), 2)
    one = load(5.0, 12, 3, 32)
    larger = load(5.0 * found.room(one), 12, 3, 32)
    assert found.need(larger) == pytest.approx(found.limit)
    assert found.room(larger) == pytest.approx(1)


def test_of_too_many_processes_none_is_carried_at_any_rate() -> None:
    assert fitted(steps(), 2).room(load(0.001, processes=1000)) == 0


def test_no_price_is_below_zero() -> None:
    """Two columns that are nearly the same would else get a huge price and its negative."""
    first = np.linspace(1, 2, 20)
    rows = np.stack([first, first * 1.001 + 1e-4 * np.sin(np.arange(20))], axis=1)
    found = least_squares(rows / (0.5 * first)[:, None])
    assert (found >= 0).all()
    assert rows @ found == pytest.approx(0.5 * first, rel=0.01)


def test_a_slip_between_steps_that_were_certified_is_none() -> None:
    """A network that was lost at a rate below one that was certified: somebody else was busy."""
    climbed = steps()
    slip = Step(climbed[0].network, load(0.4), certified=False, ratio=1.4, idle=0.0)
    assert fitted([slip, *climbed], 2).limit == fitted(climbed, 2).limit


def test_a_machine_on_which_nothing_was_certified_carries_nothing() -> None:
    lost = [Step("ring", load(1.0), certified=False, ratio=1.5, idle=0.5)]
    with pytest.raises(NothingCarriedError, match="nothing that could be certified"):
        fitted(lost, 2)


@pytest.mark.parametrize(
    ("ratio", "failed", "expected"),
    [(1.01, "run queue", True), (1.031, None, False), (1.01, "lower bound", False), (1.01, "read back", False)],
)
def test_what_is_certified(ratio: float, failed: str | None, expected: bool) -> None:
    names = ("lower bound", "bytes on the wire", "read back", "run queue")
    checks = [{"name": name, "ok": name != failed} for name in names]
    assert certified({"metrics": {"gst_ratio": ratio}, "fidelity": {"checks": checks}}) is expected


def test_the_record_says_itself_what_is_certified() -> None:
    numbers = {"gst": {"certified": True}, "jct": {"certified": False}}
    assert certified({"metrics": {"gst_ratio": 2.0}, "fidelity": {"numbers": numbers, "checks": []}})
