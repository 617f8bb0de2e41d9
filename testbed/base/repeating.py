"""A thread that does something again and again until it is closed."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import closing


class Repeating:
    """Thread that runs a generator. The generator does its work once, and yields how long (s) to wait before it goes
    on.

    The thread ends when the generator ends, or at the next wait after :meth:`close`.
    """

    def __init__(self, name: str, work: Generator[float, None, None]) -> None:
        self._work = work
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin the thread; at most once."""
        self._thread.start()

    def close(self) -> None:
        """End the thread, and wait until it has ended; does nothing if it was never started."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        with closing(self._work):
            for wait_s in self._work:
                if self._stop.wait(wait_s) if wait_s else self._stop.is_set():  # to wait for no time is not free
                    return
