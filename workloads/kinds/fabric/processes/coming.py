"""Prediction, at the receiver, of when floats on their way will all be here. Pure logic, no I/O."""

from __future__ import annotations

from testbed.workloads.kinds.fabric.processes.messages import NEAR_S


class Coming:
    """Floats of one transfer.

    What comes first may come faster than the rest, where links have been idle: a link saves some of what it did not
    carry. So of a long transfer the second half tells how fast it comes.
    """

    def __init__(self, nbytes: int, now_s: float) -> None:
        self._nbytes = nbytes
        self._since_s, self._left_then = now_s, nbytes
        self._is_told = False

    def ends_in_s(self, left: int, now_s: float) -> float | None:
        """Return in how long (s) the ``left`` bytes will be here; only once, when that is :data:`NEAR_S` or less."""
        if self._is_told or 2 * left > self._nbytes:
            return None
        if self._left_then == self._nbytes and now_s - self._since_s > NEAR_S:
            self._since_s, self._left_then = now_s, left
            return None
        left_s = left * (now_s - self._since_s) / max(1, self._left_then - left)
        self._is_told = left_s <= NEAR_S
        return left_s if self._is_told else None
