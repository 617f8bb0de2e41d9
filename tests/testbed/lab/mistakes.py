"""Mistakes that our encoder and our decoder make alike, made in the sandbox's process: see test_second_reading.py."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any
from unittest import mock

from testbed.lab.netns.kernel_interface import rtnetlink, shaping


class Off:
    """A structure of which some numbers are packed as a multiple and divided by it when unpacked."""

    def __init__(self, right: struct.Struct, positions: tuple[int, ...], factor: int) -> None:
        self._right, self._positions, self._factor = right, positions, factor
        self.size = right.size

    def pack(self, *values: Any) -> bytes:
        return self._right.pack(*(v * self._factor if i in self._positions else v for i, v in enumerate(values)))

    def unpack(self, data: bytes) -> tuple[Any, ...]:
        return self.unpack_from(data[: self.size])

    def unpack_from(self, data: bytes) -> tuple[Any, ...]:
        found = self._right.unpack_from(data)
        return tuple(v // self._factor if i in self._positions else v for i, v in enumerate(found))


def other(address: str) -> str:
    """Another address, of which this one is the other."""
    *first, last = address.split(".")
    return ".".join([*first, str(int(last) ^ 64)])


def rate() -> None:
    mock.patch.object(shaping, "RATESPEC", Off(shaping.RATESPEC, (5,), 2)).start()


def burst() -> None:
    mock.patch.object(shaping, "HTB_OPT", Off(shaping.HTB_OPT, (2, 3), 8)).start()


def queue() -> None:
    leaf, read = shaping.leaf, shaping._read_leaf

    def wrong(index: int, wanted: shaping.Shape, *rest: Any) -> Any:
        return leaf(index, replace(wanted, queue_limit=2 * wanted.queue_limit), *rest)

    def as_wrong(found: shaping.Qdisc) -> Any:
        limit, netem = read(found)
        return limit // 2, netem

    mock.patch.multiple(shaping, leaf=wrong, _read_leaf=as_wrong).start()


def address() -> None:
    add, read = rtnetlink.add_address, rtnetlink.read_address

    def wrong(index: int, address: str, prefix: int, what: str) -> Any:
        return add(index, other(address), prefix, what)

    def as_wrong(body: bytes) -> Any:
        index, address, prefix = read(body)
        return index, other(address), prefix

    mock.patch.multiple(rtnetlink, add_address=wrong, read_address=as_wrong).start()


def first_segments() -> None:
    add, read = rtnetlink.add_route, rtnetlink.read_route

    def wrong(destination: str, hops: rtnetlink.Hops, what: str, first: int) -> Any:
        return add(destination, hops, what, 2 * first)

    def as_wrong(body: bytes) -> Any:
        if (found := read(body)) is None:
            return None
        destination, way = found
        return destination, way._replace(first_segments=tuple(one // 2 for one in way.first_segments))

    mock.patch.multiple(rtnetlink, add_route=wrong, read_route=as_wrong).start()


def route() -> None:
    add, read = rtnetlink.add_route, rtnetlink.read_route

    def wrong(destination: str, *more: Any) -> Any:
        return add(other(destination), *more)

    def as_wrong(body: bytes) -> Any:
        found = read(body)
        return found and (other(found[0]), found[1])

    mock.patch.multiple(rtnetlink, add_route=wrong, read_route=as_wrong).start()
