"""Who holds what, what that sends, and what fits: worked examples, and properties of all strategies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.base.errors import SpecError
from testbed.topologies.topoopt import demand as transfers
from testbed.topologies.topoopt.demand import Demand
from testbed.workloads.parallel.models import operators_of
from testbed.workloads.parallel.operators import Model
from testbed.workloads.parallel.search import choices
from testbed.workloads.parallel.strategy import (
    Strategy,
    check_fits,
    data_parallel,
    demand_of,
    fitting,
    gradients,
    held_bytes,
    holder_of,
    is_silent,
    mp_bytes,
    read,
    text,
)
from tests.workloads.parallel.small import CHAIN, MB, TABLES

MIB = 2**20
OF_2_2: dict[str, object] = {"e0": [0], "e1": [3], "e2": [8], "e3": [13], "rest": "all"}


@st.composite
def strategies(draw: st.DrawFn, model: Model = TABLES) -> Strategy:
    servers = draw(st.sampled_from([2, 4, 6, 12]))
    one = st.sampled_from(choices(servers)) | st.sets(st.integers(0, servers - 1), min_size=1).map(
        lambda found: tuple(sorted(found))
    )
    return Strategy(servers, tuple(draw(one) for _ in model.operators))


def test_mp_transfers_of_section_2_2() -> None:
    model = operators_of("dlrm")
    found = mp_bytes(model, read(model, 16, OF_2_2))
    assert Counter(found[found > 0].tolist()) == {32 * MIB: 96, 64 * MIB: 12}


@pytest.mark.parametrize(
    ("name", "given", "by_hand"),
    [
        ("dlrm", OF_2_2, transfers.dlrm),
        ("candle", {"drug": [0, 1, 2, 3], "cell": [12, 13, 14, 15], "dense": "all"}, transfers.candle),
    ],
)
def test_operators_send_what_the_finders_examples_send(
    name: str, given: object, by_hand: Callable[[int], Demand]
) -> None:
    model = operators_of(name)
    found, wanted = demand_of(model, read(model, 16, given)), by_hand(16)
    assert np.array_equal(found.mp_bytes, wanted.mp_bytes)
    sent = [{group.members: group.transfer_bytes for group in job.groups} for job in (found, wanted)]
    assert sent[0].keys() == sent[1].keys()
    for members, size in sent[0].items():
        assert abs(size - sent[1][members]) <= 8  # a gradient is whole floats


def test_samples_go_to_holders_in_turn() -> None:
    assert holder_of(4, (1, 3)) == (1, 1, 3, 3)
    assert holder_of(5, (0, 2, 4)) == (0, 0, 2, 2, 4)
    assert holder_of(3, (0, 1, 2)) == (0, 1, 2)


def test_a_small_example_by_hand() -> None:
    """a on server 0, b on 0 and 1, c on all of 4: the outputs of a go to 0 and 1, those of b to all."""
    strategy = read(CHAIN, 4, {"a": [0], "b": [0, 1], "c": "all"})
    of_a, of_b = 256 * 3000 * 4, 256 * 1000 * 4
    wanted = np.zeros((4, 4), dtype=np.int64)
    wanted[0, 1] = wanted[1, 0] = 2 * of_a + of_b
    wanted[1, 2] = wanted[2, 1] = wanted[1, 3] = wanted[3, 1] = of_b
    assert np.array_equal(mp_bytes(CHAIN, strategy), wanted)
    assert gradients(CHAIN, strategy) == {(0, 1): 4 * MB, (0, 1, 2, 3): 8 * MB}
    outputs = 4 * 256 * np.array([4 * 3000 + 2 * 1000 + 10, 2 * 1000 + 10, 10, 10])
    assert held_bytes(CHAIN, strategy) == (np.array([52 * MB, 12 * MB, 8 * MB, 8 * MB]) + outputs).tolist()


@given(strategies())
@settings(max_examples=30)
def test_every_strategy(strategy: Strategy) -> None:
    sent = mp_bytes(TABLES, strategy)
    assert np.array_equal(sent, sent.T)
    assert not sent.diagonal().any()
    assert sum(holders > 0 for holders in held_bytes(TABLES, strategy)) == len({s for h in strategy.holders for s in h})
    for holders in strategy.holders:
        served = holder_of(strategy.servers, holders)
        assert set(served) == set(holders)
        assert list(served) == sorted(served)
    written = text(TABLES, strategy)
    assert read(TABLES, strategy.servers, "data" if written == "data" else yaml.safe_load(written)) == strategy
    assert is_silent(TABLES, strategy) == (not sent.any() and all(len(one) == 1 for one in strategy.holders))


def test_data_parallelism_sends_gradients_alone() -> None:
    strategy = data_parallel(CHAIN, 4)
    assert not mp_bytes(CHAIN, strategy).any()
    assert gradients(CHAIN, strategy) == {(0, 1, 2, 3): 52 * MB}
    assert text(CHAIN, strategy) == "data"


def test_what_does_not_fit_goes_to_single_servers_the_largest_first() -> None:
    found = fitting(TABLES, 4, 60 * MB)
    assert text(TABLES, found) == "{e1: [2], e2: [1], e3: [0], rest: all}"
    assert max(held_bytes(TABLES, found)) <= 60 * MB < max(held_bytes(TABLES, found.moved(1, (0, 1, 2, 3))))
    assert fitting(TABLES, 4, 200 * MB) == data_parallel(TABLES, 4)
    placed = fitting(TABLES, 4, 200 * MB, place_tables=True)
    assert placed == read(TABLES, 4, {"e0": [3], "e1": [2], "e2": [1], "e3": [0], "dense": "all"})
    with pytest.raises(SpecError, match=r"server 0 would hold 0.0405 GB, and has 0.03 GB"):
        fitting(TABLES, 4, 30 * MB)


def test_a_strategy_that_does_not_fit_is_refused() -> None:
    model = operators_of("dlrm")
    check_fits(model, read(model, 16, OF_2_2), 40e9)
    with pytest.raises(SpecError, match=r"dlrm: server 0 would hold 84.3 GB, and has 40 GB"):
        check_fits(model, data_parallel(model, 16), 40e9)


def test_a_strategy_that_sends_nothing_has_no_network() -> None:
    with pytest.raises(SpecError, match=r"chain: under strategy {rest: \[2\]} servers send each other nothing"):
        demand_of(CHAIN, read(CHAIN, 4, {"rest": [2]}))
