"""Schemes that are other people's libraries: the forest each is held against, and whether its bytes are that one's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from testbed.base.errors import MissingToolError, SchemeError
from testbed.topologies.model import Topology
from testbed.workloads.kinds import cost, verify
from testbed.workloads.kinds.base import Tool
from testbed.workloads.kinds.library import kind as libraries
from testbed.workloads.kinds.library import openmpi as mpi
from testbed.workloads.kinds.library.plan import Library, library_of
from testbed.workloads.sync.schemes import build

Build = Callable[..., Topology]


def test_gloo_is_a_ring_that_sends_to_the_rank_before(topology: Build) -> None:
    net = topology("star(hosts=4)")
    forest = build("gloo", net, [])
    verify(forest, net)
    assert forest.run_by == Library("gloo", "allreduce", 0, exact=True, polls=False)
    assert forest.reduce[0, :4].tolist() == [-1, 0, 1, 2]
    assert forest.broadcast[0, :4].tolist() == [-1, 2, 3, 0]


@pytest.mark.parametrize(
    ("scheme", "hosts", "ours"),
    [
        ("openmpi(algorithm=ring)", 5, "ring"),
        ("openmpi(algorithm=segmented_ring,segment_bytes=65536)", 5, "ring"),
        ("openmpi(algorithm=basic_linear)", 5, "ps(servers=1)"),
        ("openmpi(algorithm=rabenseifner)", 8, "halving_doubling"),
    ],
)
def test_an_algorithm_that_is_one_of_our_forests_is_held_against_it(
    topology: Build, scheme: str, hosts: int, ours: str
) -> None:
    net = topology(f"star(hosts={hosts})")
    theirs, same = build(scheme, net, []), build(ours, net, [])
    assert library_of(theirs).exact
    assert np.array_equal(theirs.reduce, same.reduce)
    assert np.array_equal(theirs.broadcast, same.broadcast)


@pytest.mark.parametrize(
    "scheme",
    [
        "gloo(algorithm=reduce_broadcast)",
        "openmpi",
        "openmpi(algorithm=nonoverlapping)",
        "openmpi(algorithm=recursive_doubling)",
        "openmpi(algorithm=rabenseifner)",
    ],
)
def test_of_others_the_bytes_are_not_known_and_the_cheapest_forest_is_the_reference(
    topology: Build, scheme: str
) -> None:
    net = topology("spine_leaf(racks=3,hosts_per_rack=2,spines=1,oversubscription=8)")
    forest = build(scheme, net, [])
    verify(forest, net)
    assert not library_of(forest).exact
    least = min(cost(build(one, net, []), net, 1.0).bound_s() for one in ("ring", "two_level"))
    assert cost(forest, net, 1.0).bound_s() == least


def test_a_negative_segment_is_refused(topology: Build) -> None:
    with pytest.raises(SchemeError, match="openmpi: ring with segments of -1 bytes"):
        build("openmpi(algorithm=ring,segment_bytes=-1)", topology("star(hosts=2)"), [])


def test_mpirun_is_told_the_algorithm_and_left_alone_without_one() -> None:
    meeting = mpi.Meeting(("h0", "h1"), "10.0.0.1", "10.0.0.1", 9500, "/here/agent")
    chosen = mpi.mpirun(meeting, Library("openmpi", "segmented_ring", 65536, exact=True, polls=True), "eth0", 5.0)
    assert chosen[chosen.index("--host") + 1] == "h0:1,h1:1"
    assert chosen[chosen.index("coll_tuned_allreduce_algorithm") + 1] == "segmented_ring"
    assert chosen[chosen.index("coll_tuned_allreduce_algorithm_segmentsize") + 1] == "65536"
    assert chosen[chosen.index("btl_tcp_if_include") + 1] == "eth0"
    default = mpi.mpirun(meeting, Library("openmpi", "default", 0, exact=False, polls=True), "eth0", 5.0)
    assert not any(word.startswith("coll_tuned") for word in default)


def test_what_is_missing_is_named_with_its_fix(topology: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    net, software = topology("star(hosts=2)"), libraries.LibrarySoftware()
    plan = build("openmpi", net, [])
    missing = Tool("no-such-mpirun", "the scheme openmpi", "sudo apt-get install openmpi-bin")
    monkeypatch.setattr(libraries, "OPENMPI", (missing,))
    with pytest.raises(MissingToolError) as caught:
        software.require(plan)
    assert str(caught.value) == (
        "scheme openmpi needs no-such-mpirun, which is not installed\n  fix: sudo apt-get install openmpi-bin"
    )
    package = Tool("no_such_mpi4py", "the scheme openmpi", "pip install mpi4py", is_package=True)
    monkeypatch.setattr(libraries, "OPENMPI", (Tool("sh", "", ""), package))
    with pytest.raises(MissingToolError) as caught:
        software.require(plan)
    assert str(caught.value) == (
        "scheme openmpi needs no_such_mpi4py, which is not installed\n  fix: pip install mpi4py"
    )
    software.require(build("gloo", net, []))
