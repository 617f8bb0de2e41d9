"""Waiting for a trial's workers: until all are done, one of them dies, or nothing happens for too long."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from testbed.base import old_names
from testbed.base.errors import TrialError, TrialTimeoutError, WorkerError
from testbed.base.listing import shortened
from testbed.base.printable import printable
from testbed.control.controller import Controller
from testbed.control.feed import MOST_BYTES, Feed
from testbed.execution.files import Files
from testbed.execution.worker_lines import check_said, said
from testbed.files import foreign
from testbed.files.foreign import UnfitError
from testbed.lab.base import Lab
from testbed.lab.programs import Exit
from testbed.workloads.kinds.base import AnyKind

POLL_S = 0.1
GRACE_S = 5.0
"""Workers give up on a silent neighbour after the spec's timeout and can say which; only then do we give up on them."""
SETTLE_S = 1.0
"""Workers that lose a neighbour, or wait for the same one in vain, end within this time of each other."""
TAIL_LINES, TAIL_BYTES, LONGEST_SHOWN = 12, 2**16, 1000
"""Of a log what is told of it; lines of more characters are cut."""
MOST_NAMED = 5
"""Of nodes that an error is about."""
LARGEST_LOG_BYTES = 2**30
"""Of a process; a disk that is full ends all other trials as well."""
OUT_OF_MEMORY = "unless somebody did that, memory ran out: see dmesg, then take fewer workers or a smaller batch"


class Progress:
    """Tells how many iterations the first worker that runs has done, as a controller."""

    is_urgent = False

    def __init__(self, tick: Callable[[int], object]) -> None:
        self._tick, self._told = tick, -1

    def look(self, feed: Feed) -> float:
        """Tell it if it has changed."""
        if feed.first is not None and (done := feed.done(feed.first)) != self._told:
            self._tick(done)
            self._told = done
        return POLL_S


def wait(
    lab: Lab,
    feed: Feed,
    files: Files,
    timeout_s: float,
    start_timeout_s: float,
    controllers: Sequence[Controller] = (),
) -> None:
    """Return when every process of the ``feed`` has ended well, or was forgiven by one of the ``controllers``.

    Raises:
        WorkerError: a worker ended otherwise; the text has the end of its log.
        TrialTimeoutError: no worker wrote anything for ``timeout_s`` and a grace on top; until each has written
            something, which it does when it has met the others, ``start_timeout_s`` counts instead.
        TrialError: a log is too large, or a controller failed.
    """
    samples = {process: files.samples(process) for process in (*feed.running, *feed.postponed)}
    sizes, changed_s = [-1], time.monotonic()
    while True:
        feed.note(lab.exits())
        waits_s = [controller.look(feed) for controller in controllers]
        if feed.failed:
            raise died(*settle(lab, feed.failed, feed.running), files)
        if not feed.running and not feed.postponed:
            return
        now = time.monotonic()
        found = [size_bytes(path) for process, path in samples.items() if process not in feed.postponed]
        if found != sizes or not feed.running:
            sizes, changed_s = found, now
        limit_s, option = (timeout_s, "timeout") if all(sizes) else (start_timeout_s, "start_timeout")
        if now - changed_s > limit_s + GRACE_S:
            raise _stuck(lab, feed, files, limit_s, option)
        check_logs(map(files.log, feed.running))
        time.sleep(min([POLL_S, *waits_s]))


def check_logs(logs: Iterable[Path]) -> None:
    """
    Raises:
        TrialError: a process has written so much that the disk would be full before long.
    """
    for log in logs:
        if size_bytes(log) > LARGEST_LOG_BYTES:
            raise TrialError(
                f"{log} has more than {LARGEST_LOG_BYTES:,} bytes, which is as much as a log may have",
                fix="print less, or write to a file of the process's own folder",
            )


def settle(lab: Lab, failed: Sequence[Exit], running: Sequence[str]) -> tuple[Sequence[Exit], Sequence[str]]:
    """Give the others a moment to fail as well: all that failed, and who is still running, which may be who hangs."""
    end = time.monotonic() + SETTLE_S
    while running and time.monotonic() < end:
        time.sleep(POLL_S)
        exits = lab.exits()
        failed = [*failed, *(exit for exit in exits if exit.status != 0)]
        ended = {exit.process for exit in exits}
        running = [process for process in running if process not in ended]
    return failed, running


def died(
    failed: Sequence[Exit],
    running: Sequence[str],
    files: Files,
    called: Callable[[str], str] | None = None,
) -> WorkerError:
    """The error about the process that failed first, rather than those that then missed it: one that a signal ended, or
    one that does not name a neighbour as the cause.

    ``called`` is how to speak of a process, if not as :meth:`Files.called`.
    """
    errors = {exit.process: last_words(files.samples(exit.process)) for exit in failed}
    first = min(failed, key=lambda exit: (exit.status >= 0, errors[exit.process].get("elsewhere", False)))
    process, said = first.process, errors[first.process]
    problem = f"{(called or files.called)(process)} {ending(first.status)}" + (f": {said['error']}" if said else "")
    if running:
        problem += f"; still running a moment later: {shortened(running, MOST_NAMED)}"
    log = files.log(process)
    fix = said.get("fix") or (OUT_OF_MEMORY if first.status == -signal.SIGKILL else _mend(log))
    error = WorkerError(f"{problem}\n{tail(log)}", fix=f"{fix}; all of its log: {log}")
    error.process, error.at_s, error.signalled = process, first.ended_s, first.status < 0
    return error


def ending(status: int) -> str:
    """``was killed by SIGKILL`` for -9, ``ended with exit status 1`` for 1."""
    if status >= 0:
        return f"ended with exit status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


def _mend(log: Path) -> str:
    old = old_names.in_log(_last_lines(log)[-TAIL_LINES:])
    return printable(old.fix[:LONGEST_SHOWN]) if old else "mend what the log tells"


def tail(log: Path) -> str:
    """The last lines of a worker's log, indented, with whatever could move a terminal's cursor written out."""
    shown = _last_lines(log)[-TAIL_LINES:] or ["(its log is empty)"]
    return "\n".join(f"    | {printable(line[:LONGEST_SHOWN])}" for line in shown)


def _last_lines(log: Path) -> list[str]:
    try:
        return foreign.read_tail(log, TAIL_BYTES, log.parent).decode(errors="replace").splitlines()
    except OSError:
        return []
    except UnfitError as error:
        return [f"(its log {error})"]


def read(path: Path, most_bytes: int = MOST_BYTES) -> list[dict[str, Any]]:
    """The JSON lines of a samples file, none where there is no file; a last line cut short by its writer's death is
    left out.

    Raises:
        TrialError: it is no file of at most ``most_bytes``, or a line in the middle is none that a worker writes.
    """
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
    """The same, each line with all that processes write of its kind, in trials of the kind ``of``.

    Raises:
        TrialError: as :func:`read`, or a line is not as processes write it.
    """
    lines = read(path, most_bytes)
    try:
        for line in lines:
            check_said(line, of)
    except ValueError as error:
        raise _not_samples(path, f"damaged ({error})") from None
    return lines


def last_words(path: Path) -> dict[str, Any]:
    """The line in which a process said why it ended; nothing if it did not."""
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
    """Of a file that a process writes; 0 where there is none yet.

    Raises:
        TrialError: it has put something else in its place.
    """
    try:
        return foreign.size_bytes(path)
    except UnfitError as error:
        raise _not_samples(path, str(error)) from None


def _stuck(lab: Lab, feed: Feed, files: Files, limit_s: float, option: str) -> TrialTimeoutError:
    """Names the workers that are furthest behind, which the others wait for, those that somebody stopped, and the
    spec's ``option`` that sets the limit."""
    done = {process: feed.done(process) for process in feed.running}
    least = min(done.values())
    behind = [name for name, count in done.items() if count == least]
    return TrialTimeoutError(
        f"no worker got anything done for {limit_s:g} s; furthest behind, at iteration {least}: "
        f"{shortened(behind, MOST_NAMED)}{stopped(lab)}\n"
        f"{tail(files.log(behind[0]))}",
        fix=f"read {files.log(behind[0])}, or give a longer {option}",
    )


def stopped(lab: Lab) -> str:
    """``; stopped: h1`` where a signal stopped the process h1."""
    found = lab.stopped()
    return f"; stopped: {shortened(found, MOST_NAMED)}" if found else ""
