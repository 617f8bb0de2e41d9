"""Circuits for MP transfers: a maximum-weight matching a panel (TopoOpt, Algorithm 1, lines 13 to 18).

A circuit is full duplex, so a pair weighs what its two servers send to each other, T_MP[i, j] + T_MP[j, i]. The weight
is halved for each circuit that joins the pair already, those of rings included: section 3.3 halves it "for pairs that
already have an edge between them". Halves stay exact: all weights are multiplied by a power of two first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from testbed.topologies.panels import Matching


def mp_circuits(
    mp_bytes: NDArray[np.int64], joined: Mapping[tuple[int, int], int], free: Sequence[Collection[int]]
) -> list[Matching]:
    """Choose for each panel the circuits that carry most of T_MP; a port that finds no partner stays dark.

    Args:
        joined: by pair, the lower server first, the circuits that are there before.
        free: by panel, the servers whose ports there are dark.
    """
    weights = {
        (i, j): int(mp_bytes[i, j] + mp_bytes[j, i]) for i, j in np.argwhere(mp_bytes + mp_bytes.T).tolist() if i < j
    }
    count = Counter(joined)
    most = max(count.values(), default=0) + len(free)
    found = []
    for servers in free:
        ports = set(servers)
        scaled = {pair: w << (most - count[pair]) for pair, w in weights.items() if ports.issuperset(pair)}
        found.append(heaviest(scaled))
        count.update(found[-1])
    return found


def heaviest(weights: Mapping[tuple[int, int], int]) -> Matching:
    """Find a matching of maximum weight (Edmonds' blossom algorithm), exact for whole numbers."""
    import networkx as nx  # here, for every command imports this module, and it takes a tenth of a second

    graph = nx.Graph()
    graph.add_weighted_edges_from((i, j, weight) for (i, j), weight in weights.items())
    return tuple(sorted((min(pair), max(pair)) for pair in nx.max_weight_matching(graph)))
