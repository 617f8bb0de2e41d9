"""Who takes part in a plan, what it refuses, and what it costs at least."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.base.errors import SchemeError
from topologies.build import build as build_topology
from topologies.model import Topology
from workloads import kinds
from workloads.kinds.fabric.plan import Fabric
from workloads.sync.schemes import build, build_plan

STAR = "star(hosts=7)"


def star(expression: str = STAR) -> Topology:
    return build_topology(expression, rate_bps=10**8)


def plan(scheme: str = "mlfabric_a", topology: str = STAR) -> Fabric:
    made = build_plan(scheme, star(topology), [1000])
    assert isinstance(made, Fabric)
    kinds.verify(made, star(topology))
    return made


def test_the_last_hosts_serve_and_schedule_and_workers_have_daemons() -> None:
    made, kind = plan(), kinds.named("fabric")
    assert (made.workers, made.server, made.scheduler) == (tuple(range(5)), 5, 6)
    assert len(made.aggregators) == 1
    assert list(kind.processes(made).items()) == [
        *((f"h{i}", i) for i in range(5)),
        *((f"h{i}.daemon", i) for i in range(5)),
        *(("h5", 5), ("h6", 6)),
    ]


def test_both_ends_of_a_connection_know_of_it() -> None:
    made, kind = plan("mlfabric_a(aggregators=2)"), kinds.named("fabric")
    met = {(node, other) for process, node in kind.processes(made).items() for other in kind.neighbours(made, process)}
    assert met == {(other, node) for node, other in met}
    assert met == set(made.pairs)
    assert all(kind.neighbours(made, f"h{i}") == [] for i in range(5)), "a worker has only its daemon"
    sums, others = set(made.aggregators), set(made.workers) - set(made.aggregators)
    assert all((a, b) in met for a in sums for b in others)
    assert not [pair for pair in met if set(pair) <= others]


def test_a_plan_comes_back_from_its_file(tmp_path: Path) -> None:
    made = plan("mlfabric_a(delay_bound=7,window=0.5,assign=fastest)")
    kinds.save(made, tmp_path / "plan")
    again = kinds.load(tmp_path / "plan")
    assert again == made
    assert isinstance(again, Fabric)
    assert again.topology.paths(0, 5) == star().paths(0, 5)
    assert [link.rate_bps for link in again.topology.links] == [10**8] * 7


@pytest.mark.parametrize(
    ("scheme", "topology", "problem"),
    [
        ("mlfabric_a(delay_bound=0)", STAR, "delay_bound of 0"),
        ("mlfabric_a(aggregators=6)", STAR, "6 aggregators for 5 workers"),
        ("mlfabric_a(aggregators=-1)", STAR, "-1 aggregators for 5 workers"),
        ("mlfabric_a(window=-1)", STAR, "a window of -1 s"),
        ("mlfabric_a(t_lag=61)", STAR, "a t_lag of 61 s"),
        ("mlfabric_ssp(staleness=-1)", STAR, "a staleness of -1"),
        ("mlfabric_a", "star(hosts=2)", "has 2 hosts"),
        ("mlfabric_a", "fat_tree(k=4,routing=ecmp)", "has 4 paths from h0 to h5|has . paths"),
    ],
)
def test_what_cannot_be_is_refused(scheme: str, topology: str, problem: str) -> None:
    with pytest.raises(SchemeError, match=problem):
        plan(scheme, topology)


def test_a_plan_is_no_forest() -> None:
    with pytest.raises(SchemeError, match="scheme mlfabric_a has no forest"):
        build("mlfabric_a", star(), [])


def test_a_plan_for_another_topology_is_refused() -> None:
    with pytest.raises(SchemeError, match="was built over other nodes"):
        kinds.verify(plan(), star("star(hosts=8)"))


def test_an_update_alone_takes_its_bytes_there_and_back() -> None:
    found = kinds.cost(plan(), star(), 1.25e6)
    assert found.bound_s() == pytest.approx(0.2)
    assert found.link_bytes.max() == 5 * 1.25e6
    assert found.wire_bytes == 10 * 1.25e6
