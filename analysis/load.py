"""Read a run directory, of whomever it is: see :mod:`testbed.files.foreign`. Nothing is written, and no code is run."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from testbed.analysis.jobs import label_of, singly
from testbed.analysis.record.fields import read
from testbed.analysis.record.happened import Failover
from testbed.analysis.record.trial import Fidelity, Slot
from testbed.analysis.record.version import SCHEMA
from testbed.analysis.recorded import Run, Trial, tells_iterations, workload_of
from testbed.analysis.schema import ENVIRONMENT, RECORD, RESOLVED
from testbed.analysis.tables import trial as tables
from testbed.analysis.verdicts import numbers_of
from testbed.base.errors import OutputError
from testbed.base.limits import MOST_JOBS
from testbed.base.printable import printable
from testbed.files.foreign import UnfitError, read_bytes, read_object
from testbed.files.shape import Shape, check
from testbed.files.writing import check_name
from testbed.workloads import kinds

if TYPE_CHECKING:
    import pandas as pd

MOST_LISTED = 1000
"""The most entries of a folder in which a run is looked for that an error could name."""
LARGEST_SPEC_BYTES = 2**17
"""Twice as much as :mod:`testbed.spec.yaml` reads, for what ``--set`` changed stands above it."""


def check_run(path: Path) -> None:
    """Check that ``path`` is a run directory; the error names a run that is there, below it or beside it.

    Raises:
        OutputError: it is not.
    """
    if (path / "resolved.json").is_file():
        return
    problem = "not a run directory (it has no resolved.json)" if path.exists() else "there is no such run"
    runs: dict[str, Path] = {}
    with suppress(OSError):
        every = islice((path if path.is_dir() else path.parent).iterdir(), MOST_LISTED)
        runs = {each.name: each for each in sorted(every) if (each / "resolved.json").is_file()}
    if near := get_close_matches(path.name, runs, n=1):
        raise OutputError(f"{path}: {problem}", fix=f"did you mean {runs[near[0]]}?")
    example = next(iter(runs.values()), "runs/quickstart")
    raise OutputError(f"{path}: {problem}", fix=f"give the directory that testbed run wrote, such as {example}")


def load(run_dir: Path, *, samples: bool = True) -> Run:
    """Read a run directory; trials that are not there yet (an interrupted run) are simply absent. Without ``samples``
    the trials' tables, which take most of the time, are not read.

    Raises:
        OutputError: this is not a run directory, a newer version wrote it, or a file of it is damaged.
    """
    check_run(run_dir)
    resolved = _json(run_dir, "resolved.json", RESOLVED)
    warmup = workload_of(resolved).get("warmup") or 0
    trials = []
    left = tables.MOST_IN_ALL
    for path in sorted((run_dir / "trials").glob("*.json")):
        found = _trials(run_dir, path, warmup, samples)
        trials += found
        left -= sum(0 if trial.samples is None else trial.samples.size for trial in found)
        if left < 0:
            raise OutputError(
                f"{run_dir}: its samples are more than {tables.MOST_IN_ALL:,} values",
                fix="report fewer trials at a time: move some of its trials/*.json elsewhere",
            )
    trials.sort(key=lambda trial: trial.started)
    try:
        planned = [label for arm in resolved.get("arms") or () for label in _labels(arm)]
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(run_dir / "resolved.json", f"damaged ({error})") from None
    labels = tuple(dict.fromkeys(planned + [trial.label for trial in trials]))
    asked = _planned(resolved)
    if "planned" in resolved and len({trial.stored for trial in trials}) >= (asked or 0):  # arms left out never run
        labels = tuple(label for label in labels if any(trial.label == label for trial in trials)) or labels
    again = {(trial.label, trial.setting) for trial in trials if trial.repeat}
    trials = [replace(trial, repeated=(trial.label, trial.setting) in again) for trial in trials]
    points = {trial.at: i for i, trial in reversed(list(enumerate(trials)))}  # in the order in which they ran
    trials.sort(key=lambda trial: (trial.batch, trial.repeat, points[trial.at], labels.index(trial.label)))
    return Run(
        path=run_dir,
        name=printable(str(resolved.get("name") or run_dir.resolve().name)),
        spec=_spec(run_dir),
        resolved=resolved,
        environment=_json(run_dir, "env.json", ENVIRONMENT),
        labels=labels,
        trials=tuple(trials),
        planned=asked,
    )


def _planned(resolved: dict[str, Any]) -> int | None:
    if isinstance(resolved.get("planned"), int):
        return int(resolved["planned"])
    work = workload_of(resolved)
    arms, batches = resolved.get("arms"), work.get("batch", [0])
    repeats = resolved.get("repeats") or 1
    if not isinstance(arms, list) or not isinstance(batches, list) or not isinstance(repeats, int):
        return None
    return len(arms) * len(batches) * repeats


def _spec(run_dir: Path) -> str:
    """The spec's text, as a terminal may be given it; nothing where it is not there."""
    path = run_dir / "spec.yaml"
    try:
        return printable(read_bytes(path, LARGEST_SPEC_BYTES, run_dir).decode(errors="replace"))
    except FileNotFoundError:
        return ""
    except (OSError, UnfitError) as error:
        raise OutputError(f"{path}: {error}", fix="restore it from a copy, or remove it") from None


def _damaged(path: Path, why: str) -> OutputError:
    """The error for a file of a run, with what to delete so that the run repeats it."""
    if path.name == "resolved.json":
        return OutputError(f"{path}: {why}", fix="restore it from a copy, or run the spec again into a new directory")
    samples = path.suffix == ".parquet"
    culprit = path.parent.parent / "trials" / f"{path.stem}.json" if samples else path
    run_dir = path.parent if path.name == "env.json" else path.parent.parent
    return OutputError(f"{path}: {why}", fix=f"rm -f {quote(str(culprit))}; testbed run --resume {quote(str(run_dir))}")


def _json(run_dir: Path, name: str, of: Shape) -> dict[str, Any]:
    """A JSON object of a run, of a schema that we know, and of this shape."""
    path = run_dir / name
    try:
        value = read_object(path, run_dir)
    except UnfitError as error:
        raise _damaged(path, str(error)) from None
    except OSError as error:
        raise _damaged(path, (error.strerror or str(error)).lower()) from None
    schema = value.get("schema")
    if type(schema) is not int:
        raise _damaged(path, f"damaged, its schema is {schema!r:.40}")
    if schema > SCHEMA:
        raise OutputError(
            f"{path}: schema {schema}; this version of testbed reads up to {SCHEMA}",
            fix="update testbed to the version that wrote the run",
        )
    try:
        check(value, of)
    except ValueError as error:
        raise _damaged(path, f"damaged ({error})") from None
    return value


def _labels(arm: dict[str, Any]) -> list[str]:
    """Label the rows of an arm, as its resolved spec says: by its jobs, if it has some."""
    label, jobs = str(arm["label"]) if "label" in arm else "", arm.get("jobs") or ()
    if sum(int(job["copies"]) for job in jobs) > MOST_JOBS:
        raise ValueError(f"an arm has more than {MOST_JOBS} jobs, copies included")
    names = [
        f"{job['name']}-{number}" if job["copies"] > 1 else str(job["name"])
        for job in jobs
        for number in range(1, int(job["copies"]) + 1)
    ]
    return [label_of(label, name) for name in names] or ([label] if label else [])


def _trials(run_dir: Path, path: Path, warmup: int, with_samples: bool) -> list[Trial]:
    record = _json(run_dir, f"trials/{path.name}", RECORD)
    try:
        check_name(path, record["id"])
        singles = singly([record])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(path, f"damaged ({error})") from None
    return [_trial(run_dir, path, raw, warmup, with_samples) for raw in singles]


def _trial(run_dir: Path, path: Path, raw: dict[str, Any], warmup: int, with_samples: bool) -> Trial:
    try:
        done, kind = raw["status"] == "done", kinds.of_record(raw)
        warmup = min(warmup, int(raw.get("warmup", warmup)))
        judged, failover = read(Fidelity, raw.get("fidelity")), read(Failover, raw.get("failover"))
        needs_samples = done and tells_iterations(kind)
        return read(
            Trial,
            raw,
            done=done,
            verdict=judged.verdict,
            checks=judged.checks,
            numbers=numbers_of(raw.get("fidelity") or {}),
            recoveries=failover.recoveries,
            losses=failover.losses,
            kind=kind,
            warmup=warmup,
            slot=read(Slot, raw) if raw["id"] != path.stem else None,  # each job of several has an id of its own
            stored=(run_dir, path.stem),
            samples=read_samples(run_dir, str(raw["id"]), needs_samples, warmup) if with_samples else None,
        )
    except KeyError as error:
        raise _damaged(path, f"damaged, {error.args[0]!r} is missing") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise _damaged(path, f"damaged ({error})") from None


def read_samples(run_dir: Path, trial: str, needed: bool, warmup: int) -> pd.DataFrame | None:
    """The table of one trial; None where it is not there, and is not ``needed``.

    Raises:
        OutputError: it is damaged, larger than a table may be, or missing; or it has no iteration after the warm-up.
    """
    path = run_dir / "samples" / f"{trial}.parquet"
    if not path.exists() and not needed:
        return None
    try:
        samples = tables.samples(path, run_dir)
    except UnfitError as error:
        raise _damaged(path, str(error)) from None
    except OSError as error:
        reason = "missing" if isinstance(error, FileNotFoundError) else (error.strerror or str(error)).lower()
        raise _damaged(path, reason) from None
    iterations = samples["iteration"].nunique()
    if needed and iterations <= warmup:
        raise _damaged(path, f"damaged, it has {iterations} iterations, of which {warmup} are warm-up (resolved.json)")
    return samples
