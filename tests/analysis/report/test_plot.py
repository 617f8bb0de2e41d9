"""Labels of a figure's rows, and its axes."""

from __future__ import annotations

import pytest

from analysis.report import plot


@pytest.mark.parametrize(
    ("label", "lines"),
    [
        ("ring on spine_leaf(racks=2,hosts_per_rack=2,spines=2)", "ring on spine_leaf(<br>racks=2, …"),
        ("bml on bcube(n=3,k=2)", "bml on bcube(n=3,<br>k=2)"),
        ("a <label> that says too much of itself", "a &lt;label&gt; that says<br>too much of itself"),
    ],
)
def test_a_long_label_breaks_where_its_name_of_a_topology_has_a_comma_or_bracket(label: str, lines: str) -> None:
    assert plot.tick(label) == lines


def test_a_row_that_is_not_to_be_believed_says_so() -> None:
    assert plot.tick("ring", "INVALID").endswith(f'<br><b><span style="color:{plot.INVALID}">INVALID</span></b>')


def test_axes_go_beyond_the_values() -> None:
    assert plot.from_zero([1.0, None, 2.0], room=1.5) == (0.0, 3.0)
    assert plot.from_zero([None]) == (0.0, 1.0)
    low, high = plot.around([1.0, 2.0, float("nan"), None])
    assert low < 1.0 < 2.0 < high
    low, high = plot.around([1.0])
    assert low < 1.0 < high
