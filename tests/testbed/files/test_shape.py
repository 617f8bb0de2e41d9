"""Shapes of JSON: what fits, and where what does not fit is found."""

from __future__ import annotations

import pytest

from testbed.files.shape import COUNT, EACH, NAME, NO_NULL, NUMBER, OBJECT, TRUTH, Shape, check

ARM: Shape = {"label": NAME, "rates": [NUMBER], "more": [], "of": {EACH: COUNT}, "all": {NO_NULL: OBJECT}, "ok": TRUTH}


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"label": None, "unknown": [[[]]]},
        {"label": "a", "rates": [1, 2.5], "more": [None, {}], "of": {"x": 3, "y": None}, "all": {"z": {}}, "ok": False},
    ],
)
def test_what_fits(value: object) -> None:
    check(value, ARM)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ([], r"it is \[\], no object"),
        ({"label": 5}, "label is 5, no name"),
        pytest.param({"label": "x" * 40_000}, "label is 'xxx.*, no name", id="long"),
        ({"rates": {}}, "rates is {}, no list"),
        ({"rates": [1, "2"]}, r"rates\.1 is '2', no finite number"),
        ({"rates": [None]}, r"rates\.0 is None, no finite number"),
        ({"rates": [True]}, r"rates\.0 is True, no finite number"),
        ({"of": {"x": -1}}, r"of\.x is -1, no whole number from 0 on"),
        ({"of": {"x": 1.0}}, r"of\.x is 1\.0, no whole number from 0 on"),
        ({"all": {"z": None}}, r"all\.z is None, no object"),
        ({"ok": 1}, "ok is 1, no true or false"),
    ],
)
def test_the_first_place_that_differs_is_named(value: object, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        check(value, ARM)
