"""The files of a run directory, read back with bounds and checked: somebody else may have made them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from testbed.analysis.jobs import singly
from testbed.analysis.schema import ENVIRONMENT, RECORD, RESOLVED
from testbed.analysis.verdicts import numbers_of
from testbed.base.errors import OutputError
from testbed.files import foreign, writing
from testbed.files.shape import Shape, check
from testbed.files.writing import check_name, read_json
from testbed.run_directory.layout import MADE
from testbed.run_directory.resolved import chosen
from testbed.spec import Source, read
from testbed.spec.model import MOST_REPEATS, TOPPED_UP
from testbed.spec.yaml import LIMIT_BYTES, as_text
from testbed.workloads.kinds import has_iterations

NEEDED = ("id", "identity", "label", "batch", "status", "kind", "error", "metrics", "accuracy", "fidelity", "links")
"""Keys that every record has."""
MEASURED = ("jct_s", "gst_median_s", "gst_theory_s")
"""Metrics that every trial that is done has, the first also of a command."""
TOLD = "throughput_sps"
"""Metric that a trial has, or null if its ranks are scripts that tell of no samples."""


def source_of(path: Path, more: Sequence[str] = ()) -> Source:
    """Read the spec that the run in ``path`` was started with, ``--set`` included, and ``more`` of these.

    Raises:
        OutputError, SpecError: it cannot be read, or this version does not take it.
    """
    meta = made(path)
    lacking = [key for key in ("name", "folder", "overrides") if meta.get(key) is None]
    if lacking:
        raise OutputError(f"{path / MADE}: damaged, {lacking[0]!r} is missing", fix="restore it from a copy")
    overrides = [*meta["overrides"], *more]
    # Its name may have been that of the file, so it is given here.
    return read(spec_text(path), f"{path}/spec.yaml", Path(meta["folder"]), overrides, chosen(meta), meta["name"])


def spec_text(run: Path) -> str:
    """
    Raises:
        OutputError: it cannot be read, or is larger than a spec.
        SpecError: it is not text.
    """
    path = run / "spec.yaml"
    try:
        return as_text(path, foreign.read_bytes(path, 2 * LIMIT_BYTES, run))  # a spec, and what --set changed
    except (OSError, foreign.UnfitError) as error:
        raise OutputError(f"{path}: {foreign.reason(error)}", fix="restore it from a copy") from None


def made(path: Path) -> dict[str, Any]:
    """Read ``resolved.json`` of the run in ``path``.

    Raises:
        OutputError: it is damaged.
    """
    return _checked(path, path / MADE, RESOLVED)


def part(path: Path) -> tuple[int, int] | None:
    """Read which part of how many of the experiment runs here; None where it is the whole."""
    found = made(path).get("part")
    return (found[0], found[1]) if found else None


def most_rounds(path: Path) -> int | None:
    """Read how many rounds the run in ``path`` may have, where a gate may have added some.

    Raises:
        OutputError: it is damaged.
    """
    found = made(path).get("most_rounds")
    if found is not None and (type(found) is not int or not 1 <= found <= TOPPED_UP * MOST_REPEATS):
        raise OutputError(f"{path / MADE}: damaged, its most_rounds is {found!r:.40}", fix="restore it from a copy")
    return found


def environment(path: Path) -> dict[str, Any]:
    """Read ``env.json`` of the run in ``path``; empty where there is none.

    Raises:
        OutputError: it is damaged.
    """
    there = path / "env.json"
    return _checked(path, there, ENVIRONMENT) if os.path.lexists(there) else {}


def records(run: Path) -> dict[str, dict[str, Any]]:
    """Read the records of the run in ``run``, by trial.

    Raises:
        OutputError: one is damaged, or has another trial's name.
    """
    found = {path: read_record(run, path) for path in sorted((run / "trials").glob("*.json"))}
    for path, record in found.items():
        check_name(path, record["id"])
        _check_judged(path, record)
    return {path.stem: record for path, record in found.items()}


def record(run: Path, trial_id: str) -> dict[str, Any] | None:
    """Read the record of a trial of the run in ``run``, finished or failed; None where there is none.

    Raises:
        OutputError: it is damaged, or another trial's.
    """
    path = run / "trials" / f"{trial_id}.json"
    if not path.exists():
        return None
    found = read_record(run, path)
    check_name(path, found.get("id"))
    _check_judged(path, found)
    return found


def read_record(run: Path, path: Path) -> dict[str, Any]:
    """Read a trial's record, in the file ``path`` of the run in ``run``.

    Raises:
        OutputError: it is damaged.
    """
    found = _checked(run, path, RECORD)
    lacking = [key for key in NEEDED if key not in found]
    if lacking:
        raise OutputError(f"{path}: damaged, {lacking[0]!r} is missing", fix="remove it, and its trial runs again")
    return found


def _check_judged(path: Path, record: Mapping[str, Any]) -> None:
    """Check that a finished trial's verdict can be read, on which it depends whether it is measured again.

    Raises:
        OutputError: it is damaged.
    """
    if record.get("status") != "done":
        return
    try:
        readable = _is_readable(record, MEASURED[:1])
        for one in singly([record]):
            if one["status"] == "done":
                readable &= _is_readable(one, MEASURED if has_iterations(one) else MEASURED[:1])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        readable, why = False, f"{type(error).__name__}: {error}"
    else:
        why = "a check is neither true nor false"
    if not readable:
        raise OutputError(f"{path}: damaged ({why:.100})", fix="remove it, and its trial runs again")


def _is_readable(record: Mapping[str, Any], measured: Sequence[str]) -> bool:
    """Whether the checks of a trial or of a job say something; its numbers are numbers."""
    judged = record["fidelity"]
    numbers_of(judged)
    for name in measured:
        writing.number(name, record["metrics"][name])
    if record["metrics"].get(TOLD) is not None:
        writing.number(TOLD, record["metrics"][TOLD])
    return bool(judged["verdict"]) and all(isinstance(one["ok"], bool) for one in judged["checks"])


def _checked(run: Path, path: Path, of: Shape) -> dict[str, Any]:
    """Read a JSON object in a run's directory, which somebody else may have made.

    Raises:
        OutputError: it is damaged.
    """
    found = read_json(path, run)
    try:
        check(found, of)
    except ValueError as error:
        raise OutputError(f"{path}: damaged ({error})", fix="restore it from a copy, or remove it") from None
    return found
