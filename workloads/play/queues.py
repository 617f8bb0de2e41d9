"""A network with queues: links send one segment after the other, in the order in which they came (``queues.c``)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from testbed.topologies.addressing import is_bridge
from testbed.topologies.model import Topology
from testbed.workloads.play.compiled import Compiled, checked


class Queues(Compiled):
    """A network whose senders no later link slows down before a send buffer, or a window (:meth:`grow`), is full."""

    engine = "queues"

    def __init__(self, rate_bps: NDArray[np.float64], is_bridged: NDArray[np.bool_] | None = None) -> None:
        """Set up links with these rates; ``is_bridged`` says which of them lead to a node that hands segments on
        without taking them from their sender: bool[L]. The way back of link l is link l ^ 1."""
        super().__init__(rate_bps)
        if is_bridged is not None:
            self._call("bridge", np.ascontiguousarray(is_bridged, np.bool_).ctypes.data)

    def grow(self) -> None:
        """Let connections be as Linux has them without losses, before there are any. Windows begin small, and grow from
        round trip to round trip; without this they have no limit. Segments have 45 packets, are filled (:meth:`fill`),
        and are smaller where the window has less room. A connection has as much in its own queues as it sends in
        1/1024 s at its pace, which is two windows each round trip, if that is more than two segments. Acknowledgements
        queue on the way back; a receiver delays that of a single packet for 40 ms, unless more comes or it sends data
        itself. Links are shapers, which hand a segment on whole as soon as those before it have left."""
        self._call("grow")

    def cut(self, segment_bytes: float, waiting_bytes: float) -> None:
        """Let segments have this size at most. A connection gets one more as long as it has less than
        ``waiting_bytes`` in its own queues. Without this they have 64 KiB, and two may wait."""
        self._call("cut", 8.0 * segment_bytes, 8.0 * waiting_bytes)

    def fill(self) -> None:
        """Let segments be filled with what waits, as the kernel fills them. The rest at the end of a message is a small
        segment, and TCP Small Queues has it wait until no more of its connection is in the queue than twice its size.
        Alone on a link that costs no time; beside others each such segment waits behind theirs."""
        self._call("fill")

    @classmethod
    def over(cls, topology: Topology) -> Self:
        """Set up the links of a topology."""
        return cls(np.array(topology.rates_bps), cls.bridged(topology))

    @staticmethod
    def bridged(topology: Topology) -> NDArray[np.bool_]:
        """Return which directed links lead to switches that only bridge, or to panels, which are mirrors."""
        bridges = [node for node in topology.switches if is_bridge(topology, node)]
        return np.isin([topology.head(link) for link in range(2 * len(topology.links))], bridges)

    def move(self, connection: int, path: Sequence[int]) -> None:
        """Let a connection take another path. What is under way begins anew at its first link, or when it would have
        been sent again, if some of it was lost."""
        checked(self._call("move", connection, (ctypes.c_int32 * len(path))(*path), len(path)))

    def darken(self, link: int, *, is_dark: bool, tells: bool = False) -> None:
        """Let a directed link lose all that comes to it, or no more. Who sends finds out as TCP does: what is under way
        is sent again after a round trip and 200 ms, then after twice that, and so on. With ``tells``, a host whose own
        link it is finds out that its queue drops what it sends again, and tries each 0.5 s."""
        checked(self._call("darken", link, is_dark, tells))

    def let_flow(self, connection: int, *, is_on: bool, rate_bps: float = 0.0) -> None:
        """Let a connection that sends no messages send without end, or no more: as fast as it can, or, with a rate,
        what is due of that every 10 ms, as far as there is room for it."""
        self._call("flow", connection, is_on, rate_bps)

    @property
    def has_flows(self) -> bool:
        """Whether a connection that flows (:meth:`let_flow`) sends, or something that it sent is under way."""
        return bool(self._call("foreign"))

    @property
    def moves(self) -> bool:
        """Whether anything that belongs to messages will move if nothing changes."""
        return bool(self._call("moves"))

    def came_bytes(self, connection: int) -> float:
        """Return the bytes of a connection that have come to its end."""
        return float(self._call("came", connection)) / 8

    def others_bytes(self) -> NDArray[np.float64]:
        """Return the bytes that flows have given to each link, float64[L]: those that have left it, and at the first
        link of a flow's way those that wait as well."""
        return self._by_link("others")

    def waiting_bytes(self) -> NDArray[np.float64]:
        """Return the bytes that wait at each link, without those that it is sending: float64[L]."""
        return self._by_link("waiting")
