"""Works, which a script gets for the collectives that it asks for: it can wait for them, and each has a future."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from functools import cache
from typing import Any

import torch
import torch.distributed as dist

from testbed.base.errors import TrialTimeoutError
from testbed.workloads.kinds.script.backend import futures
from testbed.workloads.kinds.script.backend.caught import caught
from testbed.workloads.kinds.script.backend.rows import Row
from testbed.workloads.kinds.script.backend.untraced import untraced

Failed = Callable[[Row | None, BaseException], None]
"""Callback for a collective that failed: its row, if it has one, and the error."""


MOST_CALLBACKS = 1024
"""Limit on a script's callbacks at a time: more than models have buckets. If all of them waited, no thread would be
left to end what they wait for."""


@cache
def _callbacks() -> ThreadPoolExecutor:
    """Make the threads for callbacks of a script when a collective is over. A callback may wait for another collective,
    as DDP's PowerSGD does, so it cannot run on the engine's thread, nor on a single one."""
    return ThreadPoolExecutor(MOST_CALLBACKS, "testbed-callback")


@untraced
class Ours(dist.Work):
    """A collective of ours.

    The future is one that follows another, whose callback raises if there was an error. Only so code in C++, such as
    DDP's, sees an error: what Python sets as an exception is a value there.
    """

    def __init__(
        self,
        row: Row | None,
        tensors: Sequence[torch.Tensor],
        failed: Failed,
        finish: Callable[[], None] = lambda: None,
        source: int = -1,
    ) -> None:
        """Set up; ``tensors`` are the result; ``finish`` puts it there, before anybody is told that it is."""
        super().__init__()
        self.row, self._tensors, self._failed, self._finish, self._source = row, list(tensors), failed, finish, source
        self.asked_s = time.monotonic()
        self.let_go: Callable[[], None] | None = None
        self._lock = threading.Lock()
        self._calls_back = self._is_over = self._is_ending = False
        self._error: BaseException | None = None
        self._over: Any = torch._C.Future([])  # as torch.futures.Future, without its Python
        self._future = futures.after(self._over, self._value)

    def complete(self, error: BaseException | None) -> None:
        """End the collective; on whichever thread. A second call does nothing."""
        with self._lock:
            if self._is_over:
                return
            self._is_over = True
        finish, self._finish = self._finish, lambda: None  # which holds the memory
        if error is None:
            try:
                finish()
            except Exception as found:
                error = found
        if self.row is not None:
            self.row.done()
        if error is not None:
            self._error = error
            self._failed(self.row, error)
        if self.let_go is not None:
            self.let_go()
            self.let_go = None
        with self._lock:
            self._is_ending = not self._calls_back
        if self._is_ending:  # nothing of the script's is called: C++, as DDP does, waits
            self._over.set_result(None)
            return
        try:
            _callbacks().submit(self._over.set_result, None)
        except RuntimeError:  # Python ends, and has no threads any more
            self._over.set_result(None)

    def _before_callback(self) -> None:
        """Note that the script adds a callback, which must not run on the engine's thread: it may wait for another
        collective."""
        with self._lock:
            self._calls_back = True
            is_ending = self._is_ending
        if is_ending:  # in a moment; then this thread calls back by itself
            with suppress(RuntimeError):
                futures.wait_for(self._future)

    def _value(self, _: Any) -> list[torch.Tensor]:
        if self._error is not None:
            raise caught(self._error)
        return self._tensors

    def begun(self) -> None:
        """Note that it begins to move."""
        if self.row is not None:
            self.row.begun()

    def came(self) -> None:
        """Note that its first chunk from another process has come."""
        if self.row is not None:
            self.row.came()

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """
        Raises:
            TrialTimeoutError: it is not over within a timeout that is given; it goes on.
        """
        asked_s = time.monotonic()
        try:
            if timeout > timedelta(0) and not self.ends_within(timeout.total_seconds()):
                raise self._late(timeout)
            futures.wait_for(self._future)
        except RuntimeError as error:
            raise (error if self._error is None else caught(self._error)) from None
        finally:
            if self.row is not None and not futures.is_chained():
                self.row.waited(asked_s)
        return True

    def _late(self, timeout: timedelta) -> BaseException:
        """Report that the script has waited too short a time, and return the error for it."""
        late = caught(
            TrialTimeoutError(
                f"a collective has not ended within the {timeout.total_seconds():g} s that the script waits for it",
                fix="see what the other ranks do, or wait longer",
            )
        )
        self._failed(self.row, late)
        return late

    def ends_within(self, limit_s: float) -> bool:
        """Wait until it is over, at most for ``limit_s``, and say whether it is. It goes on if not."""
        over = threading.Event()
        self.call(lambda _: over.set())
        return over.wait(limit_s)

    def synchronize(self) -> None:
        """Wait, as :meth:`wait` does."""
        self.wait()

    def get_future(self) -> Any:
        return futures.given(self._future, self.row, self._before_callback)

    def is_completed(self) -> bool:
        return bool(self._over.done())

    def is_success(self) -> bool:
        return self.is_completed() and self._error is None

    def exception(self) -> Any:
        return self._error

    def result(self) -> list[torch.Tensor]:
        return self._tensors

    def _source_rank(self) -> int:
        return self._source

    source_rank = _source_rank

    def came_from(self, source: int) -> None:
        """Note which rank sent a message that any rank might have sent."""
        self._source = source

    def call(self, told: Callable[[BaseException | None], None]) -> None:
        """Call ``told`` when it is over, with the error if there is one."""
        self._over.add_done_callback(lambda _: told(self._error))


def joined(
    works: Sequence[Ours],
    row: Row | None,
    tensors: Sequence[torch.Tensor],
    failed: Failed,
    finish: Callable[[], None] = lambda: None,
) -> Ours:
    """Make a work that is over when all of ``works`` are, or one has failed."""
    found, left, lock = Ours(row, tensors, failed, finish), [len(works)], threading.Lock()

    def over(error: BaseException | None) -> None:
        with lock:
            left[0] -= 1
        if error is not None or left[0] == 0:
            found.complete(error)

    for one in works:
        one.call(over)
    if not works:
        found.complete(None)
    return found


LOOK_S = 0.5


class Watch:
    """A thread that looks at all collectives on their way now and then."""

    def __init__(self, fail: Callable[[BaseException], None]) -> None:
        """Set up; ``fail`` ends all collectives."""
        self._fail = fail
        self._open: dict[int, tuple[Ours, float, Callable[[], str], Callable[[], str]]] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        threading.Thread(target=self._look, name="testbed-watch", daemon=True).start()

    def over(self, work: Ours, limit_s: float, what: Callable[[], str], waits_for: Callable[[], str]) -> None:
        """Watch over a collective; ``what`` names it, and ``waits_for`` the ranks that it waits for. Both are asked
        only where it takes too long, so that a call is not made later for them."""
        key = id(work)
        with self._lock:
            self._open[key] = work, work.asked_s + limit_s, what, waits_for
        work.let_go = lambda: self._drop(key)  # not at the next look: it has the memory of its array

    def _drop(self, key: int) -> None:
        with self._lock:
            self._open.pop(key, None)

    def end(self) -> None:
        """End the watch: no group is left."""
        self._ended.set()

    def _look(self) -> None:
        while not self._ended.wait(LOOK_S):
            now_s = time.monotonic()
            with self._lock:
                self._open = {key: one for key, one in self._open.items() if not one[0].is_completed()}
                late = next((one for one in self._open.values() if one[1] < now_s), None)
            if late is not None:
                work, _, what, waits_for = late
                whom = waits_for()
                self._fail(
                    TrialTimeoutError(
                        f"{what()} has not ended within its timeout of {now_s - work.asked_s:.0f} s"
                        + (f"; it waits for {whom}" if whom else "")
                        + "; this rank can make no later collective",
                        fix="see what the other ranks do, or give a longer timeout",
                    )
                )
                return
