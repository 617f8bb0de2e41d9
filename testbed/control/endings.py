"""Endings of processes, from what they left: their samples files, their last words, and the ends of their logs. Where a
log's last line does not say what to change, a traceback in it may lead to the cause."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from testbed.base import old_names
from testbed.base.errors import TrialError, WorkerError
from testbed.base.listing import shortened
from testbed.base.printable import printable
from testbed.control.feed import MOST_BYTES
from testbed.control.worker_lines import check_said, said
from testbed.files import foreign
from testbed.files.foreign import UnfitError
from testbed.lab.programs import Exit
from testbed.trial.files import Files
from testbed.workloads.kinds.base import AnyKind
from testbed.workloads.rank_job import LONGEST_POSITION

_FRAME = re.compile(r'\s*File "(?P<file>[^"]+)", line (?P<line>\d+)')
_NO_GPU = re.compile(
    r"Torch not compiled with CUDA enabled|No CUDA GPUs are available|Found no NVIDIA driver|cudaGetDeviceCount|"
    r"(?:no|No) CUDA-capable device|Attempting to deserialize object on a CUDA device"
)
_NO_PACKAGE = re.compile(r"No module named '(\w+)\.[\w.]+'; '\1' is not a package")
_MISSING = re.compile(r"ModuleNotFoundError: No module named '(\w+)([\w.]*)'")
_LACKING = re.compile(
    r"(?:partially initialized )?module '(\w+)' has no attribute|"
    r"cannot import name '\w+' from (?:partially initialized module )?'(\w+)'"
)
_RANK = re.compile(r"^\[rank\d+\]: ")
"""Prefix that PyTorch gives each line of a traceback."""
_OURS = re.compile(r"testbed\.[\w.]+: ")
_INSTALLED = ("site-packages", "dist-packages", f"python{sys.version_info.major}.")
"""Parts of paths of files that are not the user's."""
LONGEST_LAST = 200
"""Characters of a log's last line in a sentence."""
TAIL_LINES, TAIL_BYTES, LONGEST_SHOWN = 12, 2**16, 1000
"""Lines and bytes at the end of a log that are told of it, and characters of a line; longer ones are cut."""
TRACEBACK_LINES = 100
"""Lines at the end of a log in which a traceback is looked for."""
MOST_NAMED = 5
"""The most nodes that an error names."""
PYTHON_FAILED = 1
"""Exit status of Python after an exception that nothing caught."""
OUT_OF_MEMORY = "unless somebody did that, memory ran out: see dmesg, then take fewer workers or a smaller batch"


class _Frame(NamedTuple):
    file: str
    line: int
    code: str


def raised(lines: Sequence[str]) -> tuple[str, str | None]:
    """Return the exception of a log's last traceback, and the fix that it names; empty where there is no traceback."""
    plain = [_RANK.sub("", line) for line in lines]
    begins = [i for i, line in enumerate(plain) if line.startswith("Traceback (most recent call last)")]
    after = plain[begins[-1] + 1 :] if begins else []
    said = next((i for i, line in enumerate(after) if line and not line[0].isspace()), None)
    if said is None:
        return "", None
    ours = _OURS.match(after[said])
    named = next((line.strip() for line in after[said + 1 :] if ours and line.startswith("  fix: ")), "")
    return after[said][ours.end() if ours else 0 :], named.removeprefix("fix: ") or None


def remedy(lines: Sequence[str], lacks: Callable[[str], str]) -> str | None:
    """Say what to change after the failure that the last lines of a log tell of; None if they tell of no known one.
    ``lacks`` says how a missing module is added."""
    frames = [one for one in _frames(lines) if not any(part in one.file for part in _INSTALLED)]
    for line in reversed(lines):
        if _NO_GPU.search(line) and frames:
            last = frames[-1]
            return f"hosts have no GPU: change line {last.line} of {last.file}" + (
                f", {last.code}" if last.code else ""
            )
        if name := _hidden(line):
            folders = dict.fromkeys(Path(one.file).parent for one in frames)
            if hiding := next((path for one in folders if (path := one / f"{name}.py").is_file()), None):
                return f"{hiding} hides the module {name}: give it another name"
    if missing := _MISSING.match(raised(lines)[0]):
        if missing[1] == "testbed" and missing[2]:
            return "set testbed up again; if the module is still missing and is no name of your script's, report it"
        return f"{lacks(missing[1])}, or put your own {missing[1]}.py beside the script"
    return None


def _frames(lines: Sequence[str]) -> Iterator[_Frame]:
    for line, after in zip(lines, [*lines[1:], ""], strict=False):
        if found := _FRAME.match(line):
            yield _Frame(found["file"], int(found["line"]), "" if _FRAME.match(after) else after.strip())


def _hidden(line: str) -> str | None:
    """Name the module that lacks what it should have, as one does in whose place Python took another file."""
    if found := _NO_PACKAGE.search(line):
        return found[1]
    if found := _LACKING.search(line):
        name = found[1] or found[2]
        with suppress(ImportError, ValueError):
            if name in sys.stdlib_module_names or find_spec(name) is not None:
                return name
    return None


def died(
    failed: Sequence[Exit],
    running: Sequence[str],
    files: Files,
    called: Callable[[str], str] | None = None,
    stopped: str = "",
) -> WorkerError:
    """Make the error about the process that failed first, rather than those that then missed it: one that a signal
    ended, or one that does not name a neighbour as the cause.

    ``called`` is how to speak of a process, if not as :meth:`Files.called`; ``stopped`` tells whom a signal stopped.
    """
    errors = {exit.process: last_words(files.samples(exit.process)) for exit in failed}
    first = min(failed, key=lambda exit: (exit.status >= 0, errors[exit.process].get("elsewhere", False)))
    process, said = first.process, errors[first.process]
    log = files.log(process)
    why = said["error"] if said else _raised(log) if first.status == PYTHON_FAILED else ""
    problem = f"{(called or files.called)(process)} {ending(first.status)}"
    if first.status < 0 and (at := position(files.position(process))):
        problem += f" at {at}"
    if why:
        problem += f": {why}"
    if running:
        problem += f"; still running a moment later: {shortened(running, MOST_NAMED)}{stopped}"
    fix = said.get("fix") or (OUT_OF_MEMORY if first.status == -signal.SIGKILL else _mend(log, files.lacks))
    error = WorkerError(f"{problem}\n{tail(log)}", fix=f"{fix}; all of its log: {log}")
    error.process, error.at_s, error.signalled = process, first.ended_s, first.status < 0
    return error


def ending(status: int) -> str:
    """Write how a process ended: ``was killed by SIGKILL`` for -9, ``ended with exit status 1`` for 1."""
    if status >= 0:
        return f"ended with exit status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


def _raised(log: Path) -> str:
    return printable(raised(_last_lines(log)[-TRACEBACK_LINES:])[0][:LONGEST_LAST])


def _mend(log: Path, lacks: Callable[[str], str]) -> str:
    lines = _last_lines(log)
    old, last = old_names.in_log(lines[-TAIL_LINES:]), lines[-TRACEBACK_LINES:]
    found = old.fix if old else remedy(last, lacks) or raised(last)[1]
    return printable(found[:LONGEST_SHOWN]) if found else "mend what the log tells"


def tail(log: Path) -> str:
    """Read the last lines of a worker's log, indented, with whatever could move a terminal's cursor written out."""
    shown = _last_lines(log)[-TAIL_LINES:] or ["(its log is empty)"]
    return "\n".join(f"    | {printable(line[:LONGEST_SHOWN])}" for line in shown)


def last_line(log: Path) -> str:
    """Return the last line of a log that says something, cut; empty where none does."""
    said = [line for line in _last_lines(log) if line.strip()]
    return printable(said[-1].strip()[:LONGEST_LAST]) if said else ""


def _last_lines(log: Path) -> list[str]:
    try:
        return foreign.read_tail(log, TAIL_BYTES, log.parent).decode(errors="replace").splitlines()
    except OSError:
        return []
    except UnfitError as error:
        return [f"(its log {error})"]


def position(path: Path) -> str:
    """Return what a process was at when it ended; empty if it did not say."""
    try:
        return printable(foreign.read_bytes(path, LONGEST_POSITION, path.parent).decode(errors="replace").strip())
    except (OSError, UnfitError):
        return ""


def read(path: Path, most_bytes: int = MOST_BYTES) -> list[dict[str, Any]]:
    """Read the JSON lines of a samples file, none where there is no file; a last line cut short by its writer's death
    is left out. Raises TrialError: it is no file of at most ``most_bytes``, or a line in the middle is none that a
    worker writes."""
    try:
        content = foreign.read_bytes(path, most_bytes, path.parent)
    except UnfitError as error:
        raise _not_samples(path, str(error)) from None
    except OSError:
        return []
    lines = content.split(b"\n")[:-1]
    try:
        return [said(line) for line in lines]
    except ValueError as error:
        raise _not_samples(path, f"damaged, not JSON lines ({error})") from None


def read_checked(path: Path, most_bytes: int, of: AnyKind | None = None) -> list[dict[str, Any]]:
    """Read the lines of a samples file, as :func:`read`, each with all that processes write of its kind, in trials of
    the kind ``of``. Raises TrialError: as :func:`read`, or a line is not as processes write it."""
    lines = read(path, most_bytes)
    try:
        for line in lines:
            check_said(line, of)
    except ValueError as error:
        raise _not_samples(path, f"damaged ({error})") from None
    return lines


def last_words(path: Path) -> dict[str, Any]:
    """Read the line in which a process said why it ended; nothing if it did not."""
    try:
        lines = foreign.read_tail(path, TAIL_BYTES, path.parent).split(b"\n")
    except (OSError, UnfitError):
        return {}
    for line in reversed(lines):
        with suppress(ValueError):
            found = said(line)
            if found["kind"] == "error":
                check_said(found)
                return found
    return {}


def _not_samples(path: Path, why: str) -> TrialError:
    shown = Path(*path.parts[-2:])  # whichever of the two has the node's name
    return TrialError(f"{shown}: {why}", fix="see what the process did to its file; then run the trial again")


def size_bytes(path: Path) -> int:
    """Size of a file that a process writes; 0 where there is none yet. Raises TrialError: it has put something else in
    its place."""
    try:
        return foreign.size_bytes(path)
    except UnfitError as error:
        raise _not_samples(path, str(error)) from None
