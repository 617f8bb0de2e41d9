"""Cost models of collectives: what an order of hosts costs, given what a transfer between any two costs.

PHub thesis, section 5.2.1. A cost adds up transfers between pairs of ranks, each of a share of the S bytes that are
reduced. It is a sum over rounds, each as dear as its dearest transfer, or the cost of the dearest way through a tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import SpecError
from testbed.topologies.call import Call
from testbed.topologies.parameters import bind, did_you_mean, parameters_of
from testbed.workloads.sync.forest import Forest

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Transfer = tuple[int, int, float]
"""Two ranks, and the share of S that goes between them."""


@dataclass(frozen=True, eq=False)
class Cost:
    """Cost of a collective among n ranks.

    Attributes:
        ranks: n.
        pairs: int[E, 2], the ranks of each transfer.
        share: float64[E], its part of S.
        groups: int[G, K], transfers of each round or way; -1 where it has fewer than K.
        of_rounds: whether groups are rounds: the cost is then the sum of their dearest transfers. Otherwise they are
            ways, and the cost is that of the dearest way.
        any_first: whether, for each host, some order of least cost has it at rank 0.
    """

    ranks: int
    pairs: Ints
    share: Floats
    groups: Ints
    of_rounds: bool = True
    any_first: bool = True


@dataclass(frozen=True, eq=False)
class Distances:
    """Cost of a transfer of S bytes between hosts: ``fixed + S x per_byte``, each float64[n, n] and symmetric."""

    fixed: Floats
    per_byte: Floats | None = None

    @classmethod
    def larger(cls, fixed: Floats, per_byte: Floats | None = None) -> Distances:
        """Take the larger of a pair's two directions."""
        return cls(*(None if table is None else np.maximum(table, table.T) for table in (fixed, per_byte)))  # type: ignore[arg-type]

    def of(self, size_bytes: float) -> Floats:
        """Compute what transfers of a size cost, float64[n, n]."""
        return self.fixed if self.per_byte is None else self.fixed + size_bytes * self.per_byte


class Priced:
    """A cost model with distances between hosts, which gives costs to orders. An order is int[n], hosts by rank."""

    def __init__(self, cost: Cost, distances: Distances, size_bytes: float = 0.0) -> None:
        self.cost, self.hosts = cost, cost.ranks
        shares, which = np.unique(cost.share, return_inverse=True)
        if distances.per_byte is None:
            shares, which = shares[:1], np.zeros_like(which)
        self.tables = np.stack([distances.of(share * size_bytes) for share in shares])
        self.table_of: Ints = which.astype(np.int64)
        self._first, self._second = cost.pairs.T
        self._offsets = self.table_of * self.hosts**2
        self._flat = self.tables.ravel()
        self._weights = 1 / (cost.groups >= 0).sum(axis=1)

    def values(self, orders: Ints) -> Floats:
        """Compute the costs of orders: int[k, n] to float64[k]."""
        costs: Floats = self.with_means(orders)[0]
        return costs

    def with_means(self, orders: Ints) -> Floats:
        """Compute float64[2, k]: the costs of orders, int[k, n]; and what they would be if a round, or the dearest way,
        cost the mean of its transfers, or of all ways. That is 0 for a ring, whose rounds have one transfer each."""
        each = self._flat[orders[:, self._first] * self.hosts + orders[:, self._second] + self._offsets]
        if self.cost.groups.shape[1] == 1:
            return np.array([each.sum(axis=1), np.zeros(len(orders))])
        each = np.concatenate([each, np.zeros((len(orders), 1))], axis=1)[:, self.cost.groups]  # -1 is this 0
        sums = each.sum(axis=2)
        if self.cost.of_rounds:
            return np.array([each.max(axis=2).sum(axis=1), sums @ self._weights])
        return np.array([sums.max(axis=1), sums.mean(axis=1)])

    def value(self, order: Sequence[int]) -> float:
        """Compute the cost of an order."""
        return float(self.values(np.array([order]))[0])


def ring(ranks: int) -> Cost:
    """C_r: each hop of the ring, one after another."""
    return _cost(ranks, [[(rank, (rank - 1) % ranks, 1.0)] for rank in range(ranks)])


def halving_doubling(ranks: int) -> Cost:
    """C_hd: half of the data to the neighbour, a quarter at distance 2, and so on.

    The thesis pairs j and j + 2^i for j < N/2, some of which do not exchange data. Rank j exchanges with j xor 2^i.
    """
    return _exchanges(ranks, "halving_doubling", range(ranks.bit_length() - 1))


def lightgbm(ranks: int) -> Cost:
    """C_lightgbm: as C_hd, but half of the data goes at distance N/2, and the least to the neighbour.

    Source: LightGBM, src/network/network.cpp and linkers_topo.cpp (recursive halving).
    """
    return _exchanges(ranks, "lightgbm", range(ranks.bit_length() - 1)[::-1])


def _exchanges(ranks: int, name: str, bits: Sequence[int]) -> Cost:
    """Return the cost of rounds in which ranks that differ in one bit exchange half as much as in the round before.

    Raises:
        SpecError: the number of ranks is no power of two.
    """
    if ranks & (ranks - 1):
        raise SpecError(
            f"cost {name} is for a power of two, and here are {ranks} hosts",
            fix=f"take cost=ring, or {1 << ranks.bit_length() - 1} hosts",
        )
    rounds = [
        [(rank, rank ^ 1 << bit, 2.0**-number) for rank in range(ranks) if rank < rank ^ 1 << bit]
        for number, bit in enumerate(bits, 1)
    ]
    return _cost(ranks, rounds)


def bcube(ranks: int, *, base: int = 2) -> Cost:
    """C_b: ranks that differ in one digit to this base exchange, digit by digit from the lowest.

    If N is no power of the base, the last digit has the remaining factor (8 with base 4 is 4 x 2), and there are no
    ranks from N on. The thesis counts k up to B; a rank has B - 1 peers.

    Raises:
        SpecError: the base is below 2.
    """
    if base < 2:
        raise SpecError(f"cost bcube: base is {base}", fix="give base 2 or more")
    rounds, apart = [], 1
    while apart < ranks:
        radix = min(base, -(-ranks // apart))
        group = [range(at, min(ranks, at + radix * apart), apart) for at in range(ranks) if at // apart % radix == 0]
        rounds.append([(a, b, 1 / (apart * radix)) for peers in group for a, b in combinations(peers, 2)])
        apart *= radix
    return _cost(ranks, rounds, any_first=apart == ranks)


def double_binary_tree(ranks: int) -> Cost:
    """C_dbt: the dearest way from the root of a balanced tree to a leaf, and of the same tree over ranks less one.

    A range of ranks has its middle as root, and the roots of its halves are its children; half of the data goes along
    each tree. The thesis's children, (3i + j)/2 - 1 and (i + 3j)/2 + 1, are outside of the range for N = 8.
    """
    ways = [*_ways(0, ranks - 1)]
    less = [[((a - 1) % ranks, (b - 1) % ranks, share) for a, b, share in way] for way in ways]
    return _cost(ranks, ways + less, of_rounds=False, any_first=False)


def _ways(i: int, j: int) -> Iterator[list[Transfer]]:
    """Yield the ways from the root of ranks i to j to each leaf below it."""
    middle = (i + j) // 2
    if i >= j:
        yield []
        return
    for low, high in ((i, middle - 1), (middle + 1, j)):
        if low <= high:
            yield from ([(middle, (low + high) // 2, 0.5), *way] for way in _ways(low, high))


def _cost(ranks: int, groups: Sequence[Sequence[Transfer]], *, of_rounds: bool = True, any_first: bool = True) -> Cost:
    transfers = {transfer: number for number, transfer in enumerate(dict.fromkeys(t for g in groups for t in g))}
    table = np.full((len(groups), max(map(len, groups))), -1)
    for row, group in zip(table, groups, strict=True):
        row[: len(group)] = [transfers[transfer] for transfer in group]
    pairs = np.array([(a, b) for a, b, _ in transfers], dtype=np.int64)
    return Cost(ranks, pairs, np.array([share for *_, share in transfers]), table, of_rounds, any_first)


def longest_way(forest: Forest, distances: Distances, order: Sequence[int], size_bytes: float = 0.0) -> float:
    """Return the cost of the dearest way of a class, from a leaf up to the root and down to a leaf.

    Args:
        forest: its nodes are hosts, and rank r is node ``order[r]`` of ``distances``.
    """
    dearest = 0.0
    for number, share in enumerate((forest.share / forest.share.sum()).tolist()):
        price = distances.of(share * size_bytes)
        up_and_down = 0.0
        for parents in (forest.reduce[number].tolist(), forest.broadcast[number].tolist()):
            ways = [0.0] * len(order)
            for rank in range(len(order)):
                at = rank
                while parents[at] >= 0:
                    ways[rank] += float(price[order[at], order[parents[at]]])
                    at = parents[at]
            up_and_down += max(ways)
        dearest = max(dearest, up_and_down)
    return dearest


COSTS: dict[str, Callable[..., Cost]] = {
    each.__name__: each for each in (ring, halving_doubling, double_binary_tree, bcube, lightgbm)
}


def build(asked: Call, ranks: int) -> Cost:
    """Build the cost that an expression such as ``bcube(base=4)`` means.

    Raises:
        SpecError: there is no such cost, or it is not for so many ranks.
    """
    if asked.name not in COSTS:
        problem = f"there is no cost {asked.name!r}{did_you_mean(asked.name, COSTS)}"
        raise SpecError(problem, fix=f"use {', '.join([*COSTS][:-1])} or {[*COSTS][-1]}")
    if ranks < 2:
        raise SpecError("an order of one host", fix="give two hosts or more")
    function = COSTS[asked.name]
    return function(ranks, **bind(f"cost {asked.name}", parameters_of(function, 1), asked.arguments, SpecError))
