"""Parts from which schemes build their trees: chains, trees that correct digits, racks; and the forest over a topology.

Parent arrays here are over the hosts alone, int[C, hosts]; :func:`over` adds the switches, which are in no tree unless
the arrays hold them already.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import SchemeError
from testbed.base.listing import shortened
from testbed.topologies.model import Topology
from testbed.workloads.sync.forest import ABSENT, ROOT, FixedPoint, Forest, Parents

DEFAULT_SLOTS = 0
"""Slots of a switch unless a scheme asks for others; 0 stands for 64 chunks, 8 MiB of a workload's default chunks, or
one for each class if there are more: about the memory that a programmable switch can give (a Tofino has some 20 MB for
all its tables)."""
_SLOTS = 64
DEFAULT_SCALE = 1e6
"""Scale of ATP, which Rina takes over."""


def over(
    topology: Topology,
    reduce: Parents,
    broadcast: Parents | None = None,
    *,
    share: NDArray[np.int64] | None = None,
    workers: Sequence[int] | None = None,
    aligned: bool = False,
    fixed: FixedPoint | None = None,
    window: int = 0,
) -> Forest:
    """Make the forest of these trees; sums go back along the reduce-tree, shares are equal, every host is a worker and
    all add floats unless said otherwise. :func:`testbed.workloads.sync.schemes.build` names it."""
    if fixed is not None:
        fixed = fixed if fixed.slots else replace(fixed, slots=max(_SLOTS, len(reduce)))
        window = fixed.slots // len(reduce)
    up = _with_switches(topology, reduce)
    return Forest(
        scheme="",
        nodes=tuple(node.name for node in topology.nodes),
        workers=tuple(topology.hosts if workers is None else workers),
        share=np.ones(len(reduce), dtype=np.int64) if share is None else share,
        reduce=up,
        broadcast=up if broadcast is None else _with_switches(topology, broadcast),
        aligned=aligned,
        fixed=fixed,
        window=window,
    )


def _with_switches(topology: Topology, parents: Parents) -> Parents:
    trees = np.full((len(parents), len(topology.nodes)), ABSENT, dtype=np.int32)
    trees[:, : parents.shape[1]] = parents
    return trees


def chains(order: Sequence[int]) -> Parents:
    """Make chains, int32[n, n]: row c is the chain along the closed ring ``order`` that ends at c.

    ``order`` holds each of 0 to n - 1 once.
    """
    place = np.array(order, dtype=np.int32)
    parents = np.empty((len(place), len(place)), dtype=np.int32)
    parents[:, place] = np.roll(place, -1)
    np.fill_diagonal(parents, ROOT)
    return parents


def stars(count: int) -> Parents:
    """Make stars, int32[count, count]: in row c, each other number is a child of c."""
    parents = np.repeat(np.arange(count, dtype=np.int32)[:, None], count, axis=1)
    np.fill_diagonal(parents, ROOT)
    return parents


def among(order: Sequence[int], hosts: int) -> Parents:
    """Make :func:`chains` along a closed ring of k of the hosts, int32[k, hosts]; row c ends at the c-th of them by
    number, and the other hosts are absent."""
    members = np.array(sorted(order), dtype=np.int32)
    parents = chains(np.searchsorted(members, order).tolist())
    found = np.full((len(members), hosts), ABSENT, dtype=np.int32)
    found[:, members] = np.where(parents >= 0, members[parents], parents)
    return found


def rings(topology: Topology, orders: Sequence[Sequence[int]]) -> Forest:
    """Make a ring along each order, with equal shares; all orders hold the same hosts, which are the workers. Class r k
    + c is the chain of ring r that ends at the c-th host by number."""
    hosts = topology.host_count
    forward = np.concatenate([among(order, hosts) for order in orders])
    back = np.concatenate([among(order[::-1], hosts) for order in orders])
    return over(topology, forward, back, workers=sorted(orders[0]))


def along(topology: Topology, scheme: str, stride: int, members: Sequence[int] = ()) -> list[int]:
    """Order k members as the 1st, (1+p)-th, (1+2p)-th, ... (mod k), which are all of them if p and k are coprime
    (TopoOpt, Theorem 1). Without ``members``, order all hosts.

    Raises:
        SchemeError: they are not.
    """
    of = members or topology.hosts
    size, whose = len(of), "members of a group" if members else f"hosts of {topology.expression}"
    if math.gcd(stride, size) != 1:
        coprime = [str(p) for p in range(1, size) if math.gcd(p, size) == 1]
        raise SchemeError(
            f"{scheme}: the stride {stride} misses some of the {size} {whose}",
            fix=f"take strides that are coprime to {size}: {shortened(coprime, 8)}",
        )
    return [of[place * stride % size] for place in range(size)]


def digit_trees(radices: Sequence[int], order: Sequence[int] | None = None) -> Parents:
    """Make trees that correct digits, int32[n, n], n the product of ``radices``: in row q, the parent of s has one more
    of q's digits.

    Digit i of a number has the radix ``radices[i]``, the lowest first. The parent of s is s with the first digit that
    differs from q's set to q's, in ``order`` (the lowest first unless given).
    """
    size = math.prod(radices)
    number = np.arange(size, dtype=np.int32)
    parents = np.full((size, size), ROOT, dtype=np.int32)
    # The last digit in the order is written first, so that an earlier one that differs overwrites it.
    for digit in reversed(range(len(radices)) if order is None else order):
        weight = math.prod(radices[:digit])
        value = number // weight % radices[digit]
        correction = ((value[:, None] - value[None, :]) * weight).astype(np.int32)
        np.copyto(parents, number[None, :] + correction, where=correction != 0)
    return parents


def racks(topology: Topology, scheme: str) -> list[list[int]]:
    """List the hosts of each rack, racks by number.

    Raises:
        SchemeError: a host is in no rack.
    """
    found: dict[int, list[int]] = {}
    for host in topology.hosts:
        rack = topology.nodes[host].rack
        if rack is None:
            raise SchemeError(
                f"{scheme} sums by racks, and {topology.nodes[host].name} of {topology.expression} is in no rack",
                fix="use it on spine_leaf, fat_tree or bcube, or take ps or ring here",
            )
        found.setdefault(rack, []).append(host)
    return [found[rack] for rack in sorted(found)]


def partition(topology: Topology, scheme: str, groups: Sequence[Sequence[int | str]]) -> list[list[int]]:
    """Return the hosts of ``groups`` by number, if these hold every host once, by its number or name.

    Raises:
        SchemeError: they do not.
    """
    named = {topology.nodes[host].name: host for host in topology.hosts}
    given = [[named.get(host, host) if isinstance(host, str) else host for host in group] for group in groups]
    members = [host for group in given for host in group]
    missing = sorted(set(topology.hosts) - set(members))
    wrong = {host for host in members if members.count(host) > 1 or host not in topology.hosts}
    if not missing and not wrong and all(given):
        return [[int(host) for host in group] for group in given]
    said = [f"lack {_shown(missing)}"] * bool(missing)
    said += [f"hold {_shown(sorted(wrong, key=lambda host: (isinstance(host, str), host)))} wrongly"] * bool(wrong)
    problem = f"they {' and '.join(said)}" if said else "one is empty"
    raise SchemeError(
        f"{scheme}: its groups must hold each host once, and {problem}",
        fix=f"name every host of 0 to {topology.host_count - 1} in one group",
    )


def _shown(hosts: Sequence[int | str]) -> str:
    return shortened(list(map(str, hosts)), 6)
