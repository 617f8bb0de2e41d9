"""A network with queues: links send one segment after the other, in the order in which they came (``queues.c``)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from testbed.workloads.play.compiled import Compiled


class Queues(Compiled):
    """A network whose senders no later link slows down."""

    engine = "queues"

    def waiting_bytes(self) -> NDArray[np.float64]:
        """Return the bytes that wait at each link, without those that it is sending: float64[L]."""
        return self._by_link("waiting")
