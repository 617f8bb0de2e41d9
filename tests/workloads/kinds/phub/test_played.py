"""Boxes in simulated time: worked examples, and bytes of links beside theory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.base.errors import TrialError
from testbed.topologies.build import build as network
from testbed.topologies.model import Topology
from testbed.workloads.job import Compute
from testbed.workloads.kinds.parts import Iterations
from testbed.workloads.kinds.phub.kind import KIND
from testbed.workloads.kinds.phub.plan import Plan
from testbed.workloads.play.changes import Planned, RateChange
from testbed.workloads.play.queues import Queues
from testbed.workloads.play.wires import Wires
from testbed.workloads.sync.schemes import build_plan

RATE_BPS = 8_000_000
TENSORS = 100_000, 150_000
"""A million bytes: a second on a link."""
CLOSE = 1e-3
"""Share by which times are longer than those of floats alone: headers."""
STAR, NICS, RACKS = (
    "star(hosts=4)",
    "star(hosts=5,server_nics=3,routing=every_nic)",
    "spine_leaf(racks=3,hosts_per_rack=3,spines=1)",
)


class Trial:
    """A trial that was played: the samples of workers, the bytes of links, and what was told of iterations."""

    def __init__(
        self,
        scheme: str,
        expression: str,
        paces_s: Sequence[float] = (0.0,),
        count: int = 1,
        changes: Iterable[RateChange] = (),
    ) -> None:
        """Play; the first workers have these paces, and the others the last one."""
        self.topology: Topology = network(expression, rate_bps=RATE_BPS)
        plan = build_plan(scheme, self.topology, TENSORS)
        assert isinstance(plan, Plan)
        self.plan, self.count, self.done = plan, count, list[int]()
        paces_s = [*paces_s, *[paces_s[-1]] * len(plan.workers)][: len(plan.workers)]
        computes = [Compute("paced", pace_s) for pace_s in paces_s]
        queues = Queues.over(self.topology)
        asked = Iterations(sum(TENSORS), count, computes, self.done.append)
        wires = Wires(self.topology, queues, Planned(changes))
        lines_of = KIND.simulation.begin(plan, asked, wires)
        wires.run()
        said = lines_of()
        assert sorted(said) == sorted(process.name for process in plan.processes())
        self.lines = [[dict(line) for line in said[plan.nodes[worker]][:-1]] for worker in plan.workers]
        self.link_bytes = queues.carried_bytes()

    def gst_s(self) -> list[float]:
        return [
            max(line["sum"] for line in lines) - max(line["ready"] for line in lines)
            for lines in zip(*self.lines, strict=True)
        ]


def test_a_key_goes_back_when_it_has_come_from_all() -> None:
    trial = Trial("pbox(key_bytes=0)", STAR, [0.5], count=2)
    assert trial.gst_s()[0] == pytest.approx(6.0, rel=CLOSE)  # three keys in, three out
    assert max(lines[1]["start"] for lines in trial.lines) == pytest.approx(6.5, rel=CLOSE)
    assert trial.done == [1, 2]


def test_small_keys_go_back_while_others_come() -> None:
    (gst_s,) = Trial("pbox(key_bytes=8000)", STAR).gst_s()
    assert 3.0 < gst_s < 3.0 * 1.05


def test_layers_wait_for_all_of_their_keys() -> None:
    """The larger layer comes behind the smaller one, and goes back when it is there: 3 s in, and 1.8 s out."""
    (gst_s,) = Trial("pbox(key_bytes=8000,aggregation=wide)", STAR).gst_s()
    assert gst_s == pytest.approx(4.8, rel=0.02)


def test_several_nics_carry_keys_at_the_same_time() -> None:
    """Four workers on three NICs: each NIC carries 4/3 s of keys, or with affinity to workers 2 s."""
    times_s = [Trial(f"pbox(key_bytes=4000{more})", NICS).gst_s()[0] for more in ("", ",affinity=worker")]
    assert times_s == pytest.approx([4 / 3, 2.0], rel=0.05)


def test_no_key_goes_back_before_the_slowest_worker_has_pushed_it() -> None:
    """From 2 s on, three gradients go back in 3 s, while keys come."""
    trial = Trial("pbox", STAR, [0.0, 2.0, 0.0], count=2)
    assert [line["start"] for lines in trial.lines for line in lines[1:]] == pytest.approx([5.0] * 3, rel=0.02)


def test_a_blocked_link_that_does_not_come_back_is_told() -> None:
    with pytest.raises(TrialError, match=r"nothing moves after .* s of simulated time, and workers wait: h0, h1, h2"):
        Trial("pbox", STAR, changes=[RateChange(1.0, 0, 0.0)])


@settings(max_examples=30, deadline=None)
@given(
    arm=st.sampled_from(
        [
            *((each, STAR) for each in ("pbox", "pbox(colocated=true)", "pbox(cores=2,aggregation=wide)")),
            *((f"pbox(affinity={each},cores=2)", NICS) for each in ("key", "worker")),
            ("pbox(aggregation=wide)", NICS),
            *((f"pbox(boxes=rack,across={each})", RACKS) for each in ("none", "ring", "ps")),
        ]
    ),
    paces_s=st.lists(st.floats(0, 3), min_size=1, max_size=6),
    count=st.integers(1, 3),
)
def test_links_carry_the_bytes_of_theory(arm: tuple[str, str], paces_s: list[float], count: int) -> None:
    trial = Trial(*arm, paces_s, count)
    theory = count * KIND.cost(trial.plan, trial.topology, 4.0 * sum(TENSORS)).link_bytes
    assert np.all(trial.link_bytes >= theory - 1)
    assert trial.link_bytes == pytest.approx(theory, rel=5e-3, abs=2000)
    assert trial.done == [*range(1, count + 1)]
    assert {len(lines) for lines in trial.lines} == {count}
