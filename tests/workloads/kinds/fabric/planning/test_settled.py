"""What is settled of a plan gets new times, and none of it is interrupted."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.topologies.build import build
from testbed.workloads.kinds.fabric import ideal
from testbed.workloads.kinds.fabric.planning.settled import Settled, Unit, branches
from testbed.workloads.kinds.fabric.planning.work import Work
from testbed.workloads.kinds.fabric.processes.messages import Give
from testbed.workloads.kinds.fabric.scheduling.model import Group, Transfer, Way
from testbed.workloads.kinds.fabric.scheduling.network import Load
from testbed.workloads.kinds.fabric.schemes.mlfabric_a import mlfabric_a
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


RATE_BPS, UPDATE_BYTES = 35_500_000, 415_800
"""Those of experiments/mlfabric/lda.yaml, in which the server once was to send weights to a distributor for nobody."""


@pytest.mark.parametrize(("aggregators", "seed"), [(2, 7), (2, 8), (3, 0), (3, 11), (6, 5)])
def test_no_weights_are_sent_to_a_distributor_for_nobody(
    aggregators: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups of which all members were distributors themselves: they had the weights already."""
    given: list[Give] = []
    give_of = ideal._World._give
    monkeypatch.setattr(ideal._World, "_give", lambda *told: given.append(told[-1]) or give_of(*told))
    plan = mlfabric_a(build("star(hosts=14)", rate_bps=RATE_BPS), [1], delay_bound=12, aggregators=aggregators)
    pace_s = 0.2 + 0.3 * np.random.default_rng(seed).random((12, 200))
    ideal.run(plan, Work(UPDATE_BYTES, 144, 0.0, 1, 0.956), lambda rank, iteration: float(pace_s[rank, iteration]))
    for give in given:
        asked = {node for node, *_ in give.recipients}
        assert all(asked & {first, *onward} for (first, *_), onward in give.ways)
    assert any(onward for give in given for _, onward in give.ways)


def test_a_distributor_for_other_distributors_alone_is_no_branch() -> None:
    """Nodes 2 and 3 ask. Node 1 would pass weights on to node 2 alone, which is a distributor itself."""
    sent = [(9, 1, 0.0), (1, 2, 1.0), (9, 2, 1.0), (2, 3, 2.0)]
    transfers = tuple(Transfer(source, target, start_s, start_s + 1.0, 1e6) for source, target, start_s in sent)
    way = Way((), (Group(1, (2,)), Group(2, (2, 3))), transfers)
    (branch,) = branches(way, [9], {2, 3})
    assert (branch.node, branch.start_s, [*branch.onward]) == (2, 1.0, [3])
    assert [*branches(way, [9], {1, 2, 3})[0].onward] == [], "it asks itself"
