"""Parts of a run or a baseline that a comparison needs: its trials' numbers, and what these depended on.

A baseline is a run without its tables of samples: a JSON file that is small enough to be committed, with a line for
each trial, so that a person can read what changed in it. ``testbed baseline`` writes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import Any

from testbed.analysis.cell import Cell
from testbed.analysis.load import load
from testbed.analysis.numbers.ratios import Work
from testbed.analysis.recorded import Run, Trial
from testbed.analysis.schema import BASELINE
from testbed.analysis.verdicts import INVALID, VALID, VERDICTS, verdict_of
from testbed.base.errors import OutputError
from testbed.base.printable import printable
from testbed.base.units import time_text
from testbed.files.foreign import UnfitError, read_object, reason
from testbed.files.shape import check
from testbed.files.writing import number, write_bytes

SCHEMA = 1
"""Version of the format of a baseline's file."""
FAILED = "FAILED"
"""The verdict of a trial that did not finish."""
RERUN = "rerun"
"""The directory within a run's own that has what was measured again because it was suspicious."""
METRICS = {"gst": "gst_median_s", "jct": "jct_s", "throughput": "throughput_sps"}
"""Metrics that are compared, and their names in a trial's record. One number a trial: see
:mod:`testbed.analysis.comparing.compare`."""
NAMES = {"gst": "GST", "jct": "JCT", "throughput": "samples/s"}
"""Names of the metrics as people call them."""
DIGITS = 7
"""Significant digits of what a baseline keeps: more than any clock of ours can tell apart."""
MACHINE = ("kernel", "machine", "cpu", "limits", "python", "congestion_control")
PACKAGES = ("numpy", "torch")
"""Packages that compute and move gradients."""
WITHOUT_EFFECT = ("net.ipv4.tcp_available_congestion_control", "net.ipv4.tcp_allowed_congestion_control")
"""Sysctls that say what could be; what was used is ``congestion_control``."""
SPEC = ("lab", "links", "workload", "perturb", "seed", "draws")
HOST = ("host", "kernel", "python", "cores")
"""Facts that are known of each machine where hosts are machines of their own."""
ARM = ("topology", "perturb", "rate_bps")
"""Fields that an arm's numbers depend on besides its scheme, which is what may have changed."""
WORK = ("iterations", "gradient_sums")
"""Fields that say what a script did, in a trial's record and in a baseline."""
SWEPT = "swept"
UNITS = ("_bps", "_s", "_bytes")
"""Ends of the names of quantities."""
Conditions = dict[str, str | int | float | bool | None]
"""Flat: ``links.rate_bps``, ``cpu.model``."""


@dataclass(frozen=True)
class Measured:
    """One trial.

    Attributes:
        verdict: of the whole trial: VALID, INVALID, UNWATCHED or FAILED.
        values: its metrics by name, as far as it has them.
        verdicts: of each of these metrics, VALID, INVALID or UNWATCHED: a trial may count in one and not in another.
        gst_s: of its iterations, which are only read where a baseline is to keep them.
        spoilt_by: the checks that make a metric INVALID, of those metrics that any does; a baseline does not have them.
        world: its number of workers; older baselines do not have it.
        work: what a script did; None of other workloads.
    """

    id: str
    cell: Cell
    repeat: int
    started: str
    verdict: str
    values: Mapping[str, float]
    verdicts: Mapping[str, str]
    gst_s: tuple[float, ...] = ()
    world: int | None = None
    work: Work | None = None
    spoilt_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def valid_in(self, metric: str) -> bool:
        """Whether its value of that metric counts; False where it has none."""
        return metric in self.values and self.verdicts.get(metric) == VALID


@dataclass(frozen=True)
class Side:
    """One side of a comparison.

    Attributes:
        name: how it was named.
        path: where it is, resolved.
        experiment: the spec's name.
        conditions: what every trial's numbers depend on.
        arms: by label, the same for one arm, and its scheme.
        again: the cells that were suspicious and measured again; ``trials`` has only what that gave.
        before: what was measured first in these cells: none of it is compared, but failures of it count.
    """

    name: str
    path: Path
    experiment: str
    conditions: Conditions
    arms: Mapping[str, Mapping[str, Any]]
    trials: tuple[Measured, ...]
    again: frozenset[Cell] = frozenset()
    before: tuple[Measured, ...] = ()

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Cells of the trials, in the order in which they came."""
        return tuple(dict.fromkeys(trial.cell for trial in self.trials))


def read(path: Path, *, iterations: bool = False, again: bool = True) -> Side:
    """A run directory or a baseline's file; ``iterations`` also reads each iteration's GST.

    Where cells of a run were measured again, only that counts, unless ``again`` is False.

    Raises:
        OutputError: it is neither, it is damaged, or a newer version wrote it.
    """
    if not path.exists():
        raise OutputError(f"{path}: there is no such file or directory", fix="give a run's directory, or a baseline")
    if path.is_file():
        return _from_baseline(path)
    run = load(path, samples=iterations)
    found = _from_run(path, run)
    if again and (path / RERUN).is_symlink():
        raise OutputError(
            f"{path / RERUN}: is a symbolic link, and links are not followed there",
            fix="put in its place what it names",
        )
    if again and (path / RERUN / "resolved.json").is_file():
        found = replaced(found, _from_run(path, load(path / RERUN, samples=iterations)))
    return found


def replaced(first: Side, again: Side) -> Side:
    """``first`` with what ``again`` has of its cells in place of its own."""
    cells = frozenset(again.cells)
    kept = [trial for trial in first.trials if trial.cell not in cells]
    before = tuple(trial for trial in first.trials if trial.cell in cells)
    return replace(first, trials=(*kept, *again.trials), again=cells, before=before)


def write_baseline(side: Side, out: Path) -> None:
    """Write ``side`` as a baseline: sorted keys, a line for each trial.

    Raises:
        OutputError: it cannot be written.
        DiskFullError: no room is left.
    """
    value = {
        "schema": SCHEMA,
        "baseline": side.experiment,
        "conditions": side.conditions,
        "arms": side.arms,
        "cells": [
            {
                "label": cell.label,
                "batch": cell.batch,
                "point": dict(cell.point),
                "at": cell.at,
                "trials": [_entry(trial) for trial in side.trials if trial.cell == cell],
            }
            for cell in side.cells
        ],
    }
    write_bytes(out, _text(value).encode())


def conditions(environment: Mapping[str, Any], resolved: Mapping[str, Any]) -> Conditions:
    """Return what of an environment (env.json) and a spec (resolved.json) matters to every trial.

    What is swept is each cell's own, and only said to be :data:`SWEPT`. Of a run that was merged from parts, the values
    of all parts.
    """
    each = (environment.get("parts") or {}).values()
    parts = [conditions({**environment, "parts": None, **own}, resolved) for own in each]
    if parts:
        names = sorted({name for part in parts for name in part})
        values = {name: list(dict.fromkeys(part.get(name) for part in parts)) for name in names}
        return {name: one[0] if len(one) == 1 else " or ".join(map(str, one)) for name, one in values.items()}
    sysctls = environment.get("sysctls") or {}
    packages = environment.get("packages") or {}
    found: dict[str, Any] = {key: environment[key] for key in MACHINE if key in environment}
    found["packages"] = {name: packages[name] for name in PACKAGES if name in packages}
    found["sysctls"] = {name: value for name, value in sysctls.items() if name not in WITHOUT_EFFECT}
    found |= {key: resolved[key] for key in SPEC if key in resolved}
    found["schema"] = resolved.get("schema")
    if isinstance(found.get("workload"), dict):
        found["workload"] = {key: value for key, value in found["workload"].items() if key != "batch"}
    settings_of_lab = resolved.get(str(found.get("lab")))
    if isinstance(settings_of_lab, Mapping):
        found[found["lab"]] = settings_of_lab
    found |= _of_labs([lab for lab in (environment.get("lab") or {}).values() if lab])
    swept = resolved.get("sweep") or {}
    return {name: SWEPT if plain(name) in swept else value for name, value in sorted(_flat(found))}


def plain(name: str) -> str:
    """Return a condition's name as the spec has it: ``links.rate`` for ``links.rate_bps``."""
    return name.removesuffix(next((end for end in UNITS if name.endswith(end)), ""))


def _of_labs(labs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the labs of trials say of themselves; before any trial has run, nothing."""
    if not labs:
        return {}
    hosts: Mapping[str, Mapping[str, Any]] = next((lab["hosts"] for lab in labs if lab.get("hosts")), {})
    devices = sorted({name for lab in labs for name in lab.get("devices") or ()})
    return {
        **({"devices": " and ".join(devices)} if devices else {}),
        "impaired_by": next((lab["impaired_by"].get("way") for lab in labs if lab.get("impaired_by")), None),
        "hosts": {name: {key: one.get(key) for key in HOST} for name, one in hosts.items()},
    }


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            yield from _flat(inner, f"{prefix}{key}.")
        else:
            is_flat = isinstance(inner, str | int | float | None)
            yield f"{prefix}{key}", inner if is_flat else json.dumps(inner, sort_keys=True)


def describe(name: str, resolved: Mapping[str, Any], environment: Mapping[str, Any]) -> Side:
    """A run before its first trial."""
    sweep = {*(resolved.get("sweep") or ())}
    swept = {name.split(".")[0] for name in sweep}
    keys = [key for key in (*ARM, "scheme") if key not in swept and f"arm.{plain(key)}" not in sweep]
    labelled = [arm for arm in resolved.get("arms") or () if "label" in arm]
    arms = {str(arm["label"]): {key: arm.get(key) for key in keys} for arm in labelled}
    experiment = str(resolved.get("name") or name)
    return Side(name, Path(name).resolve(), experiment, conditions(environment, resolved), arms, ())


def _from_run(path: Path, run: Run) -> Side:
    described = describe(printable(str(path)), run.resolved, run.environment)
    return replace(described, path=path.resolve(), trials=tuple(map(_measured, run.trials)))


def _measured(trial: Trial) -> Measured:
    found = {name: getattr(trial.metrics, key) for name, key in METRICS.items()} if trial.done else {}
    values = {name: value for name, value in found.items() if value is not None}
    judged = {name: verdict_of(trial.numbers, name) for name in values}
    return Measured(
        id=trial.id,
        cell=Cell.of(trial.label, trial.batch, trial.point, trial.at),
        repeat=trial.repeat,
        started=trial.started,
        verdict=(trial.verdict or INVALID) if trial.done else FAILED,
        values=values,
        verdicts={name: of.verdict if of else INVALID for name, of in judged.items()},
        gst_s=() if trial.gst_s is None else tuple(trial.gst_s),
        world=trial.world,
        work=trial.work,
        spoilt_by={name: of.spoilt_by for name, of in judged.items() if of and of.spoilt_by},
    )


def value_text(metric: str, value: float) -> str:
    """A value with its unit."""
    return f"{value:.4g}" if metric == "throughput" else time_text(value, measured=True)


def _entry(trial: Measured) -> dict[str, Any]:
    """A trial as a baseline has it."""
    values = {name: _rounded(value) for name, value in trial.values.items()}
    found = {"id": trial.id, "repeat": trial.repeat, "started": trial.started, **values}
    found |= {"verdict": trial.verdict, "verdicts": dict(trial.verdicts)}
    found |= {} if trial.world is None else {"world": trial.world}
    found |= {} if trial.work is None else dict(zip(WORK, trial.work, strict=True))
    return found | ({"gst_s": [_rounded(value) for value in trial.gst_s]} if trial.gst_s else {})


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _text(value: Mapping[str, Any]) -> str:
    """JSON with sorted keys in which a trial, which holds no object but its verdicts, takes one line."""
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return (
        re.sub(r"\{[^{}]*\"verdicts\": \{[^{}]*\}[^{}]*\}", lambda found: re.sub(r"\n\s*", " ", found[0]), text) + "\n"
    )


def _from_baseline(path: Path) -> Side:
    another = "give a run's directory, or a baseline of it: testbed baseline RUN --out FILE.json"
    try:
        raw = read_object(path)
    except OSError as error:
        raise OutputError(f"{path}: {reason(error)}", fix=another) from None
    except UnfitError as error:
        raise OutputError(f"{path}: is not a baseline: {str(error).removeprefix('damaged, ')}", fix=another) from None
    if type(raw.get("schema")) is not int or "baseline" not in raw:
        raise OutputError(f"{path}: is not a baseline", fix=another)
    if raw["schema"] > SCHEMA:
        raise OutputError(
            f"{path}: schema {raw['schema']}; this version of testbed reads up to {SCHEMA}",
            fix="update testbed to the version that wrote the baseline",
        )
    try:
        check(raw, BASELINE)
        return Side(
            name=printable(str(path)),
            path=path.resolve(),
            experiment=str(raw["baseline"]),
            conditions=dict(raw["conditions"]),
            arms={label: dict(arm) for label, arm in raw["arms"].items()},
            trials=tuple(_entries(raw["cells"])),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise OutputError(
            f"{path}: damaged ({type(error).__name__}: {error})",
            fix=f"restore it, or make it anew: testbed baseline RUN --out {quote(str(path))}",
        ) from None


def _entries(cells: Iterable[Mapping[str, Any]]) -> Iterator[Measured]:
    for raw in cells:
        cell = Cell.of(str(raw["label"]), int(raw["batch"]), raw["point"], str(raw.get("at") or ""))
        known = set()
        for one in raw["trials"]:
            trial, values = str(one["id"]), {name: number(name, one[name]) for name in METRICS if name in one}
            if trial in known:
                raise ValueError(f"{cell} has the trial {trial} twice")
            known.add(trial)
            verdicts = dict.fromkeys(values, VALID if one["verdict"] == VALID else INVALID)  # of an older baseline
            if "verdicts" in one:
                verdicts = {name: _known(one["verdicts"][name], *VERDICTS) for name in values}
            yield Measured(
                id=trial,
                cell=cell,
                repeat=int(one["repeat"]),
                started=str(one["started"]),
                verdict=_known(one["verdict"], *VERDICTS, FAILED),
                values=values,
                verdicts=verdicts,
                gst_s=tuple(number("gst_s", value) for value in one.get("gst_s") or ()),
                world=None if one.get("world") is None else int(one["world"]),
                work=None if one.get(WORK[1]) is None else (int(one[WORK[0]]), int(one[WORK[1]])),
            )


def _known(verdict: object, *known: str) -> str:
    if verdict not in known:
        raise ValueError(f"a verdict is {verdict!r:.40}, not {' or '.join(known)}")
    return str(verdict)
