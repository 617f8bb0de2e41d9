"""How far the weights of servers and replica are apart, against the paper's figures and against eq. 2 itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workloads.kinds.fabric.scheduling.leads import Vector, bound, changes, exact

GAMMA = 0.9
H, U1, U2 = np.array([1.0, 0, 0]), np.array([0, 2.0, 0]), np.array([3.0, 0, 0])


def test_the_servers_lead_by_two() -> None:
    """Eq. 7: (.9 + .81) 1 + 1.9 x 2 + 3."""
    assert bound(1, [2, 3], GAMMA) == pytest.approx(8.51, abs=1e-12)


def test_the_replica_has_the_first_of_two() -> None:
    """Eq. 8: .81 x 1 + .9 x 2 + 3."""
    assert bound(1, [2, 3], GAMMA, replicated=1) == pytest.approx(5.61, abs=1e-12)


def test_a_replica_that_has_all_is_the_same() -> None:
    assert bound(1, [2, 3], GAMMA, replicated=2) == 0


def test_the_bound_is_reached_where_all_point_one_way() -> None:
    one = np.array([1.0])
    assert exact(one, [2 * one, 3 * one], [], GAMMA) == pytest.approx(8.51, abs=1e-12)
    assert exact(one, [2 * one, 3 * one], [2 * one], GAMMA) == pytest.approx(5.61, abs=1e-12)


def test_updates_in_another_order_are_apart_by_gamma_times_their_difference() -> None:
    """Eq. 6."""
    assert exact(H, [U1, U2], [U2, U1], GAMMA) == pytest.approx(GAMMA * np.linalg.norm(U1 - U2), abs=1e-12)


def test_without_momentum_norms_add_up() -> None:
    assert bound(7, [1, 2, 4], 0) == 7
    assert changes(7, [1, 2, 4], 0) == [1, 2, 4]


vectors = st.lists(st.lists(st.floats(-9, 9), min_size=3, max_size=3).map(np.array), max_size=8)


@given(vectors, st.lists(st.floats(-9, 9), min_size=3, max_size=3).map(np.array), st.floats(0, 0.999), st.data())
def test_no_weights_are_farther_apart_than_the_bound(
    updates: list[Vector], history: Vector, momentum: float, data: st.DataObject
) -> None:
    replicated = data.draw(st.integers(0, len(updates)))
    norms = [float(np.linalg.norm(update)) for update in updates]
    most = bound(float(np.linalg.norm(history)), norms, momentum, replicated)
    assert exact(history, updates, updates[:replicated], momentum) <= most * (1 + 1e-9) + 1e-9


@given(st.lists(st.floats(0, 9), min_size=1, max_size=8), st.floats(0, 9), st.floats(0, 0.999))
def test_the_bound_is_that_of_the_issue_for_any_lead(norms: list[float], history: float, momentum: float) -> None:
    """(gamma + .. + gamma^n) ||h0|| + sum c_(n-i) ||u_i||."""
    n = len(norms)
    weights = [sum(momentum**j for j in range(n - i)) for i in range(n)]  # c_(n-i), i from 1
    told = history * sum(momentum**j for j in range(1, n + 1)) + float(np.dot(weights, norms))
    assert bound(history, norms, momentum) == pytest.approx(told, rel=1e-9, abs=1e-9)


@given(st.lists(st.floats(0, 9), max_size=8), st.floats(0, 9), st.floats(0, 0.999), st.data())
def test_the_bound_goes_on_from_what_is_replicated(
    norms: list[float], history: float, momentum: float, data: st.DataObject
) -> None:
    """The next batch begins from the last change that the replica made."""
    cut = data.draw(st.integers(0, len(norms)))
    later = ([history, *changes(history, norms[:cut], momentum)])[-1]
    assert bound(later, norms[cut:], momentum) == pytest.approx(bound(history, norms, momentum, cut), rel=1e-9)
