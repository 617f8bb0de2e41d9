"""Waiting for a trial's workers: until all are done, one of them dies, or nothing happens for too long."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from testbed.base.errors import TrialError, TrialTimeoutError
from testbed.base.listing import shortened
from testbed.control import endings
from testbed.control.endings import MOST_NAMED, size_bytes, tail
from testbed.control.feed import Feed
from testbed.control.registry import Controller
from testbed.lab.base import Lab
from testbed.lab.programs import Exit
from testbed.trial.files import Files

POLL_S = 0.1
GRACE_S = 5.0
"""Seconds that we wait longer than workers: they give up on a silent neighbour after the spec's timeout and can say
which; only then do we give up on them."""
SETTLE_S = 1.0
"""Seconds from each other within which workers end that lose a neighbour, or wait for the same one in vain."""
LARGEST_LOG_BYTES = 2**30
"""Bytes of a process's log at most; a disk that is full ends all other trials as well."""


class Progress:
    """Controller that tells how many iterations the first worker that runs has done."""

    is_urgent = False

    def __init__(self, tick: Callable[[int], object]) -> None:
        self._tick, self._told = tick, -1

    def look(self, feed: Feed) -> float:
        """Tell the number of iterations if it has changed."""
        if feed.first is not None and (done := feed.done(feed.first)) != self._told:
            self._tick(done)
            self._told = done
        return POLL_S


class Signs(Protocol):
    """Signs of life that processes give."""

    def look(self, feed: Feed) -> None:
        """
        Raises:
            TrialTimeoutError: there was no sign for too long.
            TrialError: a process has put something else in a file's place.
        """

    def called(self, process: str) -> str:
        """Return the words with which errors name a process."""


class Growth:
    """Signs of life of workers: files of samples grow."""

    def __init__(
        self, lab: Lab, files: Files, processes: Sequence[str], timeout_s: float, start_timeout_s: float
    ) -> None:
        """Expect a sign every ``timeout_s``, with a grace on top; until each worker has written something, which it
        does when it has met the others, every ``start_timeout_s`` instead."""
        self._lab, self._files, self._timeout_s, self._start_timeout_s = lab, files, timeout_s, start_timeout_s
        self._samples = {process: files.samples(process) for process in processes}
        self._sizes, self._changed_s = [-1], time.monotonic()
        self.called = files.called

    def look(self, feed: Feed) -> None:
        """Compare sizes with those of the last look."""
        now = time.monotonic()
        found = [size_bytes(path) for process, path in self._samples.items() if process not in feed.postponed]
        if found != self._sizes or not feed.running:
            self._sizes, self._changed_s = found, now
        limit_s, option = (self._timeout_s, "timeout") if all(self._sizes) else (self._start_timeout_s, "start_timeout")
        if now - self._changed_s > limit_s + GRACE_S:
            raise _stuck(self._lab, feed, self._files, limit_s, option)


def wait(lab: Lab, feed: Feed, files: Files, signs: Signs, controllers: Sequence[Controller] = ()) -> None:
    """Return when every process of the ``feed`` has ended well, or was forgiven by one of the ``controllers``.

    Raises:
        WorkerError: a process ended otherwise; the text has the end of its log.
        TrialTimeoutError: there were no ``signs`` of life for too long.
        TrialError: a log is too large, or a controller failed.
    """
    while True:
        feed.note(lab.exits())
        waits_s = [controller.look(feed) for controller in controllers]
        if feed.failed:
            raise endings.died(*settle(lab, feed.failed, feed.running), files, signs.called, stopped(lab))
        if not feed.running and not feed.postponed:
            return
        signs.look(feed)
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
    """Give the others a moment to fail as well; return all that failed, and who is still running, which may be who
    hangs."""
    end = time.monotonic() + SETTLE_S
    while running and time.monotonic() < end:
        time.sleep(POLL_S)
        exits = lab.exits()
        failed = [*failed, *(exit for exit in exits if exit.status != 0)]
        ended = {exit.process for exit in exits}
        running = [process for process in running if process not in ended]
    return failed, running


def _stuck(lab: Lab, feed: Feed, files: Files, limit_s: float, option: str) -> TrialTimeoutError:
    """Make an error that names the workers that are furthest behind, which the others wait for, those that somebody
    stopped, and the spec's ``option`` that sets the limit."""
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
    """Return ``; stopped: h1`` where a signal stopped the process h1; empty where none is stopped."""
    found = lab.stopped()
    return f"; stopped: {shortened(found, MOST_NAMED)}" if found else ""
