"""Gloo's AllReduce in simulated time: its segments, and that each rank ends with all contributions."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from testbed.workloads.kinds.library.simulation import rounds


@pytest.mark.parametrize(("world", "floats"), [(2, 4), (3, 1000), (4, 10**6 + 3), (8, 10**7)])
def test_each_rank_ends_with_each_segment_of_all_others(world: int, floats: int) -> None:
    """Which ranks a segment has been through, turn after turn: it is added in the first loop and replaced in the
    second."""
    each = rounds(world, floats)
    per_rank = len(each) // world
    turns = (per_rank - 1) // 2
    count = world * (turns - 2) // (world - 1)
    has: dict[tuple[int, int], set[int]] = defaultdict(set)
    for rank in range(world):
        for segment in range(count):
            has[rank, segment] = {rank}
    given = dict(zip(each.giver.tolist(), each.taker.tolist(), strict=True))
    for turn in range(2 * turns):
        for rank in range(world):
            taker = given.get(rank * per_rank + 1 + turn)
            loop, at = divmod(turn, turns)
            segment = ((rank + 1 - loop) * (count // world) + at) % count
            if taker is not None:
                other = taker // per_rank
                assert taker % per_rank == 1 + turn + 2
                assert other == (rank - 1) % world
                has[other, segment] = has[rank, segment] | has[other, segment]
    sizes = [segment for segment in range(count) if segment * each.message_bytes.max() < 4 * floats]
    assert all(has[rank, segment] == set(range(world)) for rank in range(world) for segment in sizes)


@pytest.mark.parametrize(("world", "floats"), [(3, 3_276_800), (4, 3_276_800), (8, 2**25), (8, 10**7)])
def test_ranks_send_what_a_ring_does_in_equal_segments_of_a_mebibyte_at_most(world: int, floats: int) -> None:
    """Also where the number of mebibytes is no multiple of the number of ranks."""
    each = rounds(world, floats)
    sent = np.bincount(each.rank[each.giver], each.message_bytes)
    assert sent == pytest.approx(np.full(world, 2 * (world - 1) / world * 4 * floats), rel=1e-4)
    assert each.message_bytes.min() == pytest.approx(each.message_bytes.max(), rel=1e-3)
    assert each.message_bytes.max() <= 2**20
