"""Rings of a group as permutations, and routes over them (TopoOpt, section 3.3).

TotientPerms (Algorithm 2): permutation p of members m_0 ... m_(k-1) is m_0, m_p, m_2p, ... with places modulo k; it
passes all members if p and k are coprime (Theorem 1). The pseudocode's ``i + j p`` leaves the group where that is not
all servers. Circuits are full duplex, so p and k - p are the two directions of one *ring*, which is named by the
smaller of the two.

CoinChangeMod (Algorithm 3): a ring of stride p over all n servers is two *coins*, p and n - p: from server s they lead
to s + p and s - p. A route pays the difference (destination - source) mod n with as few coins as possible. The next
coin depends on what is left to pay alone, so a route's rest is the route of the server that it has reached: servers can
forward by destination.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from testbed.topologies.shortest import steps_from

PRIMES_ONLY_FROM = 1024
"""Number of members from which on p is prime: section 3.3 does so "where n is extremely large", and gives no number."""


def totient_perms(members: int) -> list[int]:
    """List the strides p of all permutations of as many members, rising."""
    strides = [p for p in range(1, members) if math.gcd(p, members) == 1]
    return strides if members < PRIMES_ONLY_FROM else [p for p in strides if _is_prime(p)]


def rings(members: int) -> list[int]:
    """List the strides of all rings, rising: one for each pair of permutations p and k - p."""
    return sorted({min(p, members - p) for p in totient_perms(members)})


def order(members: Sequence[int], stride: int) -> tuple[int, ...]:
    """Return the members as a permutation passes them, the first of them first."""
    return tuple(members[place * stride % len(members)] for place in range(len(members)))


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, math.isqrt(number) + 1))


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
    """Compute for each difference 0 to n - 1 the least number of coins that pays it; -1 where none do."""
    found = steps_from([0], lambda here: [(here + coin) % servers for coin in coins])
    return [found.get(difference, -1) for difference in range(servers)]


def first_coins(servers: int, coins: Sequence[int]) -> list[int]:
    """Return for each difference the smallest coin after which one fewer is left; 0 for 0 and where none pay."""
    count = fewest(servers, coins)
    return [
        next((coin for coin in sorted(coins) if count[(difference - coin) % servers] == count[difference] - 1), 0)
        if count[difference] > 0
        else 0
        for difference in range(servers)
    ]
