"""What the paper's other networks cost, against section 5.2 and against Table 3 by hand."""

from __future__ import annotations

import pytest

from testbed.topologies.build import build
from testbed.topologies.model import Topology
from testbed.topologies.prices import TOPOOPT, bill, rate_that_costs, total
from testbed.topologies.topoopt.baselines import baselines, equivalent_bps, fat_tree_dollars, oneshot_dollars

GBPS = 10**9


def cost(expression: str, rate_gbps: int) -> float:
    return total(bill(build(expression, rate_bps=rate_gbps * GBPS)))


@pytest.mark.parametrize(
    ("degree", "rate_gbps", "ideal", "switches"),
    [(4, 100, [1.82, 2.06], [1.11, 1.26]), (8, 200, [3.09, 3.43], [1.10, 1.22])],
)
@pytest.mark.parametrize("k", [4, 8])
def test_topo_cost(k: int, degree: int, rate_gbps: int, ideal: list[float], switches: list[float]) -> None:
    """Section 5.2 says 3.4 for the ideal fat-tree over TopoOpt-oneshot, and 1.33 for optical circuit switches over
    patch panels, both "on average". Look-ahead has two fibres an interface by our bill; the second figure of each is
    with one."""
    servers = k**3 // 4
    oneshot = cost(f"patch_panel(servers={servers},degree={degree},look_ahead=true)", rate_gbps)
    one_fibre = oneshot - servers * degree * TOPOOPT.cable
    fat_tree = cost(f"fat_tree(k={k})", degree * rate_gbps)
    optical = cost(f"patch_panel(servers={servers},degree={degree},technology=mems_3d)", rate_gbps)
    assert [round(fat_tree / one, 2) for one in (oneshot, one_fibre)] == ideal
    assert [round(optical / one, 2) for one in (oneshot, one_fibre)] == switches


@pytest.mark.parametrize("expression", ["fat_tree(k=4)", "fat_tree(k=8)"])
def test_a_server_costs_the_same_in_a_fat_tree_of_any_size(expression: str) -> None:
    topology = build(expression, rate_bps=100 * GBPS)
    assert total(bill(topology)) / topology.host_count == fat_tree_dollars(100 * GBPS)


@pytest.mark.parametrize(("degree", "rate_gbps"), [(4, 25), (8, 100), (3, 10)])
def test_a_server_costs_the_same_on_panels_of_any_size(degree: int, rate_gbps: int) -> None:
    whole = cost(f"patch_panel(servers=12,degree={degree},rings=[],look_ahead=true)", rate_gbps)
    assert whole / 12 == oneshot_dollars(degree, rate_gbps * GBPS)


@pytest.mark.parametrize(
    ("rate_gbps", "oneshot", "together_gbps"),
    [
        (10, 4 * (180 + 20 + 525), 100 + 100 * (2900 - 2829) / (4678 - 2829)),
        (25, 4 * (185 + 39 + 525), 100 + 100 * (2996 - 2829) / (4678 - 2829)),
        (40, 4 * (376 + 39 + 525), 100 + 100 * (3760 - 2829) / (4678 - 2829)),
        (100, 4 * (660 + 99 + 525), 200 * 5136 / 4678),
        (200, 4 * (790 + 198 + 525), 200 * 6052 / 4678),
    ],
)
def test_the_cost_equivalent_rate_by_hand(rate_gbps: int, oneshot: float, together_gbps: float) -> None:
    """At 10 and 25 Gbit/s B' is above B, so a fat-tree of TopoOpt's cost is then the faster one."""
    assert oneshot_dollars(4, rate_gbps * GBPS) == oneshot
    found = equivalent_bps(4, rate_gbps * GBPS)
    assert found == pytest.approx(together_gbps * GBPS)
    assert found is not None
    assert (found > 4 * rate_gbps * GBPS) == (rate_gbps < 40)


def test_every_rate_of_the_table_costs_what_it_costs_and_less_than_the_least_has_no_rate() -> None:
    def star(rate_bps: int) -> Topology:
        return build("star(hosts=3)", rate_bps=rate_bps)

    for rate_bps in TOPOOPT.ports:
        assert rate_that_costs(total(bill(star(rate_bps))), star) == rate_bps
    assert rate_that_costs(total(bill(star(400 * GBPS))), star) == 400 * GBPS
    assert rate_that_costs(total(bill(star(10 * GBPS))) - 1, star) is None


def test_the_networks_for_sixteen_servers() -> None:
    told = [
        (one.name, one.expression, one.rate_bps and one.rate_bps / GBPS, one.dollars)
        for one in baselines(16, 4, 100 * GBPS)
    ]
    assert told == [
        ("ideal", "star(hosts=16)", 400, 9356),
        ("cost-equivalent", "star(hosts=16)", pytest.approx(219.58, abs=0.01), 5136),
        ("ideal / 2.8", "star(hosts=16)", pytest.approx(142.857, abs=0.01), 4678),
        ("oversubscribed", "fat_tree(k=4,oversubscription=2)", 400, 2 * (790 + 3 * 450 + 4 * 198 + 2 * 150)),
        ("SiP-ML", "patch_panel(servers=16,degree=4)", 100, None),
        ("expander", "expander(servers=16,degree=4)", 100, 4 * (660 + 99 + 75)),
    ]


def test_what_there_is_not_is_said() -> None:
    told = {one.name: (one.expression, one.problem) for one in baselines(12, 2, 10 * GBPS)}
    assert told["expander"] == ("", "expander: degree is 2")
    assert told["oversubscribed"] == ("", "12 servers are not k^3/4 with k a multiple of 4, as 16 and 128 are")
    assert {one.name for one in baselines(12, 2, 10 * GBPS) if one.perturb} == {"SiP-ML"}
    one = {one.name: one.problem for one in baselines(16, 1, 10 * GBPS)}
    assert one["SiP-ML"] == "patch_panel: of the 1 port that degree=1 gives each server, rings take 2"
    assert one["cost-equivalent"] == "no fat-tree is as cheap as 725 $ a server"
