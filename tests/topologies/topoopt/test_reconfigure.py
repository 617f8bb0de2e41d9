"""Algorithm 5: circuits by utility, with discounts for parallel ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from testbed.topologies.topoopt.reconfigure import DISCOUNTS, Discount, circuits, reconfigured
from tests.topologies.topoopt.cases import matrices, matrix

WORKED = matrix(4, {"01": 10, "02": 6, "12": 4, "23": 3, "03": 2, "13": 1})


@pytest.mark.parametrize(
    ("discount", "order"),
    [("half", "01 02 23 13"), ("one", "01 01 23 23"), ("linear", "01 02 23 13")],
)
def test_a_worked_example(discount: Discount, order: str) -> None:
    assert " ".join(f"{i}{j}" for i, j, _ in circuits(WORKED, 2, discount)) == order


def test_the_pair_12_is_skipped_for_no_panel_has_both_ports() -> None:
    assert circuits(WORKED, 2) == [(0, 1, 0), (0, 2, 1), (2, 3, 0), (1, 3, 1)]
    assert reconfigured(WORKED, 2) == (((0, 1), (2, 3)), ((0, 2), (1, 3)))


def test_linear_discounts_less_than_half_where_there_are_many_interfaces() -> None:
    demand = matrix(3, {"01": 10, "02": 6})
    assert [pair[:2] for pair in circuits(demand, 4, "half")] == [(0, 1), (0, 2), (0, 1), (0, 2)]
    assert [pair[:2] for pair in circuits(demand, 4, "linear")] == [(0, 1), (0, 1), (0, 2), (0, 1)]
    assert [pair[:2] for pair in circuits(demand, 4, "one")] == [(0, 1)] * 4


def test_both_directions_count_and_nothing_unsent_needs_no_circuit() -> None:
    assert reconfigured(matrix(3, {"01": 3, "02": 2, "20": 2}), 1) == (((0, 2),),)
    assert reconfigured(matrix(3, {}), 2) == ((), ())


@given(matrices(7), st.integers(1, 4), st.sampled_from(DISCOUNTS))
def test_panels_are_matchings_and_no_pair_with_demand_could_still_be_joined(
    demand: NDArray[np.int64], degree: int, discount: Discount
) -> None:
    panels = reconfigured(demand, degree, discount)
    assert len(panels) == degree
    taken = [[server for pair in panel for server in pair] for panel in panels]
    assert all(len(set(ends)) == len(ends) for ends in taken)
    for i, j in np.argwhere(demand):
        assert all(i in ends or j in ends for ends in taken)
