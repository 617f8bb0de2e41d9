"""Jobs for the tests of TopologyFinder: random ones, and matrices written as pairs."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from testbed.topologies.topoopt.demand import Demand, Group, demand


def matrix(servers: int, pairs: dict[str, int]) -> NDArray[np.int64]:
    """``{"01": 10}``: server 0 sends 10 B to server 1."""
    found = np.zeros((servers, servers), dtype=np.int64)
    for (i, j), size in pairs.items():
        found[int(i), int(j)] = size
    return found


@st.composite
def matrices(draw: st.DrawFn, servers: int, largest: int = 50) -> NDArray[np.int64]:
    """By a generator of NumPy's: to draw each of a hundred numbers takes as long as to test them."""
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    found = random.integers(0, largest, (servers, servers), endpoint=True)
    found[random.random((servers, servers)) > draw(st.sampled_from([0.05, 0.3, 1.0]))] = 0
    np.fill_diagonal(found, 0)
    return found


@st.composite
def jobs(draw: st.DrawFn, most: int = 13) -> Demand:
    servers = draw(st.integers(2, most))
    members = st.sets(st.integers(0, servers - 1), min_size=2).map(lambda one: tuple(sorted(one)))
    groups = draw(st.lists(members, max_size=4, unique=True))
    given = [Group(one, draw(st.integers(1, 2000))) for one in groups]
    mp = draw(matrices(servers))
    if not given and not mp.any():
        mp[0, 1] = 1
    return demand(servers, given, mp)
