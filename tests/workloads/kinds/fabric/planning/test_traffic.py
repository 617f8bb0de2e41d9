"""What is on its way, as it was planned and as it comes, and what that leaves of the network."""

from __future__ import annotations

import pytest

from testbed.topologies.build import build
from testbed.workloads.kinds.fabric.plan import Options, fabric
from testbed.workloads.kinds.fabric.planning.settled import Settled, Unit
from testbed.workloads.kinds.fabric.planning.traffic import Leg, Traffic
from testbed.workloads.kinds.fabric.processes.messages import NEAR_S
from testbed.workloads.kinds.fabric.scheduling.model import Group, Transfer
from testbed.workloads.kinds.fabric.scheduling.network import Load

BYTES = 1.25e6
"""0.1 s at 100 Mbit/s."""
SERVER = 4
PLAN = fabric(build("star(hosts=6)", rate_bps=10**8), "mlfabric_a", Options(), 1)


def begun(traffic: Traffic, source: int, ready_s: float = 0.0, target: int = SERVER) -> Transfer:
    transfer = traffic.network(ready_s).reserve(Load(source, target, BYTES, ready_s, (source,)))
    traffic.begin(transfer)
    return transfer


def next_s(traffic: Traffic, now_s: float, source: int = 3) -> float:
    """When another update could begin."""
    return traffic.network(now_s).reserve(Load(source, SERVER, BYTES, now_s)).start_s


def test_what_has_begun_has_its_links_until_it_is_to_end() -> None:
    traffic = Traffic(PLAN, 1.0)
    begun(traffic, 0)
    assert next_s(traffic, 0.02) == pytest.approx(0.1)


def test_what_arrives_early_leaves_its_links_to_others() -> None:
    traffic = Traffic(PLAN, 1.0)
    begun(traffic, 0)
    assert traffic.arrived(0, SERVER, (0,), 0.06) is True
    assert next_s(traffic, 0.06) == 0.06
    assert traffic.moved[0].arrived_s == 0.06


def test_what_is_not_there_is_thought_to_need_a_part_of_its_time() -> None:
    traffic = Traffic(PLAN, 1.0)
    begun(traffic, 0)
    assert not traffic.is_late(0.125)
    assert traffic.is_late(0.14)
    assert next_s(traffic, 0.14) == pytest.approx(0.17)
    assert not traffic.is_late(0.17)


def test_what_shared_a_link_with_a_late_one_is_expected_as_much_later() -> None:
    traffic = Traffic(PLAN, 1.0)
    begun(traffic, 0)
    second = begun(traffic, 1, 0.1)
    elsewhere = begun(traffic, 2, 0.1, target=3)
    assert traffic.arrived(0, SERVER, (0,), 0.15) is True
    assert traffic.expected_s(second) == pytest.approx(0.25)
    assert traffic.expected_s(elsewhere) == pytest.approx(0.2)
    assert next_s(traffic, 0.17) == pytest.approx(0.25)


def test_what_arrives_as_expected_changes_nothing() -> None:
    traffic = Traffic(PLAN, 1.0)
    begun(traffic, 0)
    assert traffic.arrived(0, SERVER, (0,), 0.1004) is False
    with pytest.raises(ValueError, match="were not to go to node 4"):
        traffic.arrived(0, SERVER, (0,), 0.2)


def test_until_its_end_is_near_a_transfer_is_not_expected_to_end_soon() -> None:
    traffic = Traffic(PLAN, 1.0, hears_nears=True)
    begun(traffic, 0)
    assert not traffic.is_late(0.08)
    assert traffic.is_late(0.09)
    assert next_s(traffic, 0.09) == pytest.approx(0.09 + NEAR_S)
    assert not traffic.is_late(0.1)
    assert traffic.nears(Leg(0, SERVER, (0,), 0), 0.105) == pytest.approx(-0.01)
    assert next_s(traffic, 0.1) == pytest.approx(0.105)
    assert not traffic.is_late(0.1)
    with pytest.raises(ValueError, match="were not to go to node 4"):
        traffic.nears(Leg(1, SERVER, (1,), 0), 0.105)


def test_of_what_has_just_begun_the_end_need_not_be_near() -> None:
    traffic = Traffic(PLAN, 1.0, hears_nears=True)
    short = traffic.network(0.0).reserve(Load(0, SERVER, BYTES / 20, 0.0, (0,)))
    traffic.begin(short)
    assert not traffic.is_late(0.006)
    assert next_s(traffic, 0.004) == pytest.approx(0.005)
    assert traffic.is_late(0.013)


def test_rates_are_those_told_last_less_headers() -> None:
    traffic = Traffic(PLAN, 0.5)
    assert traffic.network(0.0).reserve(Load(0, SERVER, BYTES)).end_s == pytest.approx(0.2)
    traffic.rates_bps[PLAN.topology.ports[0][0]] = 2.5e7
    assert traffic.network(0.0).reserve(Load(0, SERVER, BYTES)).end_s == pytest.approx(0.8)


def test_what_is_settled_waits_for_what_is_late_and_a_sum_for_its_members() -> None:
    traffic, settled = Traffic(PLAN, 1.0), Settled()
    network = traffic.network(0.0)
    parts = [network.reserve(Load(node, 2, BYTES, 0.0, (node,))) for node in (0, 1)]
    total = network.reserve(Load(2, SERVER, BYTES, parts[-1].end_s, (0, 1)))
    settled.add(Unit((0, 1), Group(2, (0, 1)), ((*parts, total),)), group=7)
    assert [piece.transfer.members for piece in settled.due(0.0)] == [(0,)]
    traffic.begin(parts[0])
    settled.again(traffic.network(0.12), 0.12, traffic.expected_s)
    second, last = settled.due(9.0)
    assert second.transfer.start_s == pytest.approx(0.15), "the first is late"
    assert (last.transfer.start_s, last.group) == (pytest.approx(0.25), 7)
    assert last.parts
    assert settled.due(9.0) == []
