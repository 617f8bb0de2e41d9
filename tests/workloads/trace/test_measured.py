"""Traces of iterations that were measured."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.workloads.play.steps import BACKWARD, FORWARD, Steps
from testbed.workloads.trace.graph import Kind, Node, Trace, check
from testbed.workloads.trace.measured import Bucket, Iteration, collectives, passes

from .test_simulated import play


def _int32(*numbers: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
    return np.array(numbers, np.int32)


def test_an_iteration_is_what_was_computed_a_sum_and_a_step() -> None:
    moments = [Iteration(10.0, 10.3, 11.3, 11.35), Iteration(11.35, 11.75, 12.75, 12.75)]
    nodes = collectives(moments, [Bucket(4096)])
    assert [node.duration_us for node in nodes] == [300_000, 0, 50_000, 400_000, 0, 0]
    assert [node.bytes for node in nodes] == [0, 4096, 0, 0, 4096, 0]
    assert [node.after for node in nodes] == [(), (0,), (1,), (2,), (3,), (4,)]


def test_with_overlap_each_bucket_is_summed_when_it_is_complete() -> None:
    nodes = collectives([Iteration(0.0, 0.3, 1.0, 1.1)] * 2, [Bucket(4096, 2 / 3), Bucket(64, 1.0)])
    assert [node.duration_us for node in nodes[:5]] == [200_000, 0, 100_000, 0, 100_000]
    assert [node.bytes for node in nodes[:5]] == [0, 4096, 0, 64, 0]
    assert [node.after for node in nodes[:6]] == [(), (0,), (0,), (2,), (1, 3), (4,)]


TABLE = Steps(
    # rank 0 has a table: forward, backward; rank 1 a layer that takes it; rank 2 nothing
    rank=_int32(0, 0, 1, 1),
    phase=_int32(FORWARD, BACKWARD, FORWARD, BACKWARD),
    share=np.array([0.1, 0.2, 0.3, 0.6]),
    then=_int32(-1, -1, 3, -1),
    giver=_int32(0, 3),
    taker=_int32(2, 1),
    message_bytes=np.array([40_000.0, 80_000.0]),
)


def _passes() -> dict[int, list[Node]]:
    """Rank 0 computes 30 ms and waits 1 s; rank 1 computes 90 ms and waits 0.5 s."""
    moments = {0: Iteration(0.0, 1.03, 2.0, 2.0, 1.0), 1: Iteration(0.0, 0.59, 2.0, 2.0, 0.5)}
    return {rank: passes(rank, [moments.get(rank, Iteration(0, 0, 0, 0))] * 2, TABLE, {}) for rank in range(3)}


def test_boundary_tensors_are_messages_between_passes() -> None:
    ranks = _passes()
    assert [(node.kind.name, node.duration_us, node.bytes, node.after) for node in ranks[1][:5]] == [
        ("COMM_RECV", 0, 40_000, ()),
        ("COMP", 30_000, 0, (0,)),
        ("COMP", 60_000, 0, (1,)),
        ("COMM_SEND", 0, 80_000, (2,)),
        ("COMP", 0, 0, (1, 2)),
    ]
    assert [(node.kind, node.after) for node in ranks[2]] == [(Kind.COMP, ()), (Kind.COMP, (0,))]
    check(ranks, {})


def test_passes_take_as_long_as_they_and_their_messages() -> None:
    played = play(Trace(check(_passes(), {}), {}), "star(hosts=3)")
    once_s = 0.12 + 8 * 120_000 / 8e6
    assert played.iterations_s[0] == [pytest.approx(2 * once_s, rel=0.02)]


def test_each_group_sums_when_all_passes_are_done() -> None:
    nodes = passes(1, [Iteration(0.0, 0.09, 2.0, 2.1)], TABLE, {"0": 400, "3": 800})
    assert [(node.group, node.bytes, node.after) for node in nodes if node.kind == Kind.COMM_COLL] == [
        ("0", 400, (1, 2)),
        ("3", 800, (1, 2)),
    ]
    assert (nodes[-1].duration_us, nodes[-1].after) == (100_000, (4, 5))
