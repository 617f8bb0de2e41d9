"""A network as fluids: connections share links by max-min fair shares (``fluid.c``).

A connection sends its messages one after the other. Each active one crosses a full link on which nobody is faster.
There are no packets and no TCP: shares change at once when a connection begins or ends, and nothing is lost.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import MemoryLimitError, MissingToolError
from testbed.workloads.sync.compiled import FIX

LIBRARY = "testbed.workloads.play._fluid"
VERSION = 1
"""Version of the compiled library; ``fluid.c`` has the same."""


@cache
def library() -> ctypes.CDLL:
    """Load the compiled library.

    Raises:
        MissingToolError: there is none for this machine, or it is of another version.
    """
    spec = find_spec(LIBRARY)
    if spec is None or spec.origin is None:
        raise MissingToolError("the compiled solver of the simulator is not installed", fix=FIX)
    try:
        loaded = ctypes.CDLL(spec.origin)
    except OSError as error:
        raise MissingToolError(f"the compiled solver {spec.origin} cannot be loaded: {error}", fix=FIX) from error
    if loaded.fluid_version() != VERSION:
        raise MissingToolError(f"the compiled solver {spec.origin} is of another version of testbed", fix=FIX)
    pointer, whole, real = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double
    for name, result, arguments in (
        ("new", pointer, [whole, pointer]),
        ("connect", whole, [pointer, pointer, whole]),
        ("send", ctypes.c_int, [pointer, whole, real]),
        ("set_rate", None, [pointer, whole, real]),
        ("advance", whole, [pointer, real, pointer]),
        ("shares", ctypes.c_int, [pointer, pointer]),
        ("now", real, [pointer]),
        ("busy", whole, [pointer]),
        ("carried", None, [pointer, pointer]),
        ("free", None, [pointer]),
    ):
        function = getattr(loaded, f"fluid_{name}")
        function.restype, function.argtypes = result, arguments
    return loaded


class Fluid:
    """A network of directed links, at simulated time 0 and idle.

    Raises:
        MissingToolError: there is no compiled library.
        MemoryLimitError: (every method) there is no memory.
    """

    def __init__(self, rate_bps: NDArray[np.float64]) -> None:
        """Set up links with these rates, 0 or more: float64[L]."""
        if not (np.isfinite(rate_bps).all() and (rate_bps >= 0).all()):
            raise ValueError("a rate that is no number of 0 or more")
        self._library, self._links, self._connections = library(), len(rate_bps), 0
        self._ended = np.empty(0, np.int32)
        rates = np.ascontiguousarray(rate_bps, np.float64)
        self._fluid = self._library.fluid_new(self._links, rates.ctypes.data)
        if not self._fluid:
            raise _no_memory()

    def __del__(self) -> None:
        if getattr(self, "_fluid", None):
            self._library.fluid_free(self._fluid)

    @property
    def now_s(self) -> float:
        """Simulated time."""
        return float(self._library.fluid_now(self._fluid))

    @property
    def is_idle(self) -> bool:
        """Whether all that was sent has ended."""
        return not self._library.fluid_busy(self._fluid)

    def connect(self, path: Sequence[int]) -> int:
        """Return the number of a new connection along directed links, at least one; numbers ascend from 0."""
        if not path or not all(0 <= link < self._links for link in path):
            raise ValueError(f"no path of links below {self._links}: {path}")
        links = np.array(path, np.int32)
        number = _checked(self._library.fluid_connect(self._fluid, links.ctypes.data, len(links)))
        self._connections = number + 1
        if number >= len(self._ended):
            self._ended = np.empty(2 * number + 1, np.int32)
        return number

    def send(self, connection: int, count_bytes: float) -> None:
        """Let a connection send a message after those that it has."""
        if not (0 <= connection < self._connections and 0 <= count_bytes < math.inf):
            raise ValueError(f"a message of {count_bytes} bytes over connection {connection}")
        _checked(self._library.fluid_send(self._fluid, connection, 8.0 * count_bytes))

    def set_rate(self, link: int, rate_bps: float) -> None:
        """Change the rate of a directed link from now on; 0 blocks it."""
        if not (0 <= link < self._links and 0 <= rate_bps < math.inf):
            raise ValueError(f"a rate of {rate_bps} bit/s at link {link}")
        self._library.fluid_set_rate(self._fluid, link, rate_bps)

    def advance(self, until_s: float = math.inf) -> list[int]:
        """Go on until messages end, at ``until_s`` at the latest. Return the connections whose messages have ended,
        ascending: none if ``until_s`` came first, or if ``until_s`` is infinite and no message moves."""
        count = _checked(self._library.fluid_advance(self._fluid, until_s, self._ended.ctypes.data))
        ended: list[int] = self._ended[:count].tolist()
        return ended

    def shares_bps(self) -> NDArray[np.float64]:
        """Return the rate of each connection now, 0 of idle ones: float64[connections]."""
        shares = np.zeros(self._connections)
        _checked(self._library.fluid_shares(self._fluid, shares.ctypes.data))
        return shares

    def carried_bytes(self) -> NDArray[np.float64]:
        """Return the bytes of messages that have ended, by directed link: float64[L]."""
        bits = np.zeros(self._links)
        self._library.fluid_carried(self._fluid, bits.ctypes.data)
        return bits / 8


def _checked(result: int) -> int:
    if result < 0:
        raise _no_memory()
    return result


def _no_memory() -> MemoryLimitError:
    return MemoryLimitError("the simulator gets no more memory", fix="make chunks larger, or take fewer workers")
