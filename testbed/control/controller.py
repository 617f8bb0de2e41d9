"""Controllers, and the thread that asks them."""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Generator, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import TracebackType
from typing import Protocol

from testbed.base.errors import TestbedError, TrialError
from testbed.base.repeating import Repeating
from testbed.base.urgency import urgent
from testbed.control.feed import Feed


class Controller(Protocol):
    """A controller: acts on a trial while it runs. One that has something to begin and to end is a context manager,
    too.

    Attributes:
        is_urgent: whether it does something to the trial at a moment that was asked for, so that it comes before the
            trial's own processes while it looks (:mod:`testbed.base.urgency`).
    """

    is_urgent: bool

    def look(self, feed: Feed) -> float:
        """Do what is due now; return the seconds until it wants to be asked again, or ``math.inf`` for never.

        The thread that waits for a trial's processes asks sooner. In the thread beside, all controllers take turns, and
        events must not be late: what may take more than a few milliseconds belongs into a thread of the controller's.

        Raises:
            TestbedError: the trial cannot go on.
        """


class Beside:
    """Thread beside the one that waits: it asks each controller when that one wants it. Use in ``with``, within those
    of the controllers, from before the processes start until they have ended.

    A controller that fails ends the trial: the waiting thread raises its error (:meth:`Feed.check`).
    """

    def __init__(self, feed: Feed, controllers: Sequence[Controller]) -> None:
        self._feed, self._controllers = feed, controllers
        self._thread = Repeating("controllers", self._run())

    def __enter__(self) -> Beside:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """
        Raises:
            TrialError: a controller failed, and nothing else did.
        """
        self._thread.close()
        if error is None:
            self._feed.check()

    # The thread.

    def _run(self) -> Generator[float, None, None]:
        """Ask controllers again and again; yield how long to wait (s)."""
        due_s = [0.0 for _ in self._controllers]
        while (next_s := min(due_s, default=math.inf)) < math.inf:
            yield max(0.0, next_s - time.monotonic())
            for i, controller in enumerate(self._controllers):
                if due_s[i] <= time.monotonic():
                    try:
                        with urgent() if controller.is_urgent else nullcontext():
                            due_s[i] = time.monotonic() + _wait_s(controller.look(self._feed))
                    except Exception as error:  # whatever it is, the trial is not controlled any more
                        self._feed.fail(failure(type(controller).__name__, error))
                        return


def _wait_s(told: float) -> float:
    """
    Raises:
        ValueError: a controller's answer is no time.
    """
    if not isinstance(told, int | float) or math.isnan(told):
        raise ValueError(f"look() gave {told!r}, which is no number of seconds")
    return told


def failure(name: str, error: Exception) -> TrialError:
    """Make the error that ends a trial because of one that a controller raised."""
    if isinstance(error, TrialError):
        return error
    if isinstance(error, TestbedError):
        return TrialError(f"the controller {name} failed: {error.problem}", fix=error.fix)
    *_, last = traceback.extract_tb(error.__traceback__)
    where = f"{Path(last.filename).name}, line {last.lineno}"
    return TrialError(
        f"the controller {name} failed: {type(error).__name__}: {error!s:.200} ({where})",
        fix="mend it, then run the trial again",
    )
