"""CoinChangeMod: routes over rings by the difference of two servers' numbers (TopoOpt, section 3.3 and Algorithm 3).

A ring of stride p over all n servers is two *coins*, p and n - p: from server s they lead to s + p and s - p. A route
pays the difference (destination - source) mod n with as few coins as possible. The next coin depends on what is left
to pay alone, so a route's rest is the route of the server that it has reached: servers can forward by destination.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from testbed.topologies.steps import steps_from


def coins_of(servers: int, circuits: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    """Find the coins (GetCoins): each c for which circuits join every server s with s + c (mod n); rising."""
    leads: list[set[int]] = [set() for _ in range(servers)]
    for a, b in circuits:
        leads[a].add((b - a) % servers)
        leads[b].add((a - b) % servers)
    return tuple(sorted(set.intersection(*leads)))


def both_ways(servers: int, strides: Iterable[int]) -> tuple[int, ...]:
    """Return the coins of rings over all servers."""
    return tuple(sorted({coin % servers for stride in strides for coin in (stride, -stride)}))


def fewest(servers: int, coins: Sequence[int]) -> list[int]:
    """Compute for each difference 0 to n - 1 the least number of coins that pays it; -1 where none do.

    The algorithm improves all differences in rounds; this goes on from those that were improved last.
    """
    found = steps_from([0], lambda here: [(here + coin) % servers for coin in coins])
    return [found.get(difference, -1) for difference in range(servers)]


def first_coins(servers: int, coins: Sequence[int]) -> list[int]:
    """Return for each difference the coin to pay first: the smallest after which one fewer is left. 0 for 0 and where
    none pay."""
    count = fewest(servers, coins)
    return [
        next((coin for coin in sorted(coins) if count[(difference - coin) % servers] == count[difference] - 1), 0)
        if count[difference] > 0
        else 0
        for difference in range(servers)
    ]
