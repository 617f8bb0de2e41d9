"""Files that a program's ranks wrote: kept in the run directory where the spec wants them, and told of where not.

A rank is not trusted, nor is a machine: names are checked, sizes are bounded, no link is followed, and what is kept are
plain files of ours (:mod:`testbed.files.foreign`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from testbed.base.errors import LabError
from testbed.base.listing import counted, shortened
from testbed.base.printable import printable
from testbed.base.units import size_text
from testbed.files.foreign import Listing, UnfitError, listed, read_piece, reason
from testbed.files.writing import named_errors, opened_folder, whole_file
from testbed.lab.base import PIECE_BYTES, Lab
from testbed.trial.files import Files
from testbed.trial.inputs import matcher
from testbed.trial.model import Trial

MOST_BYTES = 2**30
"""The most bytes that are kept of a rank, and of the folder that all share."""
MOST_FILES = 2000
"""The most files that are kept of each."""
MOST_NAMED = 5
"""How many names a line has."""
PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")
"""Names that YAML takes without quotes."""
SHARED = "shared"
File = tuple[str, int]
"""Name and size of a file."""


@dataclass(frozen=True)
class Source:
    """A folder that ranks wrote to.

    Attributes:
        name: of the folder in which its files are kept.
        writer: who wrote there, in words.
        listing: lists its files.
        piece: reads a piece of a file, from an offset on.
    """

    name: str
    writer: str
    listing: Callable[[], Listing]
    piece: Callable[[str, int], bytes]


def keep(trial: Trial, lab: Lab, files: Files) -> list[str]:
    """Keep the outputs of a program's ranks while its network is up; return what is to be told of other files.

    Raises:
        DiskFullError, OutputError: the run directory cannot be written.
    """
    found: list[tuple[Source, Listing]] = []
    lost: dict[str, list[str]] = {}
    told: list[str] = []
    for source in _sources(trial, lab, files):
        try:
            listing = source.listing()
            _check(listing)
        except (LabError, OSError, UnfitError) as error:
            why = error.problem if isinstance(error, LabError) else reason(error)
            lost.setdefault(why, []).append(source.writer)
            continue
        told += [] if listing.is_whole else [f"{source.writer} wrote more files than are looked at"]
        found.append((source, listing))
    told += [f"what {shortened(some, MOST_NAMED)} wrote is lost: {why}" for why, some in lost.items()]
    programs = [program for job in trial.jobs if (program := job.workload.program)]
    fits = {pattern: matcher(pattern.strip("/")) for program in programs for pattern in program.outputs}
    rest, fitting = list[tuple[str, File]](), set[str]()
    for source, listing in found:
        by_file = {one: [pattern for pattern, fit in fits.items() if _is(fit, one[0])] for one in listing.files}
        fitting.update(pattern for some in by_file.values() for pattern in some)
        rest += [(source.writer, one) for one, some in by_file.items() if not some]
        told += _copied(source, [one for one, some in by_file.items() if some], files.outputs)
    told += [f"{_wrote(rest)} that are not kept: outputs: [{_names(rest)}]"] if rest else []
    return told + [f"outputs: no rank wrote {one}" for one in fits if one not in fitting]


def _sources(trial: Trial, lab: Lab, files: Files) -> Iterator[Source]:
    folder = trial.network.folder.resolve()
    for rank, node in enumerate(trial.job.plan.workers):
        piece = partial(lab.read_written, node, folder)
        yield Source(f"rank{rank}", trial.topology.nodes[node].name, partial(lab.written, node, folder), piece)
    yield Source(SHARED, "ranks in TESTBED_SHARED", partial(listed, files.shared), partial(_piece, files.shared))


def _piece(folder: Path, name: str, offset: int) -> bytes:
    """
    Raises:
        LabError: the file cannot be read.
    """
    try:
        return read_piece(folder, name, offset, PIECE_BYTES)
    except (OSError, UnfitError) as error:
        raise LabError(reason(error)) from None


def _check(listing: Listing) -> None:
    """
    Raises:
        UnfitError: a name leads elsewhere, or names a file and a folder.
    """
    folders = {folder for name, _ in listing.files for folder in PurePosixPath(name).parents}
    for name, _ in listing.files:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or "\0" in name or str(path) != name or path in folders:
            raise UnfitError(f"{name!r:.200} is no name of a file below its folder")
    if len({name for name, _ in listing.files}) < len(listing.files):
        raise UnfitError("a name is listed twice")


def _is(fit: Callable[[str], bool], name: str) -> bool:
    """Whether a pattern fits a file, or a folder that it is in."""
    path = PurePosixPath(name)
    return any(fit(str(one)) for one in (path, *path.parents[:-1]))


def _copied(source: Source, wanted: Sequence[File], outputs: Path) -> list[str]:
    """Copy files of a folder; return what is to be told of those that cannot be kept."""
    if not wanted:
        return []
    left_bytes, beyond, failed = MOST_BYTES, list[tuple[str, File]](), list[str]()
    with named_errors(outputs), opened_folder(outputs.parent.parent) as run, ExitStack() as stack:
        folder = run
        for name in (outputs.parent.name, outputs.name, source.name):
            folder = stack.enter_context(_made(name, folder))
        for number, (name, size_bytes) in enumerate(wanted):
            if size_bytes > left_bytes or number >= MOST_FILES:
                beyond.append((source.writer, (name, size_bytes)))
                continue
            left_bytes -= size_bytes
            try:
                _copy(source, name, size_bytes, folder)
            except LabError as error:
                failed.append(f"{printable(name):.200}: {error.problem}")
    most = f"the {size_text(MOST_BYTES)} and {MOST_FILES:,} files that are kept of each rank"
    told = [f"{_wrote(beyond)} beyond {most}: {_names(beyond)}"] if beyond else []
    return told + ([f"{source.writer}: {counted(len(failed), 'file')} not kept: {failed[0]}"] if failed else [])


def _copy(source: Source, name: str, size_bytes: int, top: int) -> None:
    """Copy a file, as long as it was listed, into the folder that is open as ``top``.

    Raises:
        LabError: it cannot be read.
    """
    *folders, last = PurePosixPath(name).parts
    with ExitStack() as stack:
        folder = top
        for one in folders:
            folder = stack.enter_context(_made(one, folder))
        with whole_file(Path(last), 0o644, folder) as file:
            while file.tell() < size_bytes and (data := source.piece(name, file.tell())):
                file.write(data[: size_bytes - file.tell()])


@contextmanager
def _made(name: str, below: int) -> Iterator[int]:
    """Open a folder, made if it is not there; return its descriptor."""
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=below)
    with opened_folder(name, below) as folder:
        yield folder


def _wrote(rest: Sequence[tuple[str, File]]) -> str:
    """Say who wrote how much: ``h0, h1 wrote 3 files (2.1 MiB)``."""
    writers = shortened(list(dict.fromkeys(writer for writer, _ in rest)), MOST_NAMED)
    return f"{writers} wrote {counted(len(rest), 'file')} ({size_text(sum(size for _, (_, size) in rest))})"


def _names(rest: Sequence[tuple[str, File]]) -> str:
    """Name files as ``outputs`` takes them: the folder that one is in, with a slash, or the file itself."""
    parts = [PurePosixPath(name).parts for _, (name, _) in rest]
    tops = dict.fromkeys(f"{first}/" if more else first for first, *more in parts)
    plain = [top if PLAIN.fullmatch(top) else repr(printable(top)) for top in tops]
    return shortened(plain, MOST_NAMED)
