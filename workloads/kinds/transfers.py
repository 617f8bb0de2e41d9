"""Transfers of a kind of trial that plans each of them, as it reports them."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Purpose(IntEnum):
    """Purpose of a transfer."""

    UPDATE = 0
    SUM = 1
    WEIGHTS = 2
    REPLICA = 3

    @property
    def text(self) -> str:
        """The purpose in words, for people."""
        return _TEXTS[self]


_TEXTS = {
    Purpose.UPDATE: "an update",
    Purpose.SUM: "a sum of updates",
    Purpose.WEIGHTS: "weights or a whole sum",
    Purpose.REPLICA: "an update or a sum for the replica",
}


class Carried(NamedTuple):
    """One transfer, as it was planned and as it went. Moments are in seconds, on the clock of the trial's samples.

    Attributes:
        source: index of the node that sends in the topology, and ``target`` of the one that receives.
        size_bytes: payload.
        start_s: when it was to begin, and ``end_s`` when it was to be there, as planned last before it began.
        arrived_s: when it was there; None where nobody told.
        members: how many updates are in it; none in weights, nor in a sum of all workers on its way back to them.
        shard: which part of the model, by the number of the server that has it; 0 where one server has all.
    """

    source: int
    target: int
    purpose: Purpose
    members: int
    size_bytes: float
    start_s: float
    end_s: float
    arrived_s: float | None
    shard: int = 0
