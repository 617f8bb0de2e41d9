"""Several runs as one, whose report has their arms side by side: other labs, other machines, other specs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from testbed.analysis.recorded import Run

PER_TRIAL = "lab"
"""The part of an environment that has an entry for each trial."""


def beside(runs: Sequence[Run]) -> Run:
    """Make one run with the arms of all: each label has the lab after it, or the run's directory where labs are the
    same.

    Arms of the same label stand next to each other, and ratios are relative to the first run's first arm.
    """
    names = names_of(runs)
    labels = list(dict.fromkeys(chain.from_iterable(run.labels for run in runs)))
    pairs = [
        (label, run, name) for label in labels for run, name in zip(runs, names, strict=True) if label in run.labels
    ]
    trials = [
        replace(trial, label=f"{trial.label} ({name})", id=f"{trial.id} ({name})", part=name)
        for run, name in zip(runs, names, strict=True)
        for trial in run.trials
    ]
    arms = [f"{label} ({name})" for label, _, name in pairs]
    resolved = [
        {**next((own for own in run.resolved.get("arms") or () if own.get("label") == label), {}), "label": arm}
        for (label, run, _), arm in zip(pairs, arms, strict=True)
    ]
    trials.sort(key=lambda trial: (trial.batch, trial.repeat, arms.index(trial.label)))
    planned = [run.planned for run in runs]
    titles = list(dict.fromkeys(run.name for run in runs))
    return Run(
        path=runs[0].path,
        name=f"{' and '.join(titles)}: {', '.join(names)}",
        spec=runs[0].spec if len({run.spec for run in runs}) == 1 else "",
        resolved=runs[0].resolved | {"arms": resolved},
        environment=_environments(runs, names),
        labels=tuple(arms),
        trials=tuple(trials),
        planned=None if None in planned else sum(count or 0 for count in planned),
        parts=tuple(replace(run, name=name) for run, name in zip(runs, names, strict=True)),
    )


def names_of(runs: Sequence[Run]) -> list[str]:
    """Return names that tell the runs apart: their labs, or their directories."""
    for names in (
        [str(run.resolved.get("lab")) for run in runs],
        [run.path.resolve().name for run in runs],
    ):
        if len(set(names)) == len(names):
            return names
    paths = [str(run.path) for run in runs]
    return paths if len(set(paths)) == len(paths) else [f"{path}, {i}" for i, path in enumerate(paths, 1)]


def _environments(runs: Sequence[Run], names: Sequence[str]) -> dict[str, Any]:
    """Merge the environments: what is the same in all once, what differs for each; trials' labs by their new ids."""
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
