"""The cut covers the gradient once, whatever the sizes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.base.errors import SchemeError, SpecError
from testbed.workloads.sync.chunks import cut
from testbed.workloads.sync.forest import Forest


def forest_of(share: list[int], aligned: bool = False) -> Forest:
    trees = np.full((len(share), 1), -1, np.int32)
    return Forest("made", ("h0",), (0,), np.array(share, np.int64), trees, trees, aligned)


@st.composite
def spans(draw: st.DrawFn, total: int) -> list[tuple[int, int]]:
    inner = draw(st.sets(st.integers(1, total - 1), max_size=5)) if total > 1 else set()
    edges = [0, *sorted(inner), total]
    return draw(st.permutations(list(itertools.pairwise(edges))))


@given(st.data())
def test_chunks_cover_the_gradient_once(data: st.DataObject) -> None:
    share = data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=12).filter(any))
    total = data.draw(st.integers(len(share), 2000))
    buckets = data.draw(spans(total))
    chunk_bytes = data.draw(st.integers(4, 999))
    table = cut(forest_of(share), total, buckets, chunk_bytes)
    covered = np.zeros(total, int)
    for start, stop, bucket in zip(table.start, table.stop, table.bucket, strict=True):
        assert 0 < stop - start <= chunk_bytes // 4
        assert buckets[bucket][0] <= start < stop <= buckets[bucket][1]
        covered[start:stop] += 1
    assert (covered == 1).all()
    assert (np.diff(table.bucket) >= 0).all()


@given(st.lists(st.integers(1, 300), min_size=1, max_size=9), st.data())
def test_aligned_classes_are_runs_of_the_gradient(share: list[int], data: st.DataObject) -> None:
    total = sum(share)
    table = cut(forest_of(share, aligned=True), total, data.draw(spans(total)), data.draw(st.integers(4, 400)))
    owner = np.repeat(np.arange(len(share)), share)
    for start, stop, klass in zip(table.start, table.stop, table.klass, strict=True):
        assert (owner[start:stop] == klass).all()
    assert (table.stop - table.start).sum() == total


def test_shares_are_kept_to_a_float() -> None:
    table = cut(forest_of([1, 2, 1]), 4000, [(0, 4000)], 4 * 100)
    floats = np.bincount(table.klass, weights=table.stop - table.start)
    assert floats.tolist() == [1000, 2000, 1000]
    assert len(table) == 40


def test_classes_advance_together() -> None:
    table = cut(forest_of([1, 1]), 12, [(0, 12)], 8)
    assert table.klass.tolist() == [0, 1, 0, 1, 0, 1]
    assert table.start.tolist() == [0, 6, 2, 8, 4, 10]


def test_texts() -> None:
    with pytest.raises(SchemeError) as caught:
        cut(forest_of([1] * 18), 17, [(0, 17)], 64)
    assert str(caught.value) == (
        "scheme made has 18 chunk classes, more than the 17 floats to send\n"
        "  fix: take a larger model, a smaller scale, fewer workers, or fewer classes"
    )
    with pytest.raises(SchemeError, match="scheme made places 7 floats, the gradient has 8"):
        cut(forest_of([3, 4], aligned=True), 8, [(0, 8)], 64)
    with pytest.raises(SpecError, match="a chunk of 3 bytes holds no float"):
        cut(forest_of([1]), 8, [(0, 8)], 3)
    with pytest.raises(SpecError, match="begin where the one before ends, at 4"):
        cut(forest_of([1]), 8, [(5, 8), (0, 4)], 64)
    with pytest.raises(SpecError, match="the buckets end at float 7, the gradient has 8"):
        cut(forest_of([1]), 8, [(0, 7)], 64)


def test_more_chunks_than_headers_can_number_are_refused() -> None:
    with pytest.raises(SpecError) as caught:
        cut(forest_of([1, 1]), 1 << 29, [(0, 1 << 29)], 4)
    assert caught.value.problem == "there are 536,870,912 chunks of 4 bytes; at most 268,435,454 can be numbered"


def test_shares_that_would_overflow_are_refused() -> None:
    with pytest.raises(SchemeError, match="scheme made has shares of 4,000,000,000,000,000,000 together"):
        cut(forest_of([2 * 10**18, 2 * 10**18]), 100, [(0, 100)], 64)
