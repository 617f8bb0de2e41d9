"""Who takes part in a plan, what it refuses, and what it costs at least."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.base.errors import SchemeError
from testbed.topologies.build import build as build_topology
from testbed.topologies.model import Topology
from testbed.workloads import kinds
from testbed.workloads.kinds.fabric.plan import Fabric
from testbed.workloads.sync.schemes import build, build_plan

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
    assert [(one.name, one.node) for one in kind.processes(made)] == [
        *((f"h{i}", i) for i in range(5)),
        *((f"h{i}.daemon", i) for i in range(5)),
        *(("h5", 5), ("h6", 6)),
    ]


def test_a_replica_is_between_server_and_scheduler_and_has_aggregators_of_its_own() -> None:
    made, kind = plan("mlfabric_a(divergence_bound=2)", "star(hosts=13)"), kinds.named("fabric")
    assert (made.server, made.replica, made.scheduler) == (10, 11, 12)
    assert (len(made.aggregators), len(made.replica_aggregators)) == (2, 2)
    assert not {*made.aggregators} & {*made.replica_aggregators}
    assert [one.name for one in kind.processes(made)][-3:] == ["h10", "h11", "h12"]
    name, what = kind.describe(made)[1]
    assert (name, what.split(";")[0]) == ("replica", "h11, at most 2 behind the server")
    nodes = {one.name: one.node for one in kind.processes(made)}
    met = {(one.node, nodes[other]) for one in kind.processes(made) for other in one.meets}
    assert met == {(other, node) for node, other in met} == set(made.pairs)
    assert {(11, node) for node in (*range(11), 12)} <= met
    few = plan("mlfabric_a(divergence_updates=3)", "star(hosts=4)")
    assert (few.aggregators, few.replica_aggregators) == ((0,), ()), "the one worker sums for the server"
    assert kind.describe(few)[1][1] == "h2, at most 3 updates behind the server; nobody may sum for it"


@pytest.mark.parametrize("scheme", ["mlfabric_a", "mlfabric_a(divergence_updates=3,replica_aggregators=1)"])
def test_what_is_not_there_is_not_told(scheme: str, tmp_path: Path) -> None:
    made, kind = plan(scheme), kinds.named("fabric")
    told = str(kind.encode(made)["fabric"])
    has = "divergence" in scheme
    assert ("replica" in told, "divergence_updates" in told, "divergence_bound" in told) == (has, has, False)
    assert ("replica" in kind.to_json(made)) is has
    kinds.save(made, tmp_path / "plan")
    assert kinds.load(tmp_path / "plan") == made


def test_servers_stand_before_the_scheduler_and_have_a_shard_each() -> None:
    made = plan("mlfabric_ssp(servers=2)")
    assert (made.workers, made.servers, made.scheduler) == ((0, 1, 2, 3), (4, 5), 6)
    assert made.met_by(4) == [0, 1, 2, 3, 6]
    assert made.met_by(6) == [0, 1, 2, 3, 4, 5]
    assert kinds.named("fabric").to_json(made)["server"] == ["h4", "h5"]
    assert kinds.named("fabric").to_json(plan())["server"] == "h5"
    found = kinds.cost(made, star(), 1.25e6)
    assert found.bound_s() == pytest.approx(0.2), "the worker's link carries all of the update"
    assert found.wire_bytes == 8 * 1.25e6
    assert found.link_bytes.max() == 4 * 0.625e6


@pytest.mark.parametrize("scheme", ["mlfabric_a(aggregators=2)", "mlfabric_a(aggregators=2,servers=2)"])
def test_both_ends_of_a_connection_know_of_it(scheme: str) -> None:
    made, kind = plan(scheme), kinds.named("fabric")
    nodes = {one.name: one.node for one in kind.processes(made)}
    met = {(one.node, nodes[other]) for one in kind.processes(made) for other in one.meets}
    assert met == {(other, node) for node, other in met}
    assert met == set(made.pairs)
    assert all(not one.meets for one in kind.processes(made)[: len(made.workers)]), "a worker has only its daemon"
    sums, others = set(made.aggregators), set(made.workers) - set(made.aggregators)
    assert all((a, b) in met for a in sums for b in others)
    assert not [pair for pair in met if set(pair) <= others]


@pytest.mark.parametrize("more", ["", ",servers=3"])
def test_a_plan_comes_back_from_its_file(tmp_path: Path, more: str) -> None:
    made = plan(f"mlfabric_a(delay_bound=7,window=0.5,assign=fastest{more})")
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
        ("mlfabric_a(servers=6)", STAR, "6 servers for the 7 hosts"),
        ("mlfabric_ssp(servers=0)", STAR, "0 servers for the 7 hosts"),
        ("mlfabric_a(servers=1001)", "star(hosts=1010)", "1001 servers for a model of 1,000 floats"),
        ("mlfabric_a(window=-1)", STAR, "a window of -1 s"),
        ("mlfabric_a(t_lag=61)", STAR, "a t_lag of 61 s"),
        ("mlfabric_ssp(staleness=-1)", STAR, "a staleness of -1"),
        ("mlfabric_a", "star(hosts=2)", "has 2 hosts"),
        ("mlfabric_a(divergence_bound=2)", "star(hosts=3)", "a replica, a scheduler and workers; star.* has 3 hosts"),
        ("mlfabric_a(divergence_bound=0)", STAR, "a divergence_bound of 0"),
        ("mlfabric_a(divergence_updates=0)", STAR, "divergence_updates=0"),
        ("mlfabric_a(divergence_bound=2,divergence_updates=9)", STAR, "bounds divergence twice"),
        ("mlfabric_a(replica_aggregators=1)", STAR, "replica_aggregators=1 and no replica"),
        (
            "mlfabric_a(divergence_bound=2,aggregators=3,replica_aggregators=2)",
            STAR,
            "2 replica_aggregators; so many workers do not sum for the server: 1",
        ),
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
