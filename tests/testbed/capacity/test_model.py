"""What follows from a ladder: prices, the limit, and whether a load is carried."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.capacity.model import NothingCarriedError, Step, certified, fitted, need, units

from .made_up import LIMIT, load, steps


def test_the_limit_is_found_again() -> None:
    assert fitted(steps()).limit == pytest.approx(LIMIT, rel=0.1)  # a step of the ladder


@pytest.mark.parametrize("seed", range(5))
def test_loads_on_both_sides_are_told_apart_though_networks_stray(seed: int) -> None:
    """Networks that no ladder climbs: more hosts, more links on the way, smaller chunks."""
    found = fitted(steps(noise=0.15, seed=seed))
    for processes, hops, chunk_kib in ((2, 2, 128), (16, 2, 32), (8, 4, 32), (25, 2, 8), (12, 6, 256)):
        each_gbps = np.geomspace(0.1, 1000, 2000).tolist()
        edge_gbps = next(gbps for gbps in each_gbps if need(load(gbps, processes, hops, chunk_kib)) > LIMIT)
        assert found.room(load(0.65 * edge_gbps, processes, hops, chunk_kib)) > 1
        assert found.room(load(1.5 * edge_gbps, processes, hops, chunk_kib)) < 1


def test_room_is_by_what_rates_may_grow() -> None:
    found = fitted(steps())
    one = load(5.0, 12, 3, 32)
    larger = load(5.0 * found.room(one), 12, 3, 32)
    assert need(larger) == pytest.approx(found.limit)
    assert found.room(larger) == pytest.approx(1)


def test_what_each_load_is_paid_for() -> None:
    """A Gbit/s sent, twice as many large packets on links as there are chunks of 64 KiB, nine processes."""
    chunks = 1e9 / 8 / 65536 / 1000
    assert units(load(1.0)) == pytest.approx([1.0, 2 * chunks, chunks, 9.0])
    assert need(load(2.0)) > need(load(1.0)) > need(load(1.0, processes=8)) > 0
    assert need(load(1.0, hops=6)) > need(load(1.0))
    assert need(load(1.0, chunk_kib=8)) > need(load(1.0))


def test_of_too_many_processes_none_is_carried_at_any_rate() -> None:
    assert fitted(steps()).room(load(0.001, processes=1000)) == 0


def test_a_slip_between_steps_that_were_certified_is_none() -> None:
    """A network that was lost at a rate below one that was certified: somebody else was busy."""
    climbed = steps()
    slip = Step(climbed[0].network, load(0.4), certified=False, ratio=1.4, idle=0.0)
    assert fitted([slip, *climbed]).limit == fitted(climbed).limit


def test_a_network_that_was_never_lost_ends_at_its_last_step() -> None:
    held = [step for step in steps() if step.certified and step.network == "BML"]
    assert fitted(held).limit == pytest.approx(need(held[-1].load))


def test_a_network_that_was_never_certified_says_nothing() -> None:
    lost = [Step("another", load(gbps), certified=False, ratio=1.5, idle=0.5) for gbps in (1.0, 0.5)]
    assert fitted([*steps(), *lost]).limit == fitted(steps()).limit
    with pytest.raises(NothingCarriedError, match="nothing that could be certified"):
        fitted(lost)


def test_the_record_says_itself_what_is_certified() -> None:
    numbers = {"gst": {"certified": True}, "jct": {"certified": False}}
    assert certified({"fidelity": {"numbers": numbers}})
