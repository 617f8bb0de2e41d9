"""2LHA, two-level hierarchical aggregation: local masters in groups, a global master among them, for each chunk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import SchemeError, TopologyError
from testbed.topologies.call import Call, Value
from testbed.topologies.cloud import places
from testbed.topologies.model import Topology
from testbed.topologies.parameters import Hosts
from testbed.workloads.finding import Finding
from testbed.workloads.kinds.tuned.plan import Tuned
from testbed.workloads.locality.probe_embed import Grouping, balanced_random, by_number, decide, require
from testbed.workloads.sync.forest import ROOT, Forest, Parents
from testbed.workloads.sync.trees import over, partition, racks

MOST_CLASSES = 2**16
"""Limit on the classes: chunks of 64 KiB of 4 GiB."""
_WINDOW = 16
"""Chunks of a class that a worker has on the way, where groups have equal sizes. Without a limit, a host's sums wait in
its connections behind all of its own gradient, and at the end links have nothing to carry: on equal racks of a cloud
synchronisations took 1 to 4 % more than their bound, and with this window 1 to 2 %. With groups of 7, 5, 3 and 1 it
makes them longer: 5 % more in place of 1 %."""
_USED = {"probed": set(Grouping.__dataclass_fields__) - {"draw"}, "random": {"k", "draw"}}
"""Settings of a grouping that groups are found by."""


def two_level(
    topology: Topology,
    tensor_sizes: Sequence[int],
    *,
    groups: Literal["probed", "random", "truth"] | Hosts = (),
    probe: Literal["latency", "bandwidth"] = "latency",
    k: int = 0,
    alpha: float = 1.0,
    elasticity: float = 1.5,
    dimensions: int = 2,
    startup: bool = False,
    classes: int = 0,
    draw: int = 1,
    tune: bool = False,
) -> Forest:
    """2LHA: each class has a global master (GM), and a local master (LM) in each group.

    Members of a group send to their LM, LMs to the GM, which is the LM of its own group, and the sum comes back the
    same way. The gradient has ``classes`` equal parts, by default one for each host, with the GM of class c at host c.
    Groups have GMs in proportion to their sizes, and all hosts of a group are LM equally often, within one class
    (largest remainder). AggEngine's chunks are had with ``chunk: 64 KiB`` in the workload.

    ``groups`` are hosts by number or name, ``two_level(groups=[[0,1],[h2,h3,h4]])``; the racks unless given. One group
    of all hosts is the thesis's flat aggregation. ``random`` makes ``k`` groups by chance, of sizes that differ by one
    at most, with the seed ``draw``; ``truth`` takes the racks that a cloud hides. ``probed`` is for groups that are
    found in a trial, by hosts' distances: ``probe`` says which, ``alpha``, ``dimensions`` and ``startup`` (a fixed part
    of each host's distances) embed them in a space, and the smallest of ``k`` groups has n / (k ``elasticity``) of the
    n hosts. ``k`` is the root of n unless given. Until then, equal groups of hosts by number stand for them.

    With ``tune`` masters move while a training runs, by what workers tell of it.

    Source: PHub thesis sections 4.1.2, 4.2.1 and 4.2.2 (Parameter Link).
    """
    settings = Grouping(probe, k, alpha, elasticity, dimensions, startup, draw)
    settings.count(topology.host_count)
    for name, default in vars(Grouping()).items():
        users = [f"groups={way}" for way, used in _USED.items() if name in used]
        asked = f"groups={groups if isinstance(groups, str) else '[[..]]'}" if groups else "racks"
        if getattr(settings, name) != default and asked not in users:
            raise SchemeError(
                f"two_level: {name} means nothing for {asked}", fix=f"leave {name} out, or take {' or '.join(users)}"
            )
    if not 0 <= classes <= MOST_CLASSES:
        raise SchemeError(
            f"two_level: classes is {classes:,}", fix=f"give it 0, for one a host, or at most {MOST_CLASSES:,}"
        )
    members = _members(topology, groups, settings)
    trees = hierarchy(members, *masters(members, classes or topology.host_count))
    forest = over(topology, trees, window=_WINDOW if len(set(map(len, members))) == 1 else 0)
    return replace(forest, run_by=Tuned(tuple(map(tuple, members)))) if tune else forest


def _members(topology: Topology, groups: str | Hosts, settings: Grouping) -> list[list[int]]:
    """
    Raises:
        SchemeError: there are no such groups of the hosts.
        MissingToolError: groups are to be found with a package that is not installed.
    """
    hosts = topology.host_count
    if groups == "random":
        return balanced_random(hosts, settings.count(hosts), settings.draw)
    if groups == "probed":
        require()
        return by_number(hosts, settings.count(hosts))
    if groups == "truth":
        try:
            return [list(rack) for rack in places(topology).groups]
        except TopologyError as error:
            raise SchemeError(
                f"two_level(groups=truth): {error.problem}", fix="take cloud(..), or groups=probed"
            ) from None
    assert not isinstance(groups, str), "the parameter's type allows no other word"
    return partition(topology, "two_level", groups) if groups else racks(topology, "two_level")


def masters(
    groups: Sequence[Sequence[int]],
    classes: int,
    group_weights: Sequence[int] = (),
    host_weights: Sequence[int] = (),
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Assign masters: int32[classes], the GM of each class, and int32[groups, classes], its LM in each group.

    Groups have GMs in proportion to their weights, which are their sizes unless given; hosts of a group are GM, and LM,
    in proportion to theirs, by number, which are equal unless given.
    """
    local: list[NDArray[np.int32]] = []
    count: dict[int, int] = {}
    shares = apportioned(classes, group_weights or [len(group) for group in groups])
    for group, roots in zip(groups, shares, strict=True):
        weights = [host_weights[host] for host in group] if host_weights else [1] * len(group)
        of_all, of_own = (apportioned(total, weights) for total in (classes, roots))
        count |= dict(zip(group, of_own, strict=True))
        local.append(_turns(group, _less(of_all, of_own)))
    hosts = sorted(count)
    gm = _turns(hosts, [count[host] for host in hosts])
    lm = np.tile(gm, (len(groups), 1))
    for row, group, others in zip(lm, groups, local, strict=True):
        row[~np.isin(gm, group)] = others
    return gm, lm


def _less(counts: Sequence[int], own: Sequence[int]) -> list[int]:
    """Subtract counts; where one has more than it should by the rounding of both, others have less instead."""
    left = [max(0, count - less) for count, less in zip(counts, own, strict=True)]
    for _ in range(sum(left) - (sum(counts) - sum(own))):
        left[left.index(max(left))] -= 1
    return left


def apportioned(total: int, weights: Sequence[int]) -> list[int]:
    """Divide ``total`` in proportion to weights by the method of the largest remainder; the first of equal ones gets
    more."""
    whole = sum(weights)
    parts = [total * weight // whole for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda place: (-(total * weights[place] % whole), place))
    for place in by_remainder[: total - sum(parts)]:
        parts[place] += 1
    return parts


def _turns(hosts: Sequence[int], counts: Sequence[int]) -> NDArray[np.int32]:
    """Name each host as often as its count says, in turn."""
    turns = [(turn, place) for place, count in enumerate(counts) for turn in range(count)]
    return np.array([hosts[place] for _, place in sorted(turns)], dtype=np.int32)


def hierarchy(groups: Sequence[Sequence[int]], gm: NDArray[np.int32], lm: NDArray[np.int32]) -> Parents:
    """Make the trees of masters as :func:`masters` assigns them: int32[classes, hosts]."""
    rows = np.arange(len(gm))
    trees = np.empty((len(gm), sum(map(len, groups))), dtype=np.int32)
    for group, local in zip(groups, lm, strict=True):
        trees[:, list(group)] = local[:, None]
        trees[rows, local] = gm
    trees[rows, gm] = ROOT
    return trees


def decides(**parameters: Value) -> Finding | None:
    """Leave probed groups to be found, by the hosts' distances.

    Each host's are those to all hosts, in the order of the names that measured.
    """
    if parameters.get("groups") != "probed":
        return None

    def chosen(names: Sequence[str], measured: Mapping[str, Sequence[float | None]], seed: int) -> Mapping[str, str]:
        at = [list(measured).index(name) for name in names]
        distances = np.array([measured[name] for name in names], dtype=np.float64)[:, at]
        return {"scheme": str(Call("two_level", decide(names, distances, parameters, seed)))}

    return Finding(str(parameters.get("probe", "latency")), chosen, "a plan with equal groups of hosts by number")
