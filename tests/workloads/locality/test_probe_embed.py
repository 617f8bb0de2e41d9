"""Decisions: racks are found, names and numbers of hosts do not matter, and settings out of bounds are refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from testbed.base.errors import SchemeError
from testbed.workloads.locality.probe_embed import decide

NAMES = [f"h{host}" for host in range(16)]
RACK = np.arange(16) * 7 % 16 // 4
"""Racks of four, whose hosts have no neighbouring numbers."""


def probed(seed: int = 0) -> np.ndarray:
    """Round trips (ms) on four racks, with noise."""
    noise = np.random.default_rng(seed).exponential(0.1, (16, 16))
    base = np.where(RACK[:, None] == RACK[None], 0.15, 2.15)
    result: np.ndarray = base + np.maximum(noise, noise.T)
    np.fill_diagonal(result, 0)
    return result


def sets(groups: Any) -> set[frozenset[str]]:
    return {frozenset(group) for group in groups}


def racks(names: Sequence[str]) -> set[frozenset[str]]:
    return {frozenset(names[host] for host in np.flatnonzero(rack == RACK)) for rack in range(4)}


def test_groups_are_racks() -> None:
    result = decide(NAMES, probed(), {"groups": "probed", "classes": 64, "alpha": 2.0}, 1)
    assert sets(result["groups"]) == racks(NAMES)
    assert {name: value for name, value in result.items() if name != "groups"} == {"classes": 64}


def test_a_missing_pair_is_left_out() -> None:
    distances = probed()
    distances[3, 8] = distances[8, 3] = np.nan
    assert sets(decide(NAMES, distances, {}, 1)["groups"]) == racks(NAMES)


@pytest.mark.parametrize("seed", range(4))
def test_renamed_hosts_are_in_the_same_groups_renamed(seed: int) -> None:
    """Whether hosts have other names, or other numbers: also where noise hides the racks."""
    random = np.random.default_rng(seed)
    distances = random.random((11, 11)) + 0.1
    distances += distances.T
    np.fill_diagonal(distances, 0)
    names = [f"host-{letter}" for letter in "kjihgfedcba"]
    first = decide(names, distances, {"k": 3}, seed)["groups"]
    others = [f"vm{number}" for number in random.permutation(11)]
    renamed = decide(others, distances, {"k": 3}, seed)["groups"]
    to = dict(zip(names, others, strict=True))
    assert renamed == tuple(tuple(to[name] for name in group) for group in first)  # type: ignore[union-attr]
    order = random.permutation(11)
    moved = decide([names[host] for host in order], distances[np.ix_(order, order)], {"k": 3}, seed)["groups"]
    assert sets(moved) == sets(first)


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"alpha": 3.0}, "two_level: alpha is 3\n  fix: give it 1, for distances as probed, to 2"),
        ({"elasticity": 0.5}, "two_level: elasticity is 0.5\n  fix: give it 1, for groups of one size, to 2"),
        ({"dimensions": 0}, "two_level: dimensions is 0\n  fix: give it 1 to 16"),
        ({"k": 20}, "two_level has 20 groups for 16 hosts\n  fix: give k 2 to 8, or leave it out for 4"),
        ({"k": 1}, "two_level has 1 group for 16 hosts\n  fix: give k 2 to 8, or leave it out for 4"),
    ],
)
def test_texts(parameters: dict[str, Any], text: str) -> None:
    with pytest.raises(SchemeError) as caught:
        decide(NAMES, probed(), parameters, 0)
    assert str(caught.value) == text
