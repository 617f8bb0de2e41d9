"""Rounds in which all pairs of hosts probe each other, no host twice in a round (PHub thesis, section 4.2.1)."""

from __future__ import annotations

Pair = tuple[int, int]
"""Two hosts, the lower number first."""


def rounds(hosts: int) -> list[list[Pair]]:
    """List the pairs of each round: every pair of ``hosts`` hosts once, in as few rounds as there can be.

    The circle method: one host stays, the others move on by one place from round to round, and hosts at opposite places
    meet. There are n - 1 rounds of n / 2 pairs; for odd n, n rounds, in each of which another host rests.
    """
    around = hosts - 1 + hosts % 2  # for odd n, a host that is not there stays
    if around < 1:
        return []
    schedule = []
    for turn in range(around):
        met = [(turn, around)] * (around < hosts)
        met += [((turn + step) % around, (turn - step) % around) for step in range(1, (around + 1) // 2)]
        schedule.append(sorted((min(pair), max(pair)) for pair in met))
    return schedule
