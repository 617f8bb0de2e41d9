"""Meaning and unit of every field of a trial's JSON, and of every column of its tables and of results.csv.

Fields are declared in :mod:`testbed.analysis.record`. ``docs/generate/dictionary.py`` makes a page of them. Tests hold
the records of real trials against them, so a field cannot be written without a definition. Readers of runs, whose files
others may have written, use the looser :mod:`testbed.analysis.schema`.
"""

from __future__ import annotations

from collections.abc import Mapping

from testbed.analysis.record.columns import of_every_run, of_jobs
from testbed.analysis.record.fields import Field, Part, by_path
from testbed.analysis.record.tables import CollectiveCall, Sample, Transfer, Window
from testbed.analysis.record.trial import Slot, TrialRecord


def _of(part: type[Part]) -> Mapping[str, Field]:
    return dict(by_path(part))


JOB, RECORD = _of(Slot), _of(TrialRecord)
RESULTS, SAMPLES = {**of_every_run(), **of_jobs()}, _of(Sample)
QUEUES, TRANSFERS, COLLECTIVES = _of(Window), _of(Transfer), _of(CollectiveCall)
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
    "collectives/*.parquet": (
        "A row for each collective and rank of a script under a scheme, the first 200,000 of a trial. "
        "`testbed trace timeline` draws them.",
        COLLECTIVES,
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
