"""Wanted state of a host's training NICs: plain data, and the shapers that it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from testbed.lab.base import LinkSettings
from testbed.lab.netns.kernel_interface import shaping

ROOT_HANDLE = 0x7E570000
"""Handle that marks our shapers (``7e57:``), by which they are told from those of others."""
IFB = "tb-ifb"
"""Prefix of our ifbs' names, followed by the NIC's index."""


@dataclass(frozen=True)
class Nic:
    """Wanted state of a training NIC: rates out of it and into it, in bit/s; 0 leaves it as fast as it is. ``address``
    is None where the inventory gives it, and the NIC has it; ``peers`` are (address, MAC) of those that it is to reach
    by our route."""

    name: str
    out_bps: int
    in_bps: int
    queue_bytes: int
    mtu: int
    address: str | None = None
    peers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Wanted:
    """Wanted state of one host. ``owner`` says whose it is; ``undo_s`` is how long it stays without a word."""

    owner: str
    nics: tuple[Nic, ...]
    undo_s: float

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> Wanted:
        """Read it from plain data, as :func:`dataclasses.asdict` makes it."""
        nics = (Nic(**one | {"peers": tuple(map(tuple, one["peers"]))}) for one in raw["nics"])
        return cls(raw["owner"], tuple(nics), float(raw["undo_s"]))


def shape(nic: Nic, rate_bps: int, queue_bytes: int | None = None) -> shaping.Shape:
    """Shaper of one direction."""
    settings = LinkSettings(mtu=nic.mtu, queue_bytes=nic.queue_bytes if queue_bytes is None else queue_bytes)
    return shaping.shape(rate_bps, settings, None, ROOT_HANDLE)


def changed_shape(nic: Nic, rate_bps: int, queue_bytes: int | None, blocked: bool) -> shaping.Shape:
    """Shaper of one direction after a change."""
    new = shape(nic, rate_bps, queue_bytes)
    return shaping.blocked(new) if blocked else new
