"""Points of sweeps in words, and arms that alone sweep a field."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from testbed.analysis.record.trial import Slot
from testbed.analysis.recorded import Run, Trial
from testbed.analysis.report import cells, tables, words
from testbed.analysis.report.points import apart, worded
from testbed.comparison import closing_table

from .helpers import answer, only


def test_a_point_is_worded_as_the_trial_says_it(run: Run) -> None:
    trial = run.trials[0]
    point = {"links.rate": 10**8, "topology.hosts": 4}
    assert worded(replace(trial, point=point, at="rate=100 Mbit/s, hosts=4")) == {"rate": "100 Mbit/s", "hosts": "4"}
    assert worded(replace(trial, point=point)) == {"links.rate": "100000000", "topology.hosts": "4"}
    assert worded(replace(trial, point={"a": "x, y=1"}, at="a=x, y=1")) == {"a": "x, y=1"}
    assert worded(trial) == {}


def test_what_some_arms_sweep_is_part_of_their_names(run: Run) -> None:
    ps, ring = only(run, "ps-b16", "ring-b16").trials
    trials = [
        replace(one, id=f"{one.id}-{at}", point={word.split("=")[0]: 1 for word in at.split(", ")}, at=at)
        for one, ats in (
            (ring, ("hosts=4", "hosts=8")),
            (ps, ("hosts=4, servers=16", "hosts=8, servers=16", "hosts=4, servers=2", "hosts=8, servers=2")),
        )
        for at in ats
    ]
    arms = [{"label": ring.label, "scheme": "ring"}, {"label": ps.label, "scheme": "ps"}]
    swept = apart(replace(run, labels=(ring.label, ps.label), trials=tuple(trials), resolved={"arms": arms}))
    assert swept.labels == ("Ring on fat-tree", "PS on fat-tree, servers 2", "PS on fat-tree, servers 16")
    assert [arm["scheme"] for arm in swept.resolved["arms"]] == ["ring", "ps", "ps"]
    study = cells.study(swept)
    assert study.along is not None
    assert study.along.key == "hosts"
    (group,) = study.groups
    assert [(cell.label, study.along.at(cell)) for cell in group.cells[2:4]] == [
        ("PS on fat-tree, servers 2", 4.0),
        ("PS on fat-tree, servers 2", 8.0),
    ]
    assert all(swept.reference_of(trial.label, trial.setting) is not None for trial in swept.trials)


def record(trial: Trial) -> dict[str, Any]:
    """As the run's directory has it, for the table that a run ends with."""
    known = {name: getattr(trial, name) for name in ("label", "batch", "point", "at")}
    metrics = {"jct_s": trial.metrics.jct_s}
    return known | {"status": "done", "kind": "command", "metrics": metrics, "fidelity": {"verdict": "VALID"}}


Swept = tuple[str, dict[str, Any], float, str]
"""Label, point, JCT (s), and the speed-up that it should have."""
ALONE: list[Swept] = [
    ("PS", {"servers": 16}, 2.0, "0.50"),
    ("PS", {"servers": 2}, 1.0, "1.00"),
    ("ring", {}, 4.0, "0.25"),
]
NOT_ALL: list[Swept] = [
    ("ring", {"hosts": 2}, 1.0, "1.00"),
    ("ring", {"hosts": 4}, 4.0, "1.00"),
    ("PS", {"hosts": 2}, 2.0, "0.50"),
    ("PS", {"hosts": 4}, 5.0, "0.80"),
    ("BML", {"n": 3}, 1.0, "-"),
]
LEFT_OUT: list[Swept] = [
    ("PS", {"hosts": 2}, 2.0, "-"),
    ("ring", {"hosts": 4}, 4.0, "1.00"),
    ("PS", {"hosts": 4}, 5.0, "0.80"),
]


@pytest.mark.parametrize(
    ("swept", "first", "named"),
    [(ALONE, "PS", "PS, servers 2"), (NOT_ALL, "ring", "ring"), (LEFT_OUT, "ring", "ring")],
    ids=["the first arm alone sweeps", "one does not sweep what others do", "the first arm is left out at first"],
)
def test_the_report_and_the_table_of_the_run_compare_alike(
    run: Run, swept: list[Swept], first: str, named: str
) -> None:
    (one,) = only(run, "ps-b16").trials
    trials = [
        replace(
            one,
            id=str(i),
            label=label,
            point=point,
            at=", ".join(f"{name}={value}" for name, value in point.items()),
            metrics=replace(one.metrics, jct_s=jct_s),
        )
        for i, (label, point, jct_s, _) in enumerate(swept)
    ]
    wanted = [speed for *_, speed in swept]
    header, rows = closing_table.table([record(trial) for trial in trials], first)
    assert [row[header.index("speed-up")].removesuffix("x") for row in rows] == wanted
    labels = tuple(dict.fromkeys([first, *(trial.label for trial in trials)]))
    told = apart(replace(run, labels=labels, trials=tuple(trials), resolved={"arms": []}))
    assert answer(told, "speed-up").asked == f"How much faster than the first arm, {named}?"
    table = tables.summary(told)
    place = table.columns.index("Speed-up") - 1
    order = [cell.trials[0].id for cell in cells.cells(told)]
    found = {name: row.values[place].text for name, row in zip(order, table.rows, strict=True)}
    assert [found[str(i)].removesuffix("×").replace(words.UNKNOWN, "-") for i in range(len(swept))] == wanted


def test_arms_by_what_they_alone_sweep_are_in_the_order_of_quantities(run: Run) -> None:
    (one,) = only(run, "ps-b16").trials
    rates = {"1 Gbit/s": 10**9, "50 Mbit/s": 5 * 10**7}
    ring = replace(one, id="ring", label="ring")
    slow = [
        replace(one, id=at, label="slow", point={"arm.perturb.0.rate": rate}, at=f"rate={at}")
        for at, rate in rates.items()
    ]
    told = apart(replace(run, labels=("ring", "slow"), trials=(ring, *slow), resolved={"arms": []}))
    assert told.labels == ("ring", "slow, rate 50 Mbit/s", "slow, rate 1 Gbit/s")


def test_without_a_sweep_nothing_changes(run: Run) -> None:
    assert apart(run) is run


def test_at_each_point_a_job_is_compared_with_the_job_of_its_name(run: Run) -> None:
    (one,) = only(run, "ps-b16").trials
    labels = ("x: a", "x: b", "y: a", "y: b")
    trials = [
        replace(one, id=f"{label} {n}", label=label, slot=Slot(label[-1]), point={"hosts": n}, at=f"hosts={n}")
        for label in labels
        for n in (2, 4)
    ]
    told = apart(replace(run, labels=labels, trials=tuple(trials), resolved={"arms": []}))
    assert all(trial.point for trial in told.trials)
    for trial in told.trials:
        assert told.reference_of(trial.label, trial.setting) == (f"x: {trial.job}", trial.setting)
