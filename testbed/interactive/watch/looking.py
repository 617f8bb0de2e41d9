"""Looks into a run directory from outside, at what goes on: cheap enough to look every other second."""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from testbed.base.errors import OutputError
from testbed.base.listing import counted
from testbed.base.printable import NOT_ON_A_LINE, printable
from testbed.files import foreign
from testbed.files.writing import names_in, opened_folder, read_json
from testbed.run_directory.access import is_idle
from testbed.run_directory.layout import MADE, STOP
from testbed.trial.files import WORK

TAIL_BYTES = 64 * 1024
"""Bytes of a log that are shown, at its end."""
MOST_LISTED = 2000
"""The most logs in the list."""


@dataclass(frozen=True)
class State:
    """State of a run: ``trial`` is the one that runs, ``goes_on`` is None where only the run's owner can see it."""

    goes_on: bool | None
    trial: str | None
    finished: int
    planned: int | None
    asked_to_stop: bool

    def __str__(self) -> str:
        of = f" of {self.planned}" if self.planned else ""
        return f"{self._now()}; trials finished: {self.finished}{of}"

    def _now(self) -> str:
        if self.goes_on is False:
            return "No run goes on here"
        if self.trial is None:
            now = "Only the run's owner can see whether it goes on" if self.goes_on is None else "Between trials"
        else:
            now = f"Running: {self.trial}"
        return f"{now}; the run ends after this trial" if self.asked_to_stop else now


def look(run: Path) -> State:
    """
    Raises:
        OutputError: its plan cannot be read.
    """
    goes_on = None
    with suppress(OutputError):
        goes_on = not is_idle(run)
    planned = read_json(run / MADE, run).get("planned")
    return State(
        goes_on=goes_on,
        trial=None if goes_on is False else next(iter(_names(run, WORK)), None),
        finished=len([name for name in _names(run, "trials") if name.endswith(".json") and not name.startswith(".")]),
        planned=planned if type(planned) is int else None,
        asked_to_stop=os.path.lexists(run / STOP),
    )


def stamp(run: Path) -> str:
    """Stamp that is another one after each record that is written: each is renamed within this folder."""
    with suppress(OSError):
        return str((run / "trials").stat(follow_symlinks=False).st_mtime_ns)
    return "0"


def logs(run: Path) -> list[tuple[str, list[str]]]:
    """List the trials with logs and the names of these, at most :data:`MOST_LISTED`, those of the newest trial
    first."""
    found = []
    left = MOST_LISTED
    for trial in _newest_first(run):
        names = sorted(_names(run, "logs", trial))[:left]
        left -= len(names)
        if names:
            found.append((trial, names))
    return found


def _newest_first(run: Path) -> list[str]:
    def made(trial: str) -> int:
        try:
            return (run / "logs" / trial).stat(follow_symlinks=False).st_mtime_ns
        except OSError:
            return 0

    return sorted(_names(run, "logs"), key=made, reverse=True)


def log(run: Path, trial: str, name: str) -> tuple[str, str]:
    """Read the end of a log, as a page can have it, and a stamp that is another one when the log has grown.

    Raises:
        UnfitError: there is no such log, or it is no regular file.
    """
    if not (_is_name(trial) and _is_name(name)):
        raise foreign.UnfitError("is no log of this run")
    path = run / "logs" / trial / name
    try:
        with foreign.opened(path, run) as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - TAIL_BYTES))
            tail = file.read(TAIL_BYTES)
    except OSError as error:
        raise foreign.UnfitError((error.strerror or str(error)).lower()) from None
    of = f"the last {TAIL_BYTES:,} of {size:,} bytes" if size > TAIL_BYTES else counted(size, "byte")
    lines = tail.replace(b"\r\n", b"\n").replace(b"\r", b"\n")  # a progress bar goes back to the start of its line
    return f"logs/{trial}/{name}: {of}\n\n{printable(lines.decode(errors='replace'))}", str(size)


def _is_name(text: str) -> bool:
    """Whether a text is one name of a file, printed as it is, and leads nowhere else."""
    return text not in ("", ".", "..") and "/" not in text and not NOT_ON_A_LINE.search(text)


def _names(run: Path, *folders: str) -> list[str]:
    """Names in a folder below a run directory, reached through no link; empty where there is none."""
    with suppress(OSError), ExitStack() as stack:
        at = stack.enter_context(opened_folder(run))
        for one in folders:
            at = stack.enter_context(opened_folder(one, at))
        return list(filter(_is_name, names_in(at)))
    return []
