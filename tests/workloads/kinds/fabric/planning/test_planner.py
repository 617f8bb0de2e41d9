"""What the scheduler does when links change."""

from __future__ import annotations

import math

from topologies.build import build
from workloads.kinds.fabric.fates import Fate
from workloads.kinds.fabric.planning.planner import Planner, Work
from workloads.kinds.fabric.processes.messages import Give, Send
from workloads.kinds.fabric.schemes.mlfabric_a import mlfabric_a

RATE_BPS, UPDATE_BYTES = 10**8, 1_250_000


def test_a_link_that_comes_back_is_used_at_once() -> None:
    plan = mlfabric_a(build("star(hosts=4)", rate_bps=RATE_BPS), [1], aggregators=0, window=0)
    planner = Planner(plan, Work(UPDATE_BYTES, 8, 0.0, 1, 1.0))
    worker, out = plan.workers[0], plan.topology.ports[plan.server][0]
    planner.ready(0, 0, 0.0, 0.0)
    assert [type(note) for _, note in planner.tick(0.0)][-1] is Send
    planner.rates({out: 0.0}, 0.05)
    planner.tick(0.05)
    planner.arrived([0], worker, plan.server, 0.1)
    planner.decided([(0, int(Fate.DIRECT))], 1, 0.1)
    assert not [note for _, note in planner.tick(0.1) if isinstance(note, Give)]
    assert planner.next_s == math.inf
    planner.rates({out: RATE_BPS}, 2.0)
    assert planner.next_s == 2.0
    (give,) = [note for _, note in planner.tick(2.0) if isinstance(note, Give)]
    assert [node for node, *_ in give.recipients] == [worker]
