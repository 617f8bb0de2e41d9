"""Trials of MLfabric in simulated time: worked examples, and whether all processes tell one story."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.base.errors import TrialError
from testbed.topologies.build import build as network
from testbed.workloads.job import Compute
from testbed.workloads.kinds import of
from testbed.workloads.kinds.base import Told
from testbed.workloads.kinds.fabric import ideal
from testbed.workloads.kinds.fabric.checks import allowed
from testbed.workloads.kinds.fabric.measures import APPLIED
from testbed.workloads.kinds.fabric.plan import Fabric
from testbed.workloads.kinds.fabric.planning.work import Work
from testbed.workloads.kinds.fabric.played_transfers import Transfers
from testbed.workloads.kinds.fabric.processes.messages import Commit
from testbed.workloads.kinds.parts import Iterations
from testbed.workloads.kinds.transfers import Carried, Purpose
from testbed.workloads.play.changes import Planned, RateChange
from testbed.workloads.play.queues import Queues
from testbed.workloads.play.wires import Wires
from testbed.workloads.sync.schemes import build_plan

RATE_BPS = 8_000_000
FLOATS = 250_000
"""A million bytes: a second on a link."""
SEGMENT_S = 65536 * 8 / RATE_BPS
CLOSE = 2e-3
"""Share by which times are longer than those of floats alone: notes and headers."""


class Trial:
    """A trial that was played: its plan, samples and transfers, and what was told of iterations that were done."""

    def __init__(
        self,
        scheme: str,
        hosts: int,
        paces_s: Sequence[float],
        count: int = 2,
        changes: Iterable[RateChange] = (),
    ) -> None:
        """Play; the first workers have these paces, and the others the last one."""
        topology = network(f"star(hosts={hosts})", rate_bps=RATE_BPS)
        plan = build_plan(scheme, topology, [FLOATS])
        assert isinstance(plan, Fabric)
        self.plan, self.done = plan, list[int]()
        self.paces_s = [*paces_s, *[paces_s[-1]] * len(plan.workers)][: len(plan.workers)]
        computes = [Compute("paced", pace_s) for pace_s in self.paces_s]
        asked = Iterations(FLOATS, count, computes, self.done.append, seed=1)
        kind = of(plan)
        wires = Wires(topology, Queues.over(topology), Planned(changes))
        lines_of = kind.simulation.begin(plan, asked, wires)
        wires.run()
        said = lines_of()
        self.said = json.loads(json.dumps({name: list(lines) for name, lines in said.items()}))
        names = [process.name for process in kind.processes(plan)]
        assert sorted(names) == sorted(self.said)
        lines = [line for name in names for line in self.said[name][:-1]]
        renamed = {"i": "iteration", "start": "start_s", "ready": "ready_s", "sum": "sum_s", "end": "end_s"}
        samples = pd.DataFrame(lines).rename(columns=renamed)
        self.told: Told = kind.told(plan, samples, [self.said[name][-1] for name in names], count)

    @property
    def samples(self) -> pd.DataFrame:
        return self.told.samples

    @property
    def transfers(self) -> Sequence[Carried]:
        assert self.told.transfers is not None
        return self.told.transfers

    def took_s(self) -> list[float]:
        return list(self.samples["sum_s"] - self.samples["ready_s"])

    def arrived_s(self, purpose: Purpose) -> list[float]:
        """When transfers of this purpose were there, in their order."""
        return sorted(
            each.arrived_s for each in self.transfers if each.purpose == purpose and each.arrived_s is not None
        )


def test_an_update_alone_goes_there_and_back() -> None:
    trial = Trial("mlfabric_a(window=0)", 3, [0.5], count=3)
    assert trial.took_s() == pytest.approx([2.0] * 3, rel=CLOSE)
    assert list(trial.samples["start_s"]) == pytest.approx([0.0, 2.5, 5.0], rel=CLOSE)
    assert list(trial.samples["staleness"]) == [0, 0, 0]
    assert trial.done == [1, 2, 3]


def test_updates_wait_for_the_window() -> None:
    assert Trial("mlfabric_a(window=0.4)", 3, [0.5], count=1).took_s() == pytest.approx([2.4], rel=CLOSE)


def test_an_update_follows_the_one_before_it_at_once() -> None:
    """The second worker's link is free, and the server's is not: the scheduler hears when that is so."""
    trial = Trial("mlfabric_a(aggregators=0)", 5, [0.0], count=1)
    assert trial.arrived_s(Purpose.UPDATE) == pytest.approx([1.1, 2.1, 3.1], rel=0.01)


def test_a_worker_gets_weights_of_two_servers_once_both_have_its_update() -> None:
    trial = Trial("mlfabric_ssp(servers=2,window=0)", 4, [0.0], count=1)
    assert trial.arrived_s(Purpose.UPDATE) == pytest.approx([0.5, 1.0], rel=0.01)
    assert trial.arrived_s(Purpose.WEIGHTS) == pytest.approx([1.5, 2.0], rel=0.01)
    assert trial.took_s() == pytest.approx([2.0], rel=0.01)


@pytest.mark.parametrize(("share", "takes_s"), [(0.5, 2.0), (1.02, 1.0), (0.0, 1.0)])
def test_floats_go_no_faster_than_the_scheduler_says_and_their_end_is_seen_coming(share: float, takes_s: float) -> None:
    topology = network("star(hosts=2)", rate_bps=RATE_BPS)
    wires = Wires(topology, Queues.over(topology), Planned())
    ends_s, came_s = list[float](), list[float]()
    Transfers(wires).floats(
        (0, 1),
        Commit(1),
        4 * FLOATS,
        share * RATE_BPS,
        lambda left_s: ends_s.append(wires.now_s + left_s),
        lambda: came_s.append(wires.now_s),
    )
    wires.run()
    assert came_s == pytest.approx([takes_s], rel=0.01)
    if share:
        assert ends_s == pytest.approx(came_s, abs=0.01)


def test_an_aggregator_sums_what_others_send_it() -> None:
    trial = Trial("mlfabric_s(aggregators=1)", 8, [0.0], count=2)
    sums = [each for each in trial.transfers if each.purpose == Purpose.SUM]
    assert max(each.members for each in sums) > 1
    assert {each.source for each in sums} <= {*trial.plan.aggregators}
    last_s = trial.samples.groupby("iteration")["sum_s"].max()
    assert last_s[0] < 0.1 + 6 + 6, "as long as without sums"


def test_a_root_adds_its_own_update_without_a_link() -> None:
    trial = Trial("mlfabric_s(root=random)", 4, [0.0], count=4)
    roots = [trial.plan.servers_at(iteration)[0] for iteration in range(4)]
    assert len({*roots}) > 1
    assert len(trial.transfers) == 4 * 2 * 2, "of three workers, two send and get"
    for root in trial.plan.workers:
        own = trial.said[f"{trial.plan.nodes[root]}.daemon"][-1]["journal"]
        assert len({numbers[0] // 3 for _, numbers, *_ in own}) == roots.count(root)


def test_workers_wait_for_the_slowest_as_ssp_has_it() -> None:
    trial = Trial("mlfabric_ssp(staleness=0)", 4, [0.0, 20.0], count=3)
    fast = trial.samples[trial.samples["rank"] == 0]
    assert list(trial.samples["rank"].value_counts()) == [3, 3]
    assert fast["held_s"].min() > 15.0


def test_the_scheduler_hears_of_a_rate_as_late_as_it_does() -> None:
    """The worker's link has half of its rate from 0.2 s on. An update takes 2 s, and is planned so from 5.2 s on."""
    change = RateChange(0.2, 0, RATE_BPS / 2)
    trial = Trial("mlfabric_a(window=0,t_lag=5)", 3, [0.5], count=3, changes=[change])
    updates = [each for each in trial.transfers if each.purpose == Purpose.UPDATE]
    assert [each.end_s - each.start_s for each in updates] == pytest.approx([1.0, 1.0, 2.0], rel=CLOSE)
    assert trial.took_s() == pytest.approx([3.0] * 3, rel=CLOSE)


def test_a_link_that_stays_blocked_is_told() -> None:
    with pytest.raises(TrialError, match="workers wait: h0"):
        Trial("mlfabric_a", 3, [0.5], changes=[RateChange(1.0, 0, 0.0)])


def test_a_link_that_comes_back_is_used_again() -> None:
    """A note is lost at 0.5 s. It is sent again at 0.7, and then every 0.5 s."""
    trial = Trial("mlfabric_a(window=0,t_lag=0)", 3, [0.5], 1, [RateChange(0.2, 0, 0.0), RateChange(4.0, 0, RATE_BPS)])
    assert trial.took_s() == pytest.approx([5.7], rel=CLOSE)


def test_a_replica_is_no_further_behind_than_allowed() -> None:
    """Workers send to the server as fast as its link takes updates, and the replica's link carries an update of each,
    too. So the server waits for it, and goes on when it has been told."""
    trial = Trial("mlfabric_a(divergence_updates=1,window=0)", 6, [0.0], count=3)
    copies = [each for each in trial.transfers if each.target == trial.plan.replica]
    assert sum(each.members for each in copies) == len(trial.samples)
    assert trial.samples["behind"].max() == 1
    assert trial.told.metrics["replica_behind_max"] == 1
    assert "replica_error" not in trial.told.metrics, "there are no weights"


def test_a_replica_follows_by_the_norms_of_updates() -> None:
    """An update's norm is about the root of 21.5 times its floats: 2,318."""
    behind = []
    for bound in (2_000, 5_000, 100_000):
        trial = Trial(f"mlfabric_a(divergence_bound={bound},window=0)", 6, [0.0, 1.0], count=4)
        most = trial.samples.loc[trial.samples["behind"] > 1, "divergence"]
        assert not len(most) or most.max() <= bound
        behind.append(trial.samples["behind"].max())
    assert behind[:2] == [1, 2]
    assert behind[2] > 2


def test_a_trial_is_nearly_the_one_on_an_ideal_network() -> None:
    trial = Trial("mlfabric_a(aggregators=1)", 8, [0.5, 2.0, 4.0], count=6)
    workers = len(trial.plan.workers)
    work = Work(4 * FLOATS, 6 * workers, 0.0, 1, 1.0)
    told = ideal.run(trial.plan, work, lambda rank, _: trial.paces_s[rank])
    assert trial.samples["end_s"].max() == pytest.approx(told.jct_s, rel=0.05)


def test_the_same_trial_is_played_alike() -> None:
    assert Trial("mlfabric_a", 7, [0.5, 1.0]).said == Trial("mlfabric_a", 7, [0.5, 1.0]).said


@settings(max_examples=25, deadline=None)
@given(
    scheme=st.sampled_from(
        [
            "mlfabric_a(aggregators={few},window={window})",
            "mlfabric_a(delay_bound=3,servers={servers},window={window})",
            "mlfabric_ssp(staleness={few},servers={servers},window={window})",
            "mlfabric_s(aggregators={few},window={window})",
            "mlfabric_s(root=random,window={window})",
            "mlfabric_a(divergence_updates=2,aggregators={few},window={window})",
            "mlfabric_a(divergence_bound=5000,delay_bound=3,window={window})",
        ]
    ),
    few=st.integers(0, 2),
    servers=st.integers(1, 3),
    window=st.sampled_from([0, 0.1, 1]),
    paces_s=st.lists(st.floats(0, 5), min_size=1, max_size=5),
    count=st.integers(1, 4),
    slow=st.none() | st.tuples(st.floats(0, 10), st.integers(0, 7), st.sampled_from([0.0, 0.1, 0.5])),
)
def test_all_processes_tell_one_story(
    scheme: str,
    few: int,
    servers: int,
    window: float,
    paces_s: list[float],
    count: int,
    slow: tuple[float, int, float] | None,
) -> None:
    """As after trials of processes: journals that can be, each update a sample, none more stale than allowed."""
    changes = []
    if slow is not None:
        at_s, link, share = slow
        changes = [RateChange(at_s, link, share * RATE_BPS), RateChange(at_s + 7.0, link, RATE_BPS)]
    text = scheme.format(few=few, servers=servers, window=window)
    trial = Trial(text, len(paces_s) + 5, paces_s, count, changes)
    samples = trial.samples
    assert len(samples) == count * len(trial.plan.workers)
    assert trial.done[-1] == count
    assert (samples["sum_s"] >= samples["ready_s"]).all()
    if "staleness" in samples:
        applied = samples[samples["fate"].isin(APPLIED)]
        assert applied["staleness"].max() <= allowed(trial.plan, len(samples))
    if slow is None:
        _check_no_transfer_is_too_fast(trial)


def _check_no_transfer_is_too_fast(trial: Trial) -> None:
    """But for segments that a note waited for by which a node knows the scheduler's clock."""
    for each in trial.transfers:
        assert each.arrived_s is not None
        assert each.arrived_s - each.start_s >= each.size_bytes * 8 / RATE_BPS - 2 * SEGMENT_S
