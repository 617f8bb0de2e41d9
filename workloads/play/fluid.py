"""A network as fluids: connections share links by max-min fair shares (``fluid.c``).

A connection sends its messages one after the other. Each active one crosses a full link on which nobody is faster.
There are no queues, packets or TCP: shares change at once when a connection begins or ends, and nothing is lost.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from testbed.workloads.play.compiled import Compiled, checked


class Fluid(Compiled):
    """A network with max-min fair shares."""

    engine = "fluid"

    def shares_bps(self) -> NDArray[np.float64]:
        """Return the rate of each connection now, 0 of idle ones: float64[connections]."""
        shares = np.zeros(self._connections)
        checked(self._call("shares", shares.ctypes.data))
        return shares
