"""Panels as values."""

from __future__ import annotations

from topologies.panels import Panels


def test_identities_of_trials_are_those_of_before_there_were_other_routings() -> None:
    told = "Panels(sides=(((0, 1),),), position=(0, 0), reconfiguration_s=0.01, routes=())"
    assert repr(Panels((((0, 1),),), (0, 0), 0.01)) == told
    assert repr(Panels((((0, 1),),), (0, 0), 0.01, routing="coin_change")) == told[:-1] + ", routing='coin_change')"
