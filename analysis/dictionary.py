"""Meaning and unit of every field of a trial's JSON, and of every column of its tables and of results.csv.

Fields are declared in :mod:`testbed.analysis.record`. ``docs/generate/dictionary.py`` makes a page of them. Tests hold
the records of real trials against them with :func:`faults`, so a field cannot be written without a definition. Readers
of runs, whose files others may have written, use the looser :mod:`testbed.analysis.schema`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from testbed.analysis.record.columns import of_every_run, of_jobs
from testbed.analysis.record.fields import Field, Part, by_path
from testbed.analysis.record.tables import Sample, Transfer, Window
from testbed.analysis.record.trial import TrialRecord
from testbed.analysis.record.work import Slot


def _of(part: type[Part]) -> Mapping[str, Field]:
    return dict(by_path(part))


JOB, RECORD = _of(Slot), _of(TrialRecord)
RESULTS, SAMPLES = {**of_every_run(), **of_jobs()}, _of(Sample)
QUEUES, TRANSFERS = _of(Window), _of(Transfer)
FILES: Mapping[str, tuple[str, Mapping[str, Field]]] = {
    "results.csv": (
        "A row for each trial. After these columns come the fields that a sweep varies, by their names.",
        RESULTS,
    ),
    "samples/*.parquet": (
        "A row for each worker and iteration. An added kind of trial may have more columns.",
        SAMPLES,
    ),
    "queues/*.parquet": (
        "A row for each directed link and window of time in which something waited or was dropped. Queues are read "
        "every 20 ms, or less often where that would take more than about 1 % of a core. A trial has at most 2,000 "
        "windows, and no file if its lab cannot read queues. Packets that netem delays wait in the same queue.",
        QUEUES,
    ),
    "transfers/*.parquet": (
        "A row for each transfer that was planned and began, by the moment at which it was to begin. Only kinds of "
        "trial that plan their transfers have this file (MLfabric). An update has one row, or two if it went in a "
        "sum: its own, and that of the sum. Weights that go over another host have a row for each part of their way.",
        TRANSFERS,
    ),
    "trials/*.json": ("One trial. Fields are of the last attempt, unless they name another.", RECORD),
}
"""Description and fields of each file, by the file's name."""


def faults(record: object) -> list[str]:
    """List what a trial's JSON has that is not defined here, or of another kind; by path."""
    found = []
    for path, value in (leaf for part in _parts(record) for leaf in _leaves(part)):
        field = RECORD.get(path)
        if field is None:
            found.append(f"{path}: no such field")
        elif value is not None and not field.kind.has(value):
            found.append(f"{path} is {value!r:.40}, no {field.kind.name}")
    return found


def _parts(record: object) -> Iterator[object]:
    """A record with what its jobs have for themselves; and the rest of each job, which is as of a trial."""
    jobs = record.get("jobs") if isinstance(record, Mapping) else None
    if not isinstance(record, Mapping) or not jobs:
        yield record
        return
    own = {name.removesuffix("[]") for name in JOB}
    yield {**record, "jobs": [{key: value for key, value in job.items() if key in own} for job in jobs]}
    yield from ({key: value for key, value in job.items() if key not in own} for job in jobs)


def _leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Each value that is neither an object nor a list, with its path; of an object that is null, nothing."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{_any(path, str(key))}".strip("."))
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, f"{path}[]")
    elif value is not None or not any(known.startswith((f"{path}.", f"{path}[]")) for known in RECORD):
        yield path, value


def _any(path: str, key: str) -> str:
    """``*`` where any key may stand that has no definition of its own."""
    own = f"{path}.{key}"
    if any(known == own or known.startswith((f"{own}.", f"{own}[")) for known in RECORD):
        return key
    return "*" if any(known.startswith(f"{path}.*") for known in RECORD) else key
