"""Weights that a distributor has for others, and what the scheduler says of them: both have to be there."""

from __future__ import annotations

import numpy as np

from testbed.workloads.kinds.fabric.processes.messages import Pass, Weights
from testbed.workloads.kinds.fabric.processes.passing import Passing
from testbed.workloads.serving.exchange import Floats

FLOATS = np.zeros(3, np.float32)


class Sent(list[tuple[int, int, float]]):
    """To which node, which shard, and how fast."""

    def send(self, node: int, note: Weights, _floats: Floats, rate_bps: float) -> None:
        self.append((node, note.shard, rate_bps))


def weights(node: int, shard: int = 0) -> Weights:
    return Weights(1, 0, 0, (), ((node, 0.0, True),), (), shard)


def test_they_go_on_when_they_are_here_and_it_is_time() -> None:
    sent = Sent()
    passing = Passing(sent.send)
    passing.take(4, weights(4), FLOATS)
    passing.tell(Pass(5, 0.0, 2e6))
    assert sent == []
    passing.tell(Pass(4, 0.0, 1e6))
    passing.take(5, weights(5), FLOATS)
    assert sent == [(4, 0, 1e6), (5, 0, 2e6)]


def test_shards_have_times_of_their_own() -> None:
    sent = Sent()
    passing = Passing(sent.send)
    passing.take(4, weights(4, 1), FLOATS)
    passing.tell(Pass(4, 0.0, 1e6, 0))
    assert sent == []
    passing.tell(Pass(4, 0.0, 3e6, 1))
    assert sent == [(4, 1, 3e6)]


def test_all_go_at_once_when_nobody_says_when_any_more() -> None:
    sent = Sent()
    passing = Passing(sent.send)
    for node in (4, 5):
        passing.take(node, weights(node), FLOATS)
    passing.send_all()
    assert sent == [(4, 0, 0.0), (5, 0, 0.0)]


def test_what_is_forgotten_does_not_go_on() -> None:
    sent = Sent()
    passing = Passing(sent.send)
    passing.take(4, weights(4), FLOATS)
    passing.tell(Pass(5, 0.0, 1e6))
    passing.forget()
    passing.tell(Pass(4, 0.0, 1e6))
    passing.take(5, weights(5), FLOATS)
    assert sent == []
