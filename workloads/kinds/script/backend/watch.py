"""Watch over collectives: those that take too long are ended with an error that names them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from testbed.base.errors import TrialTimeoutError
from testbed.workloads.kinds.script.backend.works import Ours

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
