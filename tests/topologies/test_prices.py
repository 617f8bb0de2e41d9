"""Bills of networks, counted by hand, and TopoOpt's own prices."""

from __future__ import annotations

import pytest

from testbed.topologies.build import build
from testbed.topologies.prices import TOPOOPT, Item, PortPrices, Prices, bill, describe_cost, total

GBPS = 10**9
ROUND = Prices(
    source="round numbers",
    ports={10 * GBPS: PortPrices(100, 10, 1), 40 * GBPS: PortPrices(400, 40, 4)},
    cable=2,
    panel_port=7,
    circuit_switch_port=50,
    look_ahead_switch=3,
)


def parts(expression: str, rate_bps: int = 10 * GBPS) -> dict[str, tuple[int, float]]:
    """Count and price by name."""
    return {item.name: (item.count, item.price) for item in bill(build(expression, rate_bps=rate_bps), ROUND)}


def test_a_star() -> None:
    assert parts("star(hosts=9)") == {
        "NIC 10 Gbit/s": (9, 100),
        "switch port 10 Gbit/s": (9, 10),
        "transceiver 10 Gbit/s": (18, 1),
        "cable": (9, 2),
    }


def test_a_bcube_has_a_nic_a_level_and_a_fat_tree_five_ports_a_host() -> None:
    bcube, fat_tree = parts("bcube(n=4,k=2)"), parts("fat_tree(k=4)")
    assert [bcube[name][0] for name in ("NIC 10 Gbit/s", "switch port 10 Gbit/s", "cable")] == [32, 32, 32]
    assert [fat_tree[name][0] for name in ("NIC 10 Gbit/s", "switch port 10 Gbit/s", "cable")] == [16, 80, 48]


@pytest.mark.parametrize(
    ("rate_bps", "name", "count"),
    [(GBPS, "NIC 10 Gbit/s", 2), (11 * GBPS, "NIC 40 Gbit/s", 2), (100 * GBPS, "NIC 40 Gbit/s", 6)],
)
def test_a_rate_takes_the_next_faster_part_or_several_of_the_fastest(rate_bps: int, name: str, count: int) -> None:
    found = parts("star(hosts=2)", rate_bps)
    assert found[name][0] == count
    assert found["cable"][0] == max(2, count)


@pytest.mark.parametrize(
    ("arguments", "optics"),
    [
        ("", {"patch panel port": (16, 7)}),
        (",technology=mems_3d", {"circuit switch port": (16, 50)}),
        (",look_ahead=true", {"patch panel port": (32, 7), "1x2 switch": (16, 3)}),
    ],
)
def test_patch_panels(arguments: str, optics: dict[str, tuple[int, float]]) -> None:
    found = parts(f"patch_panel(servers=8,degree=2{arguments})")
    cables = 32 if "look_ahead" in arguments else 16
    assert found == {"NIC 10 Gbit/s": (16, 100), "transceiver 10 Gbit/s": (16, 1), "cable": (cables, 2)} | optics


def test_totals() -> None:
    items = (Item("a", 2, 3.0), Item("b", 1, 0.5))
    assert total(items) == 6.5
    cost = describe_cost(build("star(hosts=9)", rate_bps=10 * GBPS), ROUND)
    assert cost["total"] == 9 * (100 + 10 + 2 + 2)
    assert cost["per_host"] == 114
    assert cost["source"] == "round numbers"
    assert cost["priced_as"] == {}
    assert describe_cost(build("star(hosts=9)", rate_bps=GBPS), ROUND)["priced_as"] == {"1 Gbit/s": "10 Gbit/s"}
    assert cost["items"][0] == {"item": "NIC 10 Gbit/s", "count": 9, "each": 100, "total": 900}


def test_topoopt_says_that_circuit_switches_cost_more_than_patch_panels() -> None:
    """Section 5.2: 1.33 times on average over its sizes, with two panels and a 1x2 switch an interface (look-ahead)
    against one circuit switch; here of one size and rate, so near that and not it."""
    panels = build("patch_panel(servers=128,degree=4,look_ahead=true)", rate_bps=100 * GBPS)
    circuits = build("patch_panel(servers=128,degree=4,technology=mems_3d)", rate_bps=100 * GBPS)
    assert 1 < total(bill(circuits, TOPOOPT)) / total(bill(panels, TOPOOPT)) < 1.5
