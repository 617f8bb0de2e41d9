"""Labels of a figure's rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from analysis import figures
from analysis.load import Run, load


def ticks(run: Run, label: str) -> list[str]:
    trials = tuple(replace(trial, label=label) for trial in run.trials if trial.id == "bml-b16")
    figure = json.loads(figures.jct(replace(run, trials=trials, labels=(label,)), 16))
    return figure["layout"]["yaxis"]["ticktext"]


def test_a_long_label_breaks_where_its_name_of_a_topology_has_a_comma_or_bracket(run_dir: Path) -> None:
    run = load(run_dir)
    assert ticks(run, "ring on spine_leaf(racks=2,hosts_per_rack=2,spines=2)") == ["ring on spine_leaf(<br>racks=2, …"]
    assert ticks(run, "bml on bcube(n=3,k=2)") == ["bml on bcube(n=3,<br>k=2)"]
    assert ticks(run, "a <label> that says too much of itself") == ["a &lt;label&gt; that says<br>too much of itself"]
