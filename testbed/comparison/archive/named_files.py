"""The files that a run's spec names, such as its own topologies, schemes and scripts, as far as their content is what
the run says it was (:mod:`testbed.trial.input_files`)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from testbed.base.errors import UsageError
from testbed.base.printable import NOT_ON_A_LINE
from testbed.comparison.archive.imports import reached
from testbed.comparison.archive.packing import Entry
from testbed.files.foreign import UnfitError, read_bytes, reason
from testbed.run_directory import stored
from testbed.spec import Source
from testbed.trial.input_files import DATA, NO_FILE, checked, is_inside
from testbed.trial.inputs import MOST_BYTES, MOST_FILES, built_from

Records = Mapping[str, Mapping[str, Any]]
"""Records of trials, by their ids."""
SPEC = "spec"
"""The archive's folder with the spec and its files."""
NO_TRIAL = "no trial that ran tells its content; add it: --with NAME"
UNKNOWN = "the run knows its values, and not its files; add each of them: --with NAME"


@dataclass(frozen=True)
class Named:
    """The files that are taken, by name, why others are not, and the Python files that no script was found to import.
    All names are of files in ``folder``."""

    folder: Path
    entries: Sequence[Entry]
    lacking: Mapping[str, str]
    unused: Sequence[str]


def of(run: Path, records: Records, source: Source, more: Sequence[str] = ()) -> Named:
    """Collect the files that a run with these records and this spec names; also the files ``more`` of the spec's
    folder, whatever is in them.

    Raises:
        UsageError: one of ``more`` cannot be taken.
        OutputError: the run is damaged.
    """
    folder = Path(str(stored.made(run).get("folder") or ""))
    more = list(map(os.path.normpath, more))
    taken = {name: _asked_for(folder, name) for name in more}
    lacking: dict[str, str] = {}
    left_bytes = MOST_BYTES
    for name, digest in _digests(records).items():
        data = DATA.fullmatch(name)
        if data:
            written = data["set"] or data["corpus"]
            if not any(PurePosixPath(file).parts[0] in written for file in more):
                lacking[written] = UNKNOWN
        elif name not in taken and not NO_FILE.fullmatch(name):
            try:
                taken[name] = checked(folder, name, digest, left_bytes)
                left_bytes -= len(taken[name])
            except (OSError, ValueError) as error:
                lacking[name] = reason(error)
    lacking |= {name: NO_TRIAL for name in _named_by(source) if name not in taken and name not in lacking}
    unused = _unused(source, taken, {*taken, *lacking}).difference(more)
    entries = [Entry(f"{SPEC}/{name}", content) for name, content in sorted(taken.items()) if name not in unused]
    told = {NOT_ON_A_LINE.sub(" ", name): why for name, why in lacking.items() if name not in unused}
    return Named(folder, entries, told, sorted(unused & taken.keys()))


def _unused(source: Source, contents: Mapping[str, bytes], known: set[str]) -> set[str]:
    """Python files that a run of a script without ``inputs`` knows because they are below the spec's folder, and that
    the command does not lead to."""
    programs = [program for cell in source.grid.cells if (program := cell.spec.workload.program)]
    if not programs or any(program.inputs is not None for program in programs):
        return set()
    words = [word for program in programs for word in program.words]
    start = (_named_by(source) | set(map(os.path.normpath, words))) & known
    start |= {name for name in known if not name.endswith(".py")}
    return known - reached(" ".join(words), start, contents, known)


def _named_by(source: Source) -> set[str]:
    """The topologies, schemes and traces that the spec names, whether their trials ran or not."""
    named: list[str] = []
    for cell in source.grid.cells:
        named += built_from(cell.arm)
        named += (name for perturb in (*cell.spec.perturb, *cell.arm.perturb) for name in perturb.inputs)
    return set(map(os.path.normpath, named))


def _digests(records: Records) -> dict[str, str]:
    """Collect the digests by name that the trials of a run have recorded, as far as they agree."""
    digests: dict[str, str] = {}
    for record in records.values():
        for name, digest in (record.get("inputs") or {}).items():
            if digests.setdefault(str(name), str(digest)) != digest:
                digests[str(name)] = ""
    return dict(sorted(digests.items())[:MOST_FILES])


def _asked_for(folder: Path, name: str) -> bytes:
    """
    Raises:
        UsageError: it is no file of the spec's folder.
    """
    fix = f"name a file of the spec's folder, which is {folder}"
    if not is_inside(name):
        raise UsageError(f"--with {name}: is outside of the spec's folder", fix=fix)
    try:
        return read_bytes(folder / name, MOST_BYTES, folder)
    except (OSError, UnfitError) as error:
        raise UsageError(f"--with {name}: {reason(error)}", fix=fix) from None
