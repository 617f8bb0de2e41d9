"""What is settled of a plan gets new times, and none of it is interrupted."""

from __future__ import annotations

from testbed.workloads.kinds.fabric.planning.settled import Settled, Unit
from testbed.workloads.kinds.fabric.scheduling.model import Transfer
from testbed.workloads.kinds.fabric.scheduling.network import Load
from tests.workloads.kinds.fabric.scheduling.networks import SIZE_BYTES, star


def nobody(_: Transfer) -> None:
    """No transfer is on its way."""


def test_who_would_be_interrupted_begins_later() -> None:
    """Node 0 sends from 1 s to 2 s. Node 1 could begin at 0.5 s, and would have to stop at 1 s."""
    network = star(3)
    other = network.reserve(Load(0, 2, SIZE_BYTES, 1.0, (7,)))
    late = network.reserve(Load(1, 2, SIZE_BYTES, 0.5, (8,)))
    assert late.resumed_s == 2.0
    settled = Settled()
    settled.add(Unit((8,), None, ((late,),)), -1)
    assert settled.is_interrupted
    again = star(3)
    again.take(other)
    settled.again(again, 0.5, nobody)
    assert not settled.is_interrupted
    (piece,) = settled.due(10.0)
    assert (piece.transfer.start_s, piece.transfer.end_s) == (2.0, 3.0)


def test_weights_go_on_once_they_are_expected_to_be_there() -> None:
    network = star(3)
    first = network.reserve(Load(2, 0, SIZE_BYTES))
    onward = network.reserve(Load(0, 1, SIZE_BYTES, first.end_s))
    settled = Settled()
    settled.pass_on(onward, first)
    settled.again(star(3), 0.5, lambda transfer: 1.75 if transfer == first else None)
    (piece,) = settled.due(10.0)
    assert (piece.transfer.start_s, piece.transfer.end_s) == (1.75, 2.75)
    assert piece.parts == (first,)
