"""Which columns of the closing table fit."""

from __future__ import annotations

import pytest

from testbed.comparison import HEADER, fitting

ROWS = [
    ["PS on fat-tree", "16", "0.983 s", "0.974 s", "1.009", "18.5 s", "109", "1.00x", "89.7%", "VALID"],
    ["BML on BCube", "16", "0.496 s", "0.487 s", "1.018", "11.5 s", "175", "1.60x", "89.7%", "INVALID"],
]


@pytest.mark.parametrize(
    ("width", "left_out"),
    [
        (200, set()),
        (80, {"theory"}),
        (60, {"theory", "accuracy", "samples/s"}),
        (10, {"theory", "accuracy", "samples/s", "speed-up", "JCT", "ratio"}),
    ],
)
def test_a_narrow_terminal_goes_without_the_least_needed(width: int, left_out: set[str]) -> None:
    shown = [HEADER[i] for i in fitting(ROWS, width)]
    assert shown == [name for name in HEADER if name not in left_out]


def test_what_is_shown_fits() -> None:
    for width in range(40, 100):
        shown = fitting(ROWS, width)
        widths = [min(12, max(len(row[i]) for row in [HEADER, *ROWS])) for i in shown]
        assert sum(widths) + len(widths) <= width
