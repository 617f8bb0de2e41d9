"""Networks that TopoOpt compares itself with (section 5.1), for as many servers, and their prices.

SiP-ML is here as in Appendix E: circuits that Algorithm 5 moves without a discount. A star stands for a fat-tree of
full bisection bandwidth when it is run or predicted; it is priced as the fat-tree, which has one NIC, five switch ports
and three cables a server, whatever its size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from testbed.base.errors import TopologyError
from testbed.topologies.build import build
from testbed.topologies.model import Topology
from testbed.topologies.prices import TOPOOPT, Prices, bill, rate_that_costs, total

SIP_ML = "{kind: reconfigure, every: 50 ms, dark: 25 us, discount: one}"
"""Reconfiguration of SiP-ML: Appendix E, with the latency of section 5.1; the paper gives no other interval than
TopoOpt-reconfig's."""
SLOWED = 2.8
"""Slowdown of the cost-equivalent fat-tree: section 5.3 says that it has "on average, 2.8 x higher training iteration
time"."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """
    Attributes:
        name: what the paper calls it.
        expression: the network; empty if there is none of that size, and ``problem`` says why.
        rate_bps: of each link; None if there is no such rate.
        dollars: by server; None if there is no such network, or Table 3 has no prices for it.
        problem: why there is none.
        perturb: what an arm for it has to do to its circuits; empty for nothing.
    """

    name: str
    expression: str
    rate_bps: float | None
    dollars: float | None
    problem: str = ""
    perturb: str = ""


def oneshot_dollars(degree: int, rate_bps: int, prices: Prices = TOPOOPT) -> float:
    """Return TopoOpt's own cost by server: 2d patch panels, and a 1x2 switch at each interface (section 5.2)."""
    return _each(
        build(f"patch_panel(servers=2,degree={degree},circuits=[[0-1]],look_ahead=true)", rate_bps=rate_bps), prices
    )


def fat_tree_dollars(rate_bps: int, prices: Prices = TOPOOPT) -> float:
    """Return the dollars by server of a fat-tree of any size."""
    return _each(_fat_tree(rate_bps), prices)


def equivalent_bps(degree: int, rate_bps: int, prices: Prices = TOPOOPT) -> float | None:
    """Return d x B': the link rate at which a fat-tree costs what TopoOpt does; None if every fat-tree costs more."""
    servers = _fat_tree(rate_bps).host_count
    return rate_that_costs(servers * oneshot_dollars(degree, rate_bps, prices), _fat_tree, prices)


def baselines(servers: int, degree: int, rate_bps: int, prices: Prices = TOPOOPT) -> tuple[Baseline, ...]:
    """Return the baselines for n servers with d interfaces (``degree``) of rate B each."""
    return tuple(_baselines(servers, degree, rate_bps, prices))


def _baselines(servers: int, degree: int, rate_bps: int, prices: Prices) -> Iterator[Baseline]:
    star, together_bps = f"star(hosts={servers})", degree * rate_bps
    yield Baseline("ideal", star, together_bps, fat_tree_dollars(together_bps, prices))
    same_bps, dollars = equivalent_bps(degree, rate_bps, prices), oneshot_dollars(degree, rate_bps, prices)
    if same_bps is None:
        yield Baseline("cost-equivalent", "", None, None, f"no fat-tree is as cheap as {dollars:,.0f} $ a server")
    else:
        yield Baseline("cost-equivalent", star, same_bps, dollars)
    slow_bps = together_bps / SLOWED
    yield Baseline(f"ideal / {SLOWED:g}", star, slow_bps, fat_tree_dollars(round(slow_bps), prices))
    k = round((4 * servers) ** (1 / 3))
    if k**3 == 4 * servers and k % 4 == 0:
        yield _priced("oversubscribed", f"fat_tree(k={k},oversubscription=2)", together_bps, prices)
    else:
        problem = f"{servers:,} servers are not k^3/4 with k a multiple of 4, as 16 and 128 are"
        yield Baseline("oversubscribed", "", together_bps, None, problem)
    yield _sip_ml(servers, degree, rate_bps)
    yield _priced("expander", f"expander(servers={servers},degree={degree})", rate_bps, prices)


def _sip_ml(servers: int, degree: int, rate_bps: int) -> Baseline:
    """Describe SiP-ML: each GPU has d wavelengths of rate B (section 5.1). Its switches have no prices in Table 3."""
    expression = f"patch_panel(servers={servers},degree={degree})"
    try:
        build(expression, rate_bps=rate_bps)
    except TopologyError as error:
        return Baseline("SiP-ML", "", rate_bps, None, error.problem)
    return Baseline("SiP-ML", expression, rate_bps, None, perturb=SIP_ML)


def _priced(name: str, expression: str, rate_bps: int, prices: Prices) -> Baseline:
    try:
        return Baseline(name, expression, rate_bps, _each(build(expression, rate_bps=rate_bps), prices))
    except TopologyError as error:
        return Baseline(name, "", rate_bps, None, error.problem)


def _fat_tree(rate_bps: int) -> Topology:
    return build("fat_tree(k=2)", rate_bps=rate_bps)


def _each(topology: Topology, prices: Prices) -> float:
    return total(bill(topology, prices)) / topology.host_count
