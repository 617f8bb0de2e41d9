"""Where weights lie, and whole weights put together from what servers saved."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from testbed.workloads.kinds.hybrid.program.layout import collected, floats, layout, saved
from testbed.workloads.parallel.operators import FLOAT_BYTES, Model, Operator, model
from testbed.workloads.parallel.strategy import Strategy, gradients, read
from tests.workloads.kinds.hybrid.program.in_process import cuts
from tests.workloads.parallel.small import TABLES

SMALL = model(
    Model(
        "small",
        (Operator("a", (), (8, 4), 1, 1), Operator("b", ("a",), (), 1, 1), Operator("c", ("b",), (20,), 1, 1)),
        1,
    )
)


@settings(max_examples=25)
@given(cuts(TABLES))
def test_operators_lie_side_by_side_and_each_group_has_one_span(strategy: Strategy) -> None:
    found = layout(TABLES, strategy)
    assert [stop - start for start, stop in found.operators] == floats(TABLES)
    ends = sorted(found.operators)
    assert [start for start, _ in ends] == [0, *(stop for _, stop in ends[:-1])]
    assert found.floats == sum(floats(TABLES))
    sizes = {members: (stop - start) * FLOAT_BYTES for members, (start, stop) in found.groups.items()}
    assert sizes == gradients(TABLES, strategy)
    for (start, stop), holders in zip(found.operators, strategy.holders, strict=True):
        if holders in found.groups:
            first, last = found.groups[holders]
            assert first <= start <= stop <= last


@settings(max_examples=25)
@given(cuts(SMALL))
def test_what_is_saved_is_put_together_in_gradient_order(strategy: Strategy) -> None:
    whole = layout(SMALL, strategy)
    weights = np.zeros(whole.floats, np.float32)
    for value, (start, stop) in enumerate(whole.operators):
        weights[start:stop] = value + np.arange(stop - start) / 100
    files = [saved(strategy, server, whole, weights) for server in range(strategy.servers)]
    found = collected(SMALL, strategy, files)
    assert found.weights.tolist() == pytest.approx([2.0, 2.01, 2.02, 2.03, 2.04, 0.0, 0.01, 0.02])
    assert not found.differing


def test_replicas_that_differ_in_one_bit_are_told() -> None:
    strategy = read(SMALL, 3, {"a": [0, 2], "b": [1], "c": "all"})
    files = [np.zeros(size, np.float32) for size in (8, 5, 8)]
    assert collected(SMALL, strategy, files).differing == ()
    files[2][0] = -0.0
    files[1][4] = np.nan
    assert collected(SMALL, strategy, files).differing == (("c", 0, 1), ("a", 0, 2))


def test_a_server_that_saved_too_little_is_told() -> None:
    strategy = read(SMALL, 2, {"rest": "all"})
    with pytest.raises(ValueError, match="server 1 saved 7 weights, and holds 8"):
        collected(SMALL, strategy, [np.zeros(8, np.float32), np.zeros(7, np.float32)])
