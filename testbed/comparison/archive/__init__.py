"""A run in one file for somebody else: what was measured, what it depended on, and the command that runs it again.

``named_files`` knows what goes in: the run's files, those that the spec names and those that a script imports.
``facts`` makes the command, ``requirements`` the versions of packages, ``readme`` and ``crate`` the pages for people
and for programs; ``packing`` writes the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed.analysis.load import load
from testbed.analysis.report import text as report_text
from testbed.base.errors import OutputError, UsageError
from testbed.comparison.archive import crate, named_files, packing, readme, requirements
from testbed.comparison.archive.facts import Facts, command_again
from testbed.comparison.archive.packing import Entry
from testbed.run_directory import stored
from testbed.run_directory.access import check_idle
from testbed.run_directory.resolved import without_changes
from testbed.topologies.load import no_code

ENDING = ".tar.gz"
FIX = "look at the run: testbed report RUN"


@dataclass(frozen=True)
class Archived:
    """Result of archiving.

    Attributes:
        path: the file.
        size_bytes: its size.
        done: how many trials of the run are finished.
        planned: how many it was to have; None if it does not say.
        in_all: how many it has in all, with rounds that were added while it ran.
        folder: the spec's, from which files are named.
        files: what the spec names, and is in the archive.
        lacking: by name, what the spec needs besides, and why it is not in the archive.
        unused: Python files below the folder of a script that are not in the archive, since nothing imports them.
    """

    path: Path
    size_bytes: int
    done: int
    planned: int | None
    in_all: int
    folder: Path
    files: Sequence[str]
    lacking: Mapping[str, str]
    unused: Sequence[str]


def archive(run: Path, out: Path | None = None, more: Sequence[str] = ()) -> Archived:
    """Make one file of a run directory, which stays as it is, and may be somebody else's. None of its code is run.

    Args:
        out: the new file; by default it is called as the run, beside it.
        more: names of files in the spec's folder that are to be in it, although the run does not tell their content.

    Raises:
        UsageError: ``out`` is within the run, or does not end in .tar.gz; a file of ``more`` is not one.
        OutputError: this is no run directory, a run is writing into it, a file of it is damaged, a link or too large;
            or ``out`` is there already, or cannot be written.
        SpecError: this version does not take its spec.
    """
    if not run.is_dir():
        problem = "is no directory" if run.exists() else "there is no such directory"
        raise OutputError(f"{run}: {problem}", fix="give the directory that testbed run wrote")
    path = out or _beside(run)
    recorded = load(run, samples=False)
    check_idle(run)
    _check_out(run, path)
    with no_code("testbed archive", FIX):
        source = stored.source_of(run)
    records = stored.records(run)
    named = named_files.of(run, records, source, more)
    facts = Facts(recorded, source.spec.name, records, command_again(recorded, records, source), named.lacking)
    kept = list(named_files.entries(run))
    entries = [
        Entry("README.md", readme.page(facts, [entry.name for entry in kept]).encode()),
        Entry("report.html", report_text([run]).encode()),
        Entry("requirements.txt", requirements.text(recorded.environment).encode()),
        Entry(facts.spec_name, without_changes(stored.spec_text(run)).encode()),
        *(entry for entry in named.entries if entry.name != facts.spec_name),
        *kept,
    ]
    entries.append(Entry(crate.NAME, crate.text(facts, entries).encode()))
    size_bytes = packing.pack(path, _stem(path), entries, facts.ended_s)
    files = [entry.name for entry in named.entries]
    return Archived(
        *(path, size_bytes, facts.done, recorded.planned, facts.in_all),
        *(named.folder, files, named.lacking, named.unused),
    )


def _beside(run: Path) -> Path:
    whole = run if run.name not in ("", "..") else run.resolve()
    return whole.with_name(whole.name + ENDING)


def _stem(path: Path) -> str:
    """The one folder at the top of the archive."""
    return re.sub(r"[^\w.-]", "-", path.name.removesuffix(ENDING), flags=re.A)


def _check_out(run: Path, path: Path) -> None:
    """
    Raises:
        UsageError: an archive cannot be called so, or be there.
    """
    if not path.name.endswith(ENDING) or not _stem(path).strip("."):
        name = f"{path.stem.strip('.') or 'mine'}{ENDING}"
        problem = f"--out {path}: an archive's name ends in {ENDING}"
        raise UsageError(problem, fix=f"write it as --out {path.parent / name}")
    if path.resolve().is_relative_to(run.resolve()):
        raise UsageError(f"--out {path}: is within the run, which stays as it is", fix="name a file outside of it")
    packing.check_new(path)
