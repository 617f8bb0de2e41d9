"""TotientPerms: the regular ring permutations of a group (TopoOpt, section 3.3 and Algorithm 2).

Permutation p of members m_0 ... m_(k-1) is m_0, m_p, m_2p, ... with places modulo k; it passes all members if p and k
are coprime (Theorem 1). The pseudocode's ``i + j p`` leaves the group where that is not all servers. Circuits are full
duplex, so p and k - p are the two directions of one *ring*, which is named by the smaller of the two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

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
