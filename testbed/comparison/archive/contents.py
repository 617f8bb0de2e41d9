"""Files of a run directory that go into an archive: what a run writes, by name. Anything else that lies there stays
out."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from testbed.analysis.comparing.measured import RERUN
from testbed.comparison.archive.named_files import SPEC
from testbed.comparison.archive.packing import Entry
from testbed.files.writing import read_json
from testbed.run_directory.layout import MADE, TABLES

RUN = "run"
"""The archive's folder with the run directory."""
FILES = ("spec.yaml", "env.json", "results.csv", "comparison.md", "comparison.json", "comparison.xml")
TRIALS = {"trials": ".json", **dict.fromkeys(("samples", *TABLES), ".parquet")}
"""Ending of the file that each trial may have there, by folder. Logs are left out: they hold what commands printed."""


def entries(run: Path) -> Iterator[Entry]:
    """All files of a run that was loaded before. What was measured once more is a run directory within it.

    Raises:
        OutputError: its resolved.json cannot be read.
    """
    yield from _of(run, run, RUN)
    if (run / RERUN / MADE).is_file():
        yield from _of(run, run / RERUN, f"{RUN}/{RERUN}")


def _of(run: Path, directory: Path, name: str) -> Iterator[Entry]:
    yield Entry(f"{name}/{MADE}", _moved(read_json(directory / MADE, run)))
    trials = [path.stem for path in sorted((directory / "trials").glob("*.json"))]
    inside = [f"{folder}/{trial}{ending}" for folder, ending in TRIALS.items() for trial in trials]
    for file in (*FILES, *inside):
        if os.path.lexists(directory / file):
            yield Entry(f"{name}/{file}", directory / file, run)


def _moved(resolved: dict[str, object]) -> bytes:
    """With the spec's folder as it is called in the archive: its name on this machine is nobody else's business."""
    text = json.dumps(resolved | {"folder": SPEC}, indent=2, ensure_ascii=False)
    return f"{text}\n".encode(errors="backslashreplace")
