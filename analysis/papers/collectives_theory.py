"""PHub thesis, chapter 5 (PLink Collectives): what orders of ranks cost, beside what forests take, and how near the
search comes to the best one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from testbed.analysis.papers.claim import Table
from testbed.analysis.papers.forests import RATE_BPS, bound_s, network
from testbed.analysis.theory.probed_cloud import Cloud
from testbed.topologies.call import parse
from testbed.topologies.cloud import places
from testbed.workloads.ranks.annealing import anneal
from testbed.workloads.ranks.costs import Distances, Floats, Priced, build
from testbed.workloads.ranks.exact import improve
from testbed.workloads.ranks.orders import MICROSECOND, Found, Order, find

CLOUD = "cloud(oversubscription=4)"
HOSTS, RACKS = 16, (4, 4, 4, 4)
EXAMPLES: Mapping[str, tuple[float, float, float]] = {
    "ring": (12, 24, 12),
    "halving_doubling": (5, 9, 5),
    "double_binary_tree": (5, 9, 6),
    "bcube(base=4)": (4, 6, 4),
}
"""Costs of eight ranks in two racks of four, where a transfer costs 1 within and 3 between them: the least and the most
of all orders, and that of the order of numbers. Counted by hand."""
BOUNDS: Mapping[str, tuple[float, float]] = {
    "ring": (1.875, 7.5),
    "gloo": (1.875, 7.5),
    "halving_doubling": (1.875, 7.5),
    "bcube(base=4)": (1.875, 7.5),
    "double_binary_tree": (3.0, 8.0),
    "ps": (6.0, 6.0),
}
"""Least times of forests in a good and in a bad order of 16 hosts in four racks, in M/B: bytes of the gradient over the
rate of a host. They are the least and the most of a long search."""
LIGHTGBM = {"distances 8 and 4 within racks": 1.5, "all across": 3.75, "rank r in rack r div 4": 3.1875}
"""Costs of LightGBM's reduce-scatter there, in S/B. Its rounds come one after the other."""
_ACROSS = tuple(4 * ((r % 4 + r // 4) % 4) + r // 4 for r in range(HOSTS))
"""Hosts by rank, numbered rack by rack: rank r is in rack (r mod 4 + r div 4) mod 4."""


def racks(sizes: Sequence[int], within: float, between: float) -> Floats:
    """Return distances between hosts of racks of these sizes, by number."""
    rack = np.repeat(range(len(sizes)), sizes)
    apart = np.where(rack[:, None] == rack, within, between).astype(np.float64)
    np.fill_diagonal(apart, 0)
    return apart


def two_racks(cost: str) -> tuple[float, float, float]:
    """Compute the costs of :data:`EXAMPLES` from all orders of eight ranks."""
    priced = Priced(build(parse(cost, ""), 8), Distances(racks([4, 4], 1, 3)))
    costs = priced.values(np.array([*permutations(range(8))]))
    return float(costs.min()), float(costs.max()), priced.value(range(8))


def near_and_far() -> tuple[Order, Order]:
    """Return hosts of :data:`CLOUD` by rank: rank r in rack r div 4, and in rack (r mod 4 + r div 4) mod 4."""
    return _on_cloud(range(HOSTS)), _on_cloud(_ACROSS)


def _on_cloud(order: Sequence[int]) -> Order:
    """Return the hosts of the cloud for hosts that are numbered rack by rank."""
    by_rack = [host for rack in places(network(CLOUD)).groups for host in rack]
    return tuple(by_rack[host] for host in order)


def bound(scheme: str, order: Sequence[int]) -> float:
    """Return the least time (M/B) that the scheme's forest allows with hosts of :data:`CLOUD` in this order."""
    return bound_s(CLOUD, scheme, order) * RATE_BPS / 8


@dataclass(frozen=True)
class Model:
    """A cost model and the scheme that it is for; ``by_bytes`` if a transfer costs its bytes, not its latency."""

    name: str
    cost: str
    scheme: str
    by_bytes: bool = False

    @property
    def priced(self) -> Priced:
        """The model on four racks of four. By latency, a transfer costs 1 within and 3 between racks. By bytes, it
        costs four times as much between racks, whose uplink four hosts share."""
        cost = build(parse(self.cost, ""), HOSTS)
        if self.by_bytes:
            return Priced(cost, Distances(np.zeros((HOSTS, HOSTS)), racks(RACKS, 1, 4)), 1.0)
        return Priced(cost, Distances(racks(RACKS, 1, 3)))


MODELS = (
    Model("ring", "ring", "ring"),
    Model("halving-doubling", "halving_doubling", "halving_doubling"),
    Model("halving-doubling, by bytes", "halving_doubling", "halving_doubling", by_bytes=True),
    Model("BCube", "bcube(base=4)", "bcube(base=4)"),
    Model("double binary tree", "double_binary_tree", "double_binary_tree"),
)


@dataclass(frozen=True)
class Ends:
    """Costs of the best and the worst order that were found, and the least times (M/B) of the scheme in them."""

    costs: tuple[float, float]
    bounds: tuple[float, float]


def ends(model: Model) -> Ends:
    """Anneal the best and the worst order by a cost model, and ask the scheme's forest about them."""
    priced = model.priced
    best = anneal(HOSTS, priced.with_means, 0)
    worst = anneal(HOSTS, lambda orders: -priced.with_means(orders), 0)
    return Ends(
        (priced.value(best), priced.value(worst)),
        (bound(model.scheme, _on_cloud(best)), bound(model.scheme, _on_cloud(worst))),
    )


def lightgbm() -> dict[str, float]:
    """Compute LightGBM's costs as in :data:`LIGHTGBM`."""
    priced = Model("", "lightgbm", "", by_bytes=True).priced
    strided = [4 * (r % 4) + r // 4 for r in range(HOSTS)]
    return dict(zip(LIGHTGBM, map(priced.value, (strided, _ACROSS, range(HOSTS))), strict=True))


def annealed_over_optimum(seed: int) -> float | None:
    """Return an annealed ring's cost over the least one, 16 hosts at random places; None if the least is not proven."""
    at = np.random.default_rng(seed).random((HOSTS, 2))
    apart_s = 1e-3 * np.hypot(*(at[:, None] - at).transpose(2, 0, 1))
    priced = Priced(build(parse("ring", ""), HOSTS), Distances(apart_s))
    annealed = anneal(HOSTS, priced.with_means, seed)
    proof = improve(priced, annealed, MICROSECOND, seed=seed)
    return priced.value(annealed) / priced.value(proof.order or annealed) if proof.proven else None


def of_64_hosts(cost: str) -> Found:
    """Find the best order of 64 hosts in 16 racks, in four rows, from noisy round trips."""
    apart_s = 1e-3 * Cloud(4, 4, 4, 0.1).probed_ms(0)
    return find(Priced(build(parse(cost, ""), 64), Distances.larger(apart_s)), 0)


def costs() -> Table:
    """Compute costs of the best and the worst order of 16 hosts in four racks, and what forests take in them."""
    rows = []
    for model in MODELS:
        found = ends(model)
        pairs = (found.costs, found.bounds, BOUNDS[model.scheme])
        rows.append((model.name, *(text for best, worst in pairs for text in _texts(best, worst))))
    return Table(
        "PHub thesis, section 5.2.1: costs of the best and the worst order of 16 hosts in four racks, and the least "
        "GST of forests in M/B: in these two orders, and of all orders",
        ("", *("cost", "worst", "ratio"), *("GST", "worst", "ratio"), *("all orders", "worst", "ratio")),
        tuple(rows),
        (
            "By latency a transfer costs 1 within and 3 between racks. By bytes it costs 4 times as much between.",
            "Thesis: worst over best is 1.1 to 3.7, and rings gain most (figure 6.16). By bytes, halving-doubling "
            "gains as much. By latency, rounds look alike: of two orders that cost the same, one may send most bytes "
            "between racks.",
        ),
    )


def _texts(best: float, worst: float) -> tuple[str, str, str]:
    return f"{best:.4g}", f"{worst:.4g}", f"{worst / best:.2f}"


TABLES = {"coll.costs": costs}
