"""Which panel each circuit is on."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.topologies.circuits import lay
from testbed.topologies.panels import Matching


def test_smaller_rings_share_panels_and_two_servers_are_one_circuit() -> None:
    assert lay(8, [range(8), [0, 1, 2, 3], [4, 5, 6, 7], [1, 0], [2, 6]]) == (
        ((0, 1), (2, 3), (4, 5), (6, 7)),
        ((0, 7), (1, 2), (3, 4), (5, 6)),
        ((0, 1), (2, 3), (4, 5), (6, 7)),
        ((0, 3), (1, 2), (4, 7), (5, 6)),
        ((0, 1), (2, 6)),
    )


def test_an_odd_ring_takes_three_panels_and_leaves_a_port_dark_on_each() -> None:
    assert lay(6, [[0, 1, 2], [3, 4, 5], [3, 0]]) == (
        ((0, 1), (3, 4)),
        ((0, 3), (1, 2), (4, 5)),
        ((0, 2), (3, 5)),
    )


def test_given_matchings_come_after_rings_over_all_servers_and_before_all_else() -> None:
    assert lay(4, [[0, 1], range(4)], [[(0, 1)], []]) == (((0, 1), (2, 3)), ((0, 3), (1, 2)), ((0, 1),), ((0, 1),))


@st.composite
def rings(draw: st.DrawFn) -> tuple[int, list[list[int]]]:
    servers = draw(st.integers(2, 11))
    one = st.permutations(range(servers)).flatmap(lambda order: st.integers(2, servers).map(lambda size: order[:size]))
    return servers, draw(st.lists(one, max_size=5))


def circuits(panels: tuple[Matching, ...]) -> Counter[tuple[int, int]]:
    return Counter(pair for panel in panels for pair in panel)


@settings(max_examples=60)
@given(rings(), st.randoms(use_true_random=False))
def test_panels_are_matchings_of_all_circuits_and_what_was_dark_moves_none(
    case: tuple[int, list[list[int]]], random: object
) -> None:
    servers, chosen = case
    panels = lay(servers, chosen)
    for panel in panels:
        assert len({server for pair in panel for server in pair}) == 2 * len(panel)
    wanted: Counter[tuple[int, int]] = Counter()
    for ring in chosen:
        pairs = list(zip(ring, [*ring[1:], ring[0]], strict=True))
        wanted.update((min(pair), max(pair)) for pair in (pairs[:1] if len(ring) == 2 < servers else pairs))
    assert circuits(panels) == wanted
    whole = 2 * sum(len(ring) == servers for ring in chosen)
    given = []
    for panel in panels[whole:]:
        dark = [server for server in range(servers) if all(server not in pair for pair in panel)]
        random.shuffle(dark)  # type: ignore[attr-defined]
        given.append([(min(pair), max(pair)) for pair in zip(dark[::2], dark[1::2], strict=False)])
    again = lay(servers, chosen, given)
    assert again == (
        *panels[:whole],
        *(tuple(sorted([*old, *new])) for old, new in zip(panels[whole:], given, strict=True)),
    )
