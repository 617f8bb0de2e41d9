"""TotientPerms: permutations that pass all members, and the rings that they are."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from testbed.topologies.topoopt.totient import order, rings, totient_perms


def test_the_papers_twelve_servers_have_four_permutations_and_two_rings() -> None:
    assert totient_perms(12) == [1, 5, 7, 11]
    assert rings(12) == [1, 5]


def test_fifteen_servers() -> None:
    assert totient_perms(15) == [1, 2, 4, 7, 8, 11, 13, 14]
    assert rings(15) == [1, 2, 4, 7]


def test_only_primes_from_1024_members_on() -> None:
    assert totient_perms(1023)[:4] == [1, 2, 4, 5]
    assert totient_perms(1024)[:5] == [3, 5, 7, 11, 13]
    assert totient_perms(1026)[:4] == [5, 7, 11, 13]
    assert len(totient_perms(1024)) == 171  # the 172 primes below 1,024 without 2
    assert rings(1024)[0] == 3


@given(st.sets(st.integers(0, 99), min_size=2, max_size=30))
def test_each_permutation_passes_each_member_once_and_p_is_the_reverse_of_k_minus_p(chosen: set[int]) -> None:
    members = sorted(chosen)
    for p in totient_perms(len(members)):
        passed = order(members, p)
        assert sorted(passed) == members
        back = order(members, len(members) - p)
        assert back == (passed[0], *passed[:0:-1])
    assert len(rings(len(members))) == max(1, sum(math.gcd(p, len(members)) == 1 for p in range(1, len(members))) // 2)
