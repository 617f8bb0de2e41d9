"""Waiting for a trial's workers: until all are done, one of them dies, or nothing happens for too long."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from testbed.errors import TrialError, TrialTimeoutError, WorkerError
from testbed.failover import Coordinator
from testbed.jobs import Files
from testbed.lab.base import Exit, Lab, Launch

POLL_S = 0.1
GRACE_S = 5.0
"""Workers give up on a silent neighbour after the spec's timeout and can say which; only then do we give up on them."""
SETTLE_S = 1.0
"""Workers that lose a neighbour, or wait for the same one in vain, end within this time of each other."""
TAIL_LINES = 12
OUT_OF_MEMORY = "unless somebody did that, memory ran out: see dmesg, then take fewer workers or a smaller batch"


def wait(
    lab: Lab,
    launches: Sequence[Launch],
    names: Sequence[str],
    files: Files,
    timeout_s: float,
    tick: Callable[[int], None],
    start_timeout_s: float,
    coordinator: Coordinator | None = None,
) -> None:
    """Return when every worker has ended well; ``tick`` is told how many iterations the first that runs has done.

    ``names`` are those of all nodes, by index. A ``coordinator`` keeps a trial going when some are killed.

    Raises:
        WorkerError: a worker ended otherwise; the text has the end of its log.
        TrialTimeoutError: no worker wrote anything for ``timeout_s`` and a grace on top; until each has written
            something, which it does when it has met the others, ``start_timeout_s`` counts instead.
    """
    running = {launch.node for launch in launches}
    samples = [files.samples(names[launch.node]) for launch in launches]
    sizes, changed_s = [-1], time.monotonic()
    while True:
        exits = lab.exits()
        failed = [exit for exit in exits if exit.status != 0]
        running -= {exit.node for exit in exits}
        if coordinator:
            failed = coordinator.look(failed, running)
        if failed:
            raise died(*settle(lab, failed, running), names, files)
        if not running:
            return
        now, found = time.monotonic(), [_size(path) for path in samples]
        if found != sizes:
            sizes, changed_s = found, now
            tick(iterations(files.samples(names[min(running)])))  # the first may have died
        limit_s, option = (timeout_s, "timeout") if all(sizes) else (start_timeout_s, "start_timeout")
        if now - changed_s > limit_s + GRACE_S:
            raise _stuck(lab, sorted(running), names, files, limit_s, option)
        time.sleep(POLL_S)


def settle(lab: Lab, failed: list[Exit], running: set[int]) -> tuple[list[Exit], set[int]]:
    """Give the others a moment to fail as well: all that failed, and who is still running, which may be who hangs."""
    end = time.monotonic() + SETTLE_S
    while running and time.monotonic() < end:
        time.sleep(POLL_S)
        exits = lab.exits()
        failed = failed + [exit for exit in exits if exit.status != 0]
        running = running - {exit.node for exit in exits}
    return failed, running


def died(
    failed: Sequence[Exit],
    running: Collection[int],
    names: Sequence[str],
    files: Files,
    called: Callable[[int], str] | None = None,
) -> WorkerError:
    """The error about the worker that failed first, rather than those that then missed it: one that a signal ended, or
    one that does not name a neighbour as the cause.

    ``called`` is how to speak of the process on a node.
    """
    errors = {
        exit.node: next((line for line in read(files.samples(names[exit.node])) if line["kind"] == "error"), {})
        for exit in failed
    }
    first = min(failed, key=lambda exit: (exit.status >= 0, errors[exit.node].get("elsewhere", False)))
    name, said = names[first.node], errors[first.node]
    who = called(first.node) if called else f"the worker on {name}"
    problem = f"{who} {ending(first.status)}" + (f": {said['error']}" if said else "")
    if running:
        problem += f"; still running a moment later: {_some([names[node] for node in sorted(running)])}"
    fix = said.get("fix") or (OUT_OF_MEMORY if first.status == -signal.SIGKILL else "mend what the log tells")
    error = WorkerError(f"{problem}\n{tail(files.log(name))}", fix=f"{fix}; all of its log: {files.log(name)}")
    error.node, error.at_s, error.signalled = first.node, first.ended_s, first.status < 0
    return error


def ending(status: int) -> str:
    """``was killed by SIGKILL`` for -9, ``ended with exit status 1`` for 1."""
    if status >= 0:
        return f"ended with exit status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


def tail(log: Path) -> str:
    """The last lines of a worker's log, indented."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    shown = lines[-TAIL_LINES:] or ["(its log is empty)"]
    return "\n".join(f"    | {line}" for line in shown)


def read(path: Path) -> list[dict[str, Any]]:
    """The JSON lines of a samples file, none where there is no file; a last line cut short by its writer's death is
    left out.

    Raises:
        TrialError: a line in the middle is damaged.
    """
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return []
    lines = text.split("\n")[:-1]
    try:
        return [json.loads(line) for line in lines]
    except ValueError as error:
        raise TrialError(
            f"{path.parent.name}/{path.name}: damaged, not JSON lines ({error})", fix="run the trial again"
        ) from None


def iterations(path: Path) -> int:
    """How many iterations a worker has written."""
    return sum(1 for line in read(path) if line["kind"] == "iteration")


def _stuck(
    lab: Lab, running: Sequence[int], names: Sequence[str], files: Files, limit_s: float, option: str
) -> TrialTimeoutError:
    """Names the workers that are furthest behind, which the others wait for, those that somebody stopped, and the
    spec's ``option`` that sets the limit."""
    done = {names[node]: iterations(files.samples(names[node])) for node in running}
    least = min(done.values())
    behind = [name for name, count in done.items() if count == least]
    return TrialTimeoutError(
        f"no worker got anything done for {limit_s:g} s; furthest behind, at iteration {least}: {_some(behind)}"
        f"{stopped(lab, names)}\n"
        f"{tail(files.log(behind[0]))}",
        fix=f"read {files.log(behind[0])}, or give a longer {option}",
    )


def stopped(lab: Lab, names: Sequence[str]) -> str:
    """``; stopped: h1`` where a signal stopped the worker on h1."""
    found = [names[node] for node in lab.stopped()]
    return f"; stopped: {_some(found)}" if found else ""


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
