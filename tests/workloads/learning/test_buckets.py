"""Buckets: whole layers in backward order, whatever their sizes, the size asked for and the scale."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.workloads.learning.buckets import FIRST_BUCKET_BYTES, fuse, gradient, shares
from testbed.workloads.models import model

MIB = 2**20
LAYERS = st.lists(st.lists(st.integers(1, 10**6), min_size=1, max_size=3), min_size=1, max_size=30)


@given(LAYERS, st.floats(1, 1e5), st.booleans(), st.one_of(st.none(), st.integers(1, 8 * 10**6)))
def test_every_layer_is_in_one_bucket_and_every_float(
    layers: list[list[int]], scale: float, layered: bool, bucket_bytes: int | None
) -> None:
    total = sum(map(sum, layers))
    found = gradient(layers, scale, layered, bucket_bytes)
    assert list(itertools.chain(*found.layers)) == list(range(len(layers)))
    assert found.buckets[0][0] == 0
    assert found.buckets[-1][1] == found.floats == round(total / scale)
    for (_, stop), (start, _) in itertools.pairwise(found.buckets):
        assert start == stop
    assert all(floats > 0 for floats in found.tensors)
    if found.floats:
        assert all(start < stop for start, stop in found.buckets)
    if not layered:
        assert len(found.buckets) == 1


@given(LAYERS, st.integers(1, 8 * 10**6))
def test_a_bucket_is_closed_by_the_layer_that_fills_it(layers: list[list[int]], bucket_bytes: int) -> None:
    groups = gradient(layers, 1, True, bucket_bytes).layers
    for i, group in enumerate(groups):
        limit = min(FIRST_BUCKET_BYTES, bucket_bytes) if i == 0 else bucket_bytes
        sizes = [4 * sum(layers[layer]) for layer in group]
        assert sum(sizes[:-1]) < limit
        assert sum(sizes) >= limit or i == len(groups) - 1


def test_as_pytorch_fuses_lenet5() -> None:
    """fc2 alone is less than the first bucket's 1 MiB; with fc1 it is more; the convolutions are the rest."""
    layers = [[floats] for floats in (10_250, 3_212_288, 51_264, 832)]
    assert gradient(layers, 1, True, 25 * MIB).layers == (range(2), range(2, 4))
    assert gradient(layers, 1, True, None).buckets == tuple(model("lenet5").buckets())


def test_the_same_layers_are_fused_at_any_scale() -> None:
    layers = [[300_000], [200], [400_000, 64], [800_000]]
    assert {gradient(layers, scale, True, 2 * MIB).layers for scale in (1, 10, 1000)} == {(range(1), range(1, 4))}


def test_a_layer_that_scale_leaves_without_floats_waits_for_the_next() -> None:
    found = gradient([[64], [100_000], [64], [64]], 1000, True, None)
    assert found.layers == (range(4),)
    assert fuse([256, 4000, 256], [0, 0, 4, 5], None) == (range(2), range(2, 3))


def test_shares_are_those_of_the_multiply_adds() -> None:
    assert shares([1, 2, 5, 2], [range(1), range(1, 4)]) == pytest.approx((0.1, 0.9))
