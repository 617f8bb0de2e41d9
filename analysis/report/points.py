"""Points of a sweep for people: short names, values with their units, and arms that alone sweep a field told apart.

An arm has no value of a field that only others sweep. What all arms have is a setting at which they can be compared;
what only some have says which arm it is: ``ps`` with ``servers`` 1 and 4 are two. What an arm is compared with does not
depend on what it is called (:func:`testbed.analysis.cell.references`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from testbed.analysis.cell import references
from testbed.analysis.recorded import Place, Reference, Run, Trial
from testbed.analysis.report.cells import as_text, rank

BETWEEN, IS = ", ", "="
"""Separators in a trial's ``at``: ``rate=100 Mbit/s, hosts=4``."""


def worded(trial: Trial) -> dict[str, str]:
    """The point by short names, its values as text: ``{"rate": "100 Mbit/s"}``; by whole names where there are none."""
    pieces = trial.at.split(BETWEEN)
    pairs = [piece.partition(IS)[::2] for piece in pieces]
    if len(pairs) == len(trial.point) and all(IS in piece for piece in pieces):
        return dict(pairs)
    return {name: as_text(value) for name, value in trial.point.items()}


def apart(run: Run) -> Run:
    """The run with its points in words, and with arms by what they alone sweep as well."""
    if not any(trial.point for trial in run.trials):
        return run
    fields: dict[str, set[str]] = {}
    for trial in run.trials:
        fields.setdefault(trial.label, set()).update(worded(trial))
    shared = set.intersection(*fields.values())
    trials = tuple(_apart(trial, shared) for trial in run.trials)
    new: dict[str, dict[str, list[tuple[float, str]]]] = {}
    for before, after in zip(run.trials, trials, strict=True):
        new.setdefault(before.label, {})[after.label] = [rank(value) for value in _split(before, shared)[0].values()]
    order = {label: sorted(new[label], key=new[label].__getitem__) if label in new else [label] for label in run.labels}
    resolved = [(arm, str(arm.get("label"))) for arm in run.resolved.get("arms") or ()]
    arms = [arm | {"label": new_label} for arm, label in resolved for new_label in order.get(label, [label])]
    return replace(
        run,
        trials=trials,
        labels=tuple(label for labels in order.values() for label in labels),
        resolved=run.resolved | {"arms": arms},
        reference=_reference(run, trials),
    )


def _reference(run: Run, trials: Sequence[Trial]) -> Reference:
    """Return what ratios are relative to, found by what the spec calls arms and points, in the words of ``trials``."""
    places: dict[str, dict[Place, Trial]] = {job: {} for job in run.firsts}
    for before, after in zip(run.trials, trials, strict=True):
        places[before.job].setdefault((after.label, after.setting), before)
    found = {job: _pairs(places[job], first) for job, first in run.firsts.items()}
    return Reference(
        next(name for name, _ in found.values()),
        {cell: other for _, of in found.values() for cell, other in of.items()},
    )


def _pairs(places: Mapping[Place, Trial], first: str) -> tuple[str, dict[Place, Place]]:
    """The name of the first arm, or of a job's first, and by cell what its ratios are relative to."""
    cells, names = list(places.values()), list(places)
    found = references(cells, first)
    pairs = {name: names[i] for name, i in zip(names, found.of, strict=True) if i is not None}
    there = next((cell for cell in cells if cell.label == first and found.own.items() <= cell.point.items()), None)
    named = dict(zip(there.point, worded(there).items(), strict=False)) if there else {}
    return ", ".join([first, *(" ".join(named[field]) for field in found.own)]), pairs


def _apart(trial: Trial, shared: Collection[str]) -> Trial:
    own, rest = _split(trial, shared)
    label = ", ".join([trial.label, *(f"{name} {value}" for name, value in own.items())])
    return replace(trial, label=label, point=rest, at="")


def _split(trial: Trial, shared: Collection[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Split a trial's point into what its arm alone sweeps, and what all do."""
    known = worded(trial)
    own = {name: value for name, value in known.items() if name not in shared}
    return own, {name: value for name, value in known.items() if name in shared}
