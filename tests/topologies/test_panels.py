"""Panels as values."""

from __future__ import annotations

import pytest

from testbed.base.errors import TopologyError
from testbed.topologies.panels import Panels


def test_identities_of_trials_are_those_of_before_there_were_other_routings() -> None:
    told = "Panels(sides=(((0, 1),),), position=(0, 0), reconfiguration_s=0.01, routes=())"
    assert repr(Panels((((0, 1),),), (0, 0), 0.01)) == told
    assert repr(Panels((((0, 1),),), (0, 0), 0.01, routing="coin_change")) == told[:-1] + ", routing='coin_change')"


BOTH = ((((0, 1), (2, 3)), ((1, 2),)), ((), ((0, 3),)))
"""Of four servers with two interfaces: the panels that they look at, and those that look ahead."""


@pytest.mark.parametrize("position", [0, 1])
def test_circuits_among_some_servers_are_on_the_other_side_and_their_switches_turn(position: int) -> None:
    """Circuits of others stay; one that would lead from them to others goes away."""
    sides = BOTH if position == 0 else BOTH[::-1]
    panels = Panels(sides, (position,) * 4, 1.0, routes=((0, 1, 2), (3, 2)))
    found = panels.among([2, 3], [((2, 3),), ()])
    assert found.sides[position] == BOTH[0]
    assert found.sides[1 - position] == (((2, 3),), ())
    assert found.position == (position, position, 1 - position, 1 - position)
    assert found.lit == (((0, 1), (2, 3)), ())
    assert found.routes == ()
    again = found.among([0, 1], [(), ((0, 1),)])
    assert again.lit == (((2, 3),), ((0, 1),))
    assert again.position == (1 - position,) * 4


def test_circuits_among_some_servers_with_one_panel_an_interface() -> None:
    panels = Panels(BOTH[:1], (0,) * 4, 1.0, routes=((1, 0),))
    found = panels.among([2, 3], [(), ((2, 3),)])
    assert found.lit == (((0, 1),), ((2, 3),))
    assert found.routes == panels.routes
    assert not found.looks_ahead


def test_servers_that_look_at_different_panels_get_no_circuits_together() -> None:
    panels = Panels(BOTH, (0, 0, 1, 1), 1.0)
    with pytest.raises(TopologyError, match="set differently"):
        panels.among([1, 2], [((1, 2),), ()])
