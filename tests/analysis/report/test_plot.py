"""Labels of a figure's rows, and its axes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from testbed.analysis.recorded import Run
from testbed.analysis.report import page, plot

from .helpers import answer, judged


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
    assert plot.SIMULATED in plot.tick("ring", "SIMULATED")


def test_axes_go_beyond_the_values() -> None:
    assert plot.from_zero([1.0, None, 2.0], room=1.5) == (0.0, 3.0)
    assert plot.from_zero([None]) == (0.0, 1.0)
    low, high = plot.around([1.0, 2.0, float("nan"), None])
    assert low < 1.0 < 2.0 < high
    low, high = plot.around([1.0])
    assert low < 1.0 < high


@pytest.mark.parametrize(
    ("longest_s", "title", "value"),
    [(0.04, "wait (ms)", 20.0), (20.0, "wait (s)", 0.02), (1200.0, "wait (min)", 0.02 / 60)],
)
def test_a_time_has_the_unit_that_suits_the_longest(longest_s: float, title: str, value: float) -> None:
    trace = plot.dot((0, 1), 0, "wait_s", "#0072b2", True, "wait, s:") | {"x": [0.02]}
    layout = {"xaxis": {"title": {"text": "wait (s)"}, "range": [0, longest_s]}, "shapes": [plot.upright(0.02, 0, 1)]}
    figure = plot.timed(plot.finished([trace], layout, 100), "x", longest_s)
    (drawn,), layout = figure["data"], figure["layout"]
    unit = title[title.index("(") + 1 : -1]
    assert layout["xaxis"]["title"]["text"] == title
    assert drawn["x"] == [pytest.approx(value, rel=1e-5)]
    assert layout["shapes"][0]["x0"] == pytest.approx(value)
    assert f"wait, {unit}: %{{x" in drawn["hovertemplate"]
    assert drawn["error_x"]["array"].get("times", 1.0) == pytest.approx(value / 0.02)


@pytest.mark.parametrize(("span", "step"), [(0, 1), (3, 1), (8, 1), (9, 2), (41, 10), (1000, 200)])
def test_an_axis_of_counts_has_whole_numbers(span: float, step: int) -> None:
    assert plot.whole(span) == {"tick0": 0, "dtick": step, "tickformat": ",d"}


def test_an_axis_has_ticks_at_its_values_if_there_is_room() -> None:
    assert plot.ticks([2, 4.5, 8, 2]) == {"tickvals": [2, 4.5, 8]}
    assert plot.ticks([1.0, 2.0, 1000.0])["tickformat"] == ",d"
    assert plot.ticks([0.5, 1.0, 1000.0]) == {}


def test_a_legend_names_every_colour(run: Run) -> None:
    for name in ("jct", "gst", "waits", "gantt", "accuracy"):
        question = answer(run, name)
        shades = {shade for panel in question.panels for shade in colours_in(panel.figure["data"])}
        assert shades <= {key.colour for key in question.legend}, name


def colours_in(traces: list[dict[str, Any]]) -> set[str]:
    """Those of marks and lines."""
    found = [trace.get(part, {}).get("color") for trace in traces for part in ("marker", "line")]
    return {shade for shade in found if shade}


def test_a_line_with_a_number_that_is_not_valid_has_a_cross_which_the_legend_explains(sweep: Run) -> None:
    def drawn(run: Run) -> tuple[set[str], str]:
        question = answer(run, "gst")
        marks = [trace.get("marker", {}) for panel in question.panels for trace in panel.figure["data"]]
        symbols = {symbol for mark in marks if isinstance(mark.get("symbol"), list) for symbol in mark["symbol"]}
        return symbols, question.keys[-1].label

    valid = replace(sweep, trials=tuple(judged(trial, "VALID") for trial in sweep.trials if trial.done))
    assert drawn(valid) == ({"circle"}, "theory")
    place = valid.trials[0].label, valid.trials[0].setting
    trials = [judged(one, "INVALID") if (one.label, one.setting) == place else one for one in valid.trials]
    in_part = replace(valid, trials=tuple(trials))
    assert drawn(in_part) == ({"circle", "x"}, "not VALID")
    assert ("✕" in page.render(valid), "✕" in page.render(in_part)) == (False, True)
