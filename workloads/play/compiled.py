"""The compiled library of simulated networks, and what its networks have in common."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from testbed.base import compiled
from testbed.base.errors import MemoryLimitError
from testbed.topologies.model import Topology

LIBRARY = "testbed.workloads.play._play"
VERSION = 13
"""Version of the compiled library; ``fluid.c`` has the same."""
POINTER, WHOLE, REAL = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double
INTEGERS = ctypes.POINTER(ctypes.c_int32)
CALLED: tuple[tuple[str, Any, list[Any]], ...] = (
    ("connect", WHOLE, [POINTER, INTEGERS, WHOLE]),
    ("send", ctypes.c_int, [POINTER, WHOLE, REAL]),
    ("advance", WHOLE, [POINTER, REAL]),
    ("ended", POINTER, [POINTER]),
    ("now", REAL, [POINTER]),
    ("busy", WHOLE, [POINTER]),
    ("ask", ctypes.c_int, [POINTER, WHOLE, POINTER, POINTER]),
)
"""Functions of a network that ``player.c`` calls, in its order."""
NETWORK = (
    *CALLED,
    ("new", POINTER, [WHOLE, POINTER]),
    ("set_rate", None, [POINTER, WHOLE, REAL]),
    ("carried", None, [POINTER, POINTER]),
    ("free", None, [POINTER]),
)
FUNCTIONS = (
    *((f"{engine}_{name}", result, arguments) for engine in ("fluid", "queues") for name, result, arguments in NETWORK),
    ("fluid_shares", ctypes.c_int, [POINTER, POINTER]),
    ("queues_waiting", None, [POINTER, POINTER]),
    ("queues_others", None, [POINTER, POINTER]),
    ("queues_grow", None, [POINTER]),
    ("queues_fill", None, [POINTER]),
    ("queues_cut", None, [POINTER, REAL, REAL]),
    ("queues_bridge", None, [POINTER, POINTER]),
    ("queues_move", ctypes.c_int, [POINTER, WHOLE, INTEGERS, WHOLE]),
    ("queues_darken", ctypes.c_int, [POINTER, WHOLE, ctypes.c_int, ctypes.c_int]),
    ("queues_flow", None, [POINTER, WHOLE, ctypes.c_int, REAL]),
    ("queues_moves", ctypes.c_int, [POINTER]),
    ("queues_foreign", WHOLE, [POINTER]),
    ("queues_came", REAL, [POINTER, WHOLE]),
    ("arena_new", POINTER, [POINTER, WHOLE]),
    ("arena_step", ctypes.c_int, [POINTER, REAL]),
    ("arena_later", REAL, [POINTER]),
    ("arena_told", INTEGERS, [POINTER]),
    ("arena_tell", WHOLE, [POINTER]),
    ("arena_free", None, [POINTER]),
    ("player_new", POINTER, [POINTER, POINTER]),
    ("player_begin", ctypes.c_int, [POINTER, WHOLE, *[POINTER] * 7, ctypes.c_int]),
    ("player_end_after", None, [POINTER, WHOLE]),
    ("player_given", ctypes.POINTER(REAL), [POINTER]),
    ("player_carried", ctypes.POINTER(REAL), [POINTER]),
    ("player_waiting", REAL, [POINTER, INTEGERS]),
    ("player_connections", INTEGERS, [POINTER]),
    ("player_paths", None, [POINTER, POINTER, POINTER]),
)


class Calls(ctypes.Structure):
    """``struct network`` of ``player.c``."""

    functions = tuple((name, ctypes.CFUNCTYPE(result, *arguments)) for name, result, arguments in CALLED)
    _fields_ = (("state", POINTER), *functions)


@cache
def library() -> ctypes.CDLL:
    """Load the compiled library.

    Raises:
        MissingToolError: there is none for this machine, or it is of another version.
    """
    return compiled.require(LIBRARY, VERSION, FUNCTIONS, "the compiled solver of the simulator")


class Compiled:
    """A network of directed links (:class:`.player.Network`), at simulated time 0 and idle.

    Raises:
        MissingToolError: there is no compiled library.
        MemoryLimitError: (every method) there is no memory.
    """

    engine: ClassVar[str]
    """Name of the engine, which its functions begin with."""

    def __init__(self, rate_bps: NDArray[np.float64]) -> None:
        """Set up links with these rates, 0 or more: float64[L]."""
        if not (np.isfinite(rate_bps).all() and (rate_bps >= 0).all()):
            raise ValueError("a rate that is no number of 0 or more")
        self._library, self._links, self._connections = library(), len(rate_bps), 0
        rates = np.ascontiguousarray(rate_bps, np.float64)
        self._network = self._function("new")(self._links, rates.ctypes.data)
        if not self._network:
            raise no_memory()

    @classmethod
    def over(cls, topology: Topology) -> Self:
        """Set up the links of a topology."""
        return cls(np.array(topology.rates_bps))

    def __del__(self) -> None:
        if getattr(self, "_network", None):
            self._call("free")

    @property
    def now_s(self) -> float:
        """Simulated time."""
        return float(self._call("now"))

    @property
    def is_idle(self) -> bool:
        """Whether all that was sent has ended."""
        return not self._call("busy")

    def connect(self, path: Sequence[int]) -> int:
        """Return the number of a new connection along directed links, at least one; numbers ascend from 0."""
        if not path or not all(0 <= link < self._links for link in path):
            raise ValueError(f"no path of links below {self._links}: {path}")
        number = checked(self._call("connect", (ctypes.c_int32 * len(path))(*path), len(path)))
        self._connections = number + 1
        return number

    def send(self, connection: int, count_bytes: float) -> None:
        """Let a connection send a message after those that it has."""
        if not (0 <= connection < self._connections and 0 <= count_bytes < math.inf):
            raise ValueError(f"a message of {count_bytes} bytes over connection {connection}")
        checked(self._call("send", connection, 8.0 * count_bytes))

    def set_rate(self, link: int, rate_bps: float) -> None:
        """Change the rate of a directed link from now on; 0 blocks it."""
        if not (0 <= link < self._links and 0 <= rate_bps < math.inf):
            raise ValueError(f"a rate of {rate_bps} bit/s at link {link}")
        self._call("set_rate", link, rate_bps)

    def advance(self, until_s: float = math.inf) -> list[int]:
        """Go on until messages end, at ``until_s`` at the latest. Return the connections whose messages have ended,
        ascending: none if ``until_s`` came first, or if ``until_s`` is infinite and no message moves."""
        count = checked(self._call("advance", until_s))
        return ctypes.cast(self._call("ended"), INTEGERS)[:count] if count else []

    def carried_bytes(self) -> NDArray[np.float64]:
        """Return the bytes of messages that have ended, by directed link: float64[L]."""
        return self._by_link("carried")

    def calls(self) -> Calls:
        """Return its functions, for a player: it knows of connections and messages of which this object does not."""
        return Calls(self._network, *(ctypes.cast(self._function(name), type_) for name, type_ in Calls.functions))

    def _by_link(self, name: str) -> NDArray[np.float64]:
        bits = np.zeros(self._links)
        self._call(name, bits.ctypes.data)
        return bits / 8

    def _function(self, name: str) -> Any:
        return getattr(self._library, f"{self.engine}_{name}")

    def _call(self, name: str, *arguments: Any) -> Any:
        return self._function(name)(self._network, *arguments)


def checked(result: int) -> int:
    """Return what a function of the library says, unless it has no memory."""
    if result < 0:
        raise no_memory()
    return result


def no_memory() -> MemoryLimitError:
    """Make the error of a simulator that gets no more memory."""
    return MemoryLimitError("the simulator gets no more memory", fix="make chunks larger, or take fewer workers")
