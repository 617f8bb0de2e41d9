"""Masters of 2LHA: in proportion to groups and members, as few messages as the thesis says, and bounds against brute
force."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.base.errors import SchemeError
from testbed.topologies.build import build as build_topology
from testbed.topologies.call import as_text
from testbed.topologies.cloud import places
from testbed.topologies.model import Topology
from testbed.workloads.sync.cost import cost
from testbed.workloads.sync.forest import ROOT, Forest
from testbed.workloads.sync.schemes import build, finding
from testbed.workloads.sync.schemes.two_level import apportioned, masters
from testbed.workloads.sync.verify import verify

Build = Callable[..., Topology]
Groups = Sequence[Sequence[int]]


def runs(sizes: Sequence[int]) -> list[list[int]]:
    """Groups of these sizes, of neighbouring hosts."""
    ends = np.cumsum(sizes).tolist()
    return [list(range(end - size, end)) for size, end in zip(sizes, ends, strict=True)]


def two_level(groups: Groups, classes: int = 0) -> tuple[Forest, Topology]:
    net = build_topology(f"star(hosts={sum(map(len, groups))})", rate_bps=8)
    text = as_text(tuple(map(tuple, groups)))
    forest = build(f"two_level(groups={text},classes={classes})", net, [])
    verify(forest, net)
    return forest, net


def partitions(most: int) -> st.SearchStrategy[list[list[int]]]:
    """Groups of up to ``most`` hosts, in any order."""

    def divided(drawn: tuple[list[int], list[int]]) -> list[list[int]]:
        order, of = drawn
        return [[host for host in order if of[host] == group] for group in sorted(set(of))]

    sizes = st.integers(1, most)
    return sizes.flatmap(
        lambda n: st.tuples(st.permutations(range(n)), st.lists(st.integers(0, 4), min_size=n, max_size=n))
    ).map(divided)


@given(partitions(12))
def test_by_default_class_c_has_its_global_master_at_host_c(groups: list[list[int]]) -> None:
    """As before there were other numbers of classes, written down once more: LMs take turns over others' classes."""
    forest, _ = two_level(groups)
    count = len(forest.workers)
    expected = np.empty((count, count), dtype=np.int32)
    for group in groups:
        lm = np.arange(count)
        elsewhere = np.setdiff1d(lm, group)
        lm[elsewhere] = np.array(group)[np.arange(len(elsewhere)) % len(group)]
        expected[:, group] = lm[:, None]
        expected[np.arange(count), lm] = np.arange(count)
    np.fill_diagonal(expected, ROOT)
    assert np.array_equal(forest.reduce[:, :count], expected)


@given(partitions(12), st.integers(1, 60))
def test_masters_are_in_proportion(groups: list[list[int]], classes: int) -> None:
    """The GM of a class is an LM, each group has one LM of it, and all counts are within one of their shares."""
    gm, lm = masters(groups, classes)
    hosts = sum(map(len, groups))
    for group, local in zip(groups, lm, strict=True):
        assert set(local.tolist()) <= set(group)
        own = np.isin(gm, group)
        assert np.array_equal(local[own], gm[own])
        assert abs(own.sum() - classes * len(group) / hosts) < 1
        for named in (gm[own], local):
            times = [np.count_nonzero(named == host) for host in group]
            assert max(times) - min(times) <= 1


@pytest.mark.parametrize(
    ("total", "weights", "parts"),
    [(16, [7, 5, 3, 1], [7, 5, 3, 1]), (10, [7, 5, 3, 1], [4, 3, 2, 1]), (5, [1, 1], [3, 2]), (1, [1, 2], [0, 1])],
)
def test_the_largest_remainders_get_more(total: int, weights: list[int], parts: list[int]) -> None:
    """Of 10, shares are 4.375, 3.125, 1.875 and 0.625: the last two get the two that are left."""
    assert apportioned(total, weights) == parts


@pytest.mark.parametrize(("k", "messages"), [(4, 18), (8, 14), (16, 18)])
def test_a_global_master_of_64_hosts_gets_least_from_eight_groups(k: int, messages: int) -> None:
    """Equation 4.2: n / k - 1 of its group, and k - 1 of other groups."""
    forest, _ = two_level(runs([64 // k] * k))
    roots = np.argmax(forest.reduce == ROOT, axis=1)
    assert set((forest.reduce == roots[:, None]).sum(axis=1).tolist()) == {messages}


def test_one_group_of_all_is_flat_aggregation() -> None:
    forest, net = two_level([range(6)])
    flat = build("ps", net, [])
    assert np.array_equal(forest.reduce, flat.reduce)
    assert cost(forest, net, 1.0).rounds == 2


def busiest(groups: Groups, gm: Sequence[int], lm: Sequence[Sequence[int]]) -> float:
    """Messages that the busiest host sends or receives, over the number of classes: seconds at a gradient a second."""
    sent: dict[int, int] = dict.fromkeys((host for group in groups for host in group), 0)
    got = dict(sent)
    for number, root in enumerate(gm):
        for group, local in zip(groups, lm, strict=True):
            for src, dst in [*((host, local[number]) for host in group), (local[number], root)]:
                if src != dst:  # up, and down again
                    for end in (sent, got):
                        end[src] += 1
                        end[dst] += 1
    return max(*sent.values(), *got.values()) / len(gm)


@pytest.mark.parametrize(("classes", "seconds"), [(16, 2.25), (64, 2.0625), (10, 2.4)])
def test_bounds_of_groups_of_7_5_3_and_1(classes: int, seconds: float) -> None:
    """The only host of a group of one is LM of all classes, so with 64 it still sends its part 64 + 2 * 34 times."""
    groups = runs([7, 5, 3, 1])
    forest, net = two_level(groups, classes)
    gm, lm = masters(groups, classes)
    assert cost(forest, net, 1.0).bound_s() == pytest.approx(seconds)
    assert busiest(groups, gm.tolist(), lm.tolist()) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("groups", "classes"),
    [([[0, 1, 2], [3]], 4), ([[0, 1], [2, 3]], 4), ([[0, 1, 2], [3]], 3), ([[0, 1, 2], [3, 4]], 3)],
)
def test_no_other_masters_have_a_smaller_bound(groups: Groups, classes: int) -> None:
    """All choices of masters for all classes, where hosts have links of one rate."""
    hosts = [host for group in groups for host in group]
    one_class = [
        (root, local) for root in hosts for local in product(*[[root] if root in group else group for group in groups])
    ]
    least = min(
        busiest(groups, [root for root, _ in chosen], list(zip(*[local for _, local in chosen], strict=True)))
        for chosen in combinations_with_replacement(one_class, classes)
    )
    forest, net = two_level(groups, classes)
    assert cost(forest, net, 1.0).bound_s() == pytest.approx(least)


def test_groups_by_name(topology: Build) -> None:
    """Names and numbers may stand beside each other."""
    net = topology("star(hosts=5)")
    named = build("two_level(groups=[[h4,0],[h1,2,h3]],classes=7)", net, [])
    numbered = build("two_level(groups=[[4,0],[1,2,3]],classes=7)", net, [])
    assert np.array_equal(named.reduce, numbered.reduce)
    assert named.scheme == "two_level(groups=[[h4,0],[h1,2,h3]],classes=7)"


def test_random_groups_are_those_of_their_draw(topology: Build) -> None:
    net = topology("star(hosts=16)")
    draws = {draw: build(f"two_level(groups=random,draw={draw})", net, []).reduce.tobytes() for draw in range(5)}
    assert len(set(draws.values())) == 5
    assert build("two_level(groups=random)", net, []).reduce.tobytes() == draws[1]
    of_two = build("two_level(groups=random,k=2)", net, [])
    roots = np.argmax(of_two.reduce == ROOT, axis=1)
    assert set((of_two.reduce == roots[:, None]).sum(axis=1).tolist()) == {8}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            "groups=random,alpha=2",
            "alpha means nothing for groups=random\n  fix: leave alpha out, or take groups=probed",
        ),
        ("groups=probed,draw=2", "draw means nothing for groups=probed\n  fix: leave draw out, or take groups=random"),
        (
            "groups=[[0,1,2,3]],k=2",
            "k means nothing for groups=[[..]]\n  fix: leave k out, or take groups=probed or groups=random",
        ),
        ("groups=random,draw=-1", "draw is -1\n  fix: give it 0 or more"),
        ("classes=65537", "classes is 65,537\n  fix: give it 0, for one a host, or at most 65,536"),
    ],
)
def test_settings_that_are_wrong_or_without_a_use(topology: Build, arguments: str, text: str) -> None:
    with pytest.raises(SchemeError) as caught:
        build(f"two_level({arguments})", topology("star(hosts=4)"), [])
    assert str(caught.value) == f"two_level: {text}"


def test_true_groups_are_the_racks_that_a_cloud_hides(topology: Build) -> None:
    net = topology("cloud(sizes=[3,2,1],seed=5)")
    written = "[" + ",".join(f"[{','.join(map(str, rack))}]" for rack in places(net).groups) + "]"
    by_hand = build(f"two_level(groups={written},classes=12)", net, [])
    assert np.array_equal(build("two_level(groups=truth,classes=12)", net, []).reduce, by_hand.reduce)


def test_probed_groups_are_found_by_distances_and_until_then_by_number(topology: Build) -> None:
    """Hosts of a job, which are not all that measured, on racks of even and odd hosts."""
    net = topology("star(hosts=4)")
    text = "two_level(groups=probed,k=2,classes=8,probe=bandwidth)"
    by_number = build("two_level(groups=[[0,1],[2,3]],classes=8)", net, [])
    assert np.array_equal(build(text, net, []).reduce, by_number.reduce)
    wanted = finding(text)
    assert wanted is not None
    assert wanted.probe == "bandwidth"
    hosts = [f"h{host}" for host in range(6)]
    measured = {a: [0.0 if a == b else 1.0 + (int(a[1]) + int(b[1])) % 2 for b in hosts] for a in hosts}
    assert wanted.decide(hosts[1:5], measured, 3) == {"scheme": "two_level(groups=[[h1,h3],[h2,h4]],classes=8)"}
    assert finding("two_level(groups=random)") is None
    assert finding("two_level") is None
