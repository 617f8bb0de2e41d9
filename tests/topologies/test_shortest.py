from __future__ import annotations

from testbed.topologies.shortest import steps_from

NEAR = {"a": ["b", "c"], "b": ["a", "d"], "c": ["a"], "d": ["b", "e"], "e": ["d"], "alone": []}


def test_steps_are_counted_from_the_nearest_start() -> None:
    assert steps_from(["a"], NEAR.__getitem__) == {"a": 0, "b": 1, "c": 1, "d": 2, "e": 3}
    assert steps_from(["a", "e"], NEAR.__getitem__) == {"a": 0, "e": 0, "b": 1, "c": 1, "d": 1}


def test_the_nearest_come_first_and_what_cannot_be_reached_is_not_there() -> None:
    assert list(steps_from(["d"], NEAR.__getitem__)) == ["d", "b", "e", "a", "c"]
    assert steps_from(["alone"], NEAR.__getitem__) == {"alone": 0}
    assert steps_from([], NEAR.__getitem__) == {}
