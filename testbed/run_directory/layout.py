"""Names in a run directory, and the name of a new directory."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from fnmatch import fnmatchcase
from glob import escape
from pathlib import Path

from testbed.analysis.jobs import id_of
from testbed.files.writing import named_errors, temporaries

LOCK = ".lock"
"""File that is locked by the run that writes here, and let go by the kernel however that ends. It also tells that a
directory is ours, so that a run that was killed before it had made one whole can be started anew."""
MADE = "resolved.json"
"""File that is written last when a directory is made."""
TABLES = ("queues", "transfers", "collectives")
"""Folders with tables of trials, besides samples: not every trial has them."""
FOLDERS = ("trials", "samples", *TABLES, "logs")
RUNS = Path("runs")
"""Folder of the run directories that nobody named."""
STOP = "stop"
"""File that asks the run that writes here to end before its next trial."""
PARTS = (LOCK, *FOLDERS, "spec.yaml", temporaries("spec.yaml"), temporaries(MADE))
"""Patterns of the files that are there before :data:`MADE`."""


def new_directory(name: str) -> Path:
    """Make a new directory under runs/, also where another run of that name has started within this second."""
    base = RUNS / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
    for number in itertools.count(1):
        path = base if number == 1 else base.with_name(f"{base.name}-{number}")
        with named_errors(path), suppress(FileExistsError):
            path.mkdir(parents=True)
            break
    return path


def is_half_made(path: Path) -> bool:
    """Whether a directory holds what a run that was killed while it made the directory leaves, and nothing else: no
    results, and no links."""
    found = list(path.iterdir())
    known = all(any(fnmatchcase(one.name, part) for part in PARTS) and not one.is_symlink() for one in found)
    filled = any(inner for one in FOLDERS for inner in (path / one).glob("*"))
    return known and LOCK in {one.name for one in found} and not filled


def files_of(run: Path, trial: str) -> Iterator[str]:
    """Yield the paths of all files of a trial, relative to the run: its record, its tables and those of its jobs, and
    the files in the folders of its logs and outputs. Not every trial has all."""
    jobs = sorted(path.stem for path in (run / "samples").glob(f"{id_of(escape(trial), '*')}.parquet"))
    tables = [("samples", trial), *(("samples", job) for job in jobs), *((folder, trial) for folder in TABLES)]
    for name in (f"trials/{trial}.json", *(f"{folder}/{stem}.parquet" for folder, stem in tables)):
        if os.path.lexists(run / name):
            yield name
    for folder, _, files in (*os.walk(run / "logs" / trial), *os.walk(run / "outputs" / trial)):
        yield from (str((Path(folder) / file).relative_to(run)) for file in sorted(files))
