"""Several runs of one experiment, from different labs or machines, as one run whose report has them side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from analysis.load import Run, load
from analysis.report import render
from testbed.errors import OutputError
from testbed.files import write_bytes

ITS_OWN = ("schema", "name", "lab")
"""What the runs' specs may differ in."""
PER_TRIAL = "lab"
"""The part of an environment that has an entry for each trial."""


def beside(runs: Sequence[Run]) -> Run:
    """One run with the arms of all: each label has the lab after it, or the run's directory where labs are the same.

    Raises:
        OutputError: they are not runs of the same experiment.
    """
    first = runs[0]
    for other in runs[1:]:
        _check_same(first, other)
    names = _names(runs)
    columns = [_labels(run, name) for run, name in zip(runs, names, strict=True)]
    arms = list(chain.from_iterable(zip(*columns, strict=True)))
    trials = [
        replace(trial, label=f"{trial.label} ({name})", id=f"{trial.id} ({name})")
        for run, name in zip(runs, names, strict=True)
        for trial in run.trials
    ]
    trials.sort(key=lambda trial: (trial.batch, trial.repeat, arms.index(trial.label)))
    return Run(
        path=first.path,
        name=f"{first.name}: {', '.join(names)}",
        spec=first.spec,
        resolved=first.resolved | {"arms": [{"label": label} for label in arms]},
        environment=_environments(runs, names),
        labels=tuple(arms),
        trials=tuple(trials),
    )


def _labels(run: Run, name: str) -> list[str]:
    return [f"{label} ({name})" for label in run.labels]


def _names(runs: Sequence[Run]) -> list[str]:
    labs = [str(run.resolved.get("lab")) for run in runs]
    if len(set(labs)) == len(labs):
        return labs
    names = [run.path.resolve().name for run in runs]
    if len(set(names)) == len(names):
        return names
    return [str(run.path) for run in runs]


def _check_same(first: Run, other: Run) -> None:
    for key in sorted((first.resolved.keys() | other.resolved.keys()) - set(ITS_OWN)):
        ours, theirs = first.resolved.get(key), other.resolved.get(key)
        if ours != theirs:
            raise OutputError(
                f"{first.path} and {other.path} are runs of different experiments: {key} is {_short(ours)} and "
                f"{_short(theirs)}",
                fix="give runs of one spec, such as those of --backend netns and --backend mininet",
            )


def _short(value: object, most: int = 200) -> str:
    text = str(value)
    return text if len(text) <= most else f"{text[:most]}..."


def _environments(runs: Sequence[Run], names: Sequence[str]) -> dict[str, Any]:
    """What is the same in all once, what differs for each; trials' labs by their new ids."""
    found: dict[str, Any] = {PER_TRIAL: {}}
    for key in dict.fromkeys(chain.from_iterable(run.environment for run in runs)):
        values = [run.environment.get(key) for run in runs]
        if key == PER_TRIAL:
            for value, name in zip(values, names, strict=True):
                found[key] |= {f"{trial} ({name})": lab for trial, lab in (value or {}).items()}
        elif all(value == values[0] for value in values):
            found[key] = values[0]
        elif all(isinstance(value, dict) for value in values):
            pairs = [(value or {}, name) for value, name in zip(values, names, strict=True)]
            found[key] = {f"{inner} ({name})": one for value, name in pairs for inner, one in value.items()}
        else:
            found |= {f"{key} ({name})": value for value, name in zip(values, names, strict=True)}
    return found


def write(run_dirs: Sequence[Path], out: Path) -> Path:
    """Write one report of several runs to ``out``, and return its path.

    Raises:
        OutputError: one is not a run directory, they are of different experiments, or ``out`` cannot be written.
    """
    write_bytes(out, render(beside([load(path) for path in run_dirs])).encode())
    return out
