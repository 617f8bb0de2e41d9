"""Which schemes can carry a script, and that nothing else changes by it."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.base.errors import SchemeError
from testbed.topologies.build import build
from testbed.topologies.model import Topology
from testbed.workloads import kinds
from testbed.workloads.kinds.script.plan import Scripted, library_of, scripted
from testbed.workloads.sync import codec
from testbed.workloads.sync.chunk_size import CALL_BYTES, CHUNK_BYTES
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.schemes import build_plan

RATE_BPS = 10**9
NETWORKS = {
    "bml": "bcube(n=2,k=2)",
    "hierarchical": "fat_tree(k=4)",
    "switchml": "star(hosts=4,ina=all)",
    "atp": "star(hosts=4,ina=all)",
    "two_level": "spine_leaf(racks=2,hosts_per_rack=2,spines=1)",
    "h_ar": "spine_leaf(racks=2,hosts_per_rack=2,spines=1)",
    "hierarchical_ps": "spine_leaf(racks=2,hosts_per_rack=2,spines=1)",
    "rina": "spine_leaf(racks=2,hosts_per_rack=2,spines=1,ina=[leaf0])",
}
CAN = (
    *("ps", "ps(servers=1)", "ps(colocated=false)", "ring", "multi_ring(strides=[1,3])", "halving_doubling"),
    *("bcube(base=2)", "tree", "double_binary_tree", "hierarchical_ps", "two_level", "h_ar", "hierarchical", "bml"),
    *("switchml", "atp", "rina", "gloo", "gloo(algorithm=reduce_broadcast)"),
)


def network(scheme: str) -> Topology:
    return build(NETWORKS.get(scheme.partition("(")[0], "star(hosts=4)"), rate_bps=RATE_BPS, delay_s=0.0)


def carried(scheme: str) -> Forest:
    topology = network(scheme)
    plan = build_plan(scheme, topology, [1])
    found: Forest = kinds.of(plan).carrier.for_scripts(plan, topology)
    return found


@pytest.mark.parametrize("scheme", CAN)
def test_synchronous_schemes_carry_scripts_along_their_own_trees(scheme: str) -> None:
    topology = network(scheme)
    plan = build_plan(scheme, topology, [1])
    assert isinstance(plan, Forest)
    found = carried(scheme)
    assert (found.kind, found.scheme, found.workers) == ("script", plan.scheme, plan.workers)
    assert (found.reduce == plan.reduce).all()
    kinds.verify(found, topology)
    assert kinds.cost(found, topology, 1000.0).bound_s() == kinds.cost(plan, topology, 1000.0).bound_s()


@pytest.mark.parametrize("scheme", ["ring", "gloo"])
def test_a_plan_comes_back_from_its_file(scheme: str, tmp_path: Path) -> None:
    plan = carried(scheme)
    kinds.save(plan, tmp_path / "plan")
    again = kinds.load(tmp_path / "plan")
    assert isinstance(again, Forest)
    assert again.run_by == Scripted(scheme if scheme == "gloo" else "")
    scripts = kinds.of(again).scripts
    assert scripts is not None
    assert library_of(again) == scripts.library(again) == library_of(plan)


@pytest.mark.parametrize("scheme", ["async_ps", "ssp", "mlfabric_a", "mlfabric_ssp", "mlfabric_s", "pbox", "openmpi"])
def test_schemes_that_are_no_allreduce_are_refused_with_the_reason(scheme: str) -> None:
    with pytest.raises(SchemeError, match=f"scheme {scheme}.* cannot carry a script: "):
        carried(scheme)


def test_a_plan_for_scripts_carries_no_other_script() -> None:
    plan = carried("ring")
    with pytest.raises(SchemeError, match="carries one already"):
        kinds.of(plan).carrier.for_scripts(plan, network("ring"))


@pytest.mark.parametrize("scheme", ["ps(place=tensor)", "ps(place=lpt)", "ring(members=[[0,1],[2,3]])"])
def test_trees_that_are_not_for_any_array_are_refused(scheme: str) -> None:
    with pytest.raises(SchemeError, match="a script"):
        carried(scheme)


def test_files_of_other_plans_do_not_know_of_scripts() -> None:
    ring = build_plan("ring", network("ring"), [1])
    assert isinstance(ring, Forest)
    encoded = kinds.of(ring).encode(ring)
    assert "script" not in encoded
    assert set(encoded) == set(codec.encode(ring, {"library": "null", "asynchronous": "null"}))
    assert "script" in kinds.of(scripted(ring)).encode(scripted(ring))


@pytest.mark.parametrize(("scheme", "most_bytes"), [("ring", CALL_BYTES), ("switchml", CHUNK_BYTES[1])])
def test_chunks_are_larger_on_fast_links_but_not_in_slots(scheme: str, most_bytes: int) -> None:
    plan = carried(scheme)
    sizes = [kinds.of(plan).chunk_bytes(plan, 1e6, rate_bps) for rate_bps in (1e6, 800e6, 2e9, 1e11)]
    assert sizes == [CHUNK_BYTES[0], 500_000, min(most_bytes, 1_250_000), most_bytes]
