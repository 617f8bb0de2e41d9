"""The engine with its inner loop compiled (``mover.c``), which takes less processor time.

It does what :class:`testbed.workloads.sync.engine.Engine` does, message for message, and is tested equal to it. It does
less: sums are of float32, a neighbour has one connection, no bucket overtakes another, no controller's gate
(:mod:`testbed.workloads.sync.gate`) holds messages back, and neither does jitter.
:func:`engine` takes it wherever that is enough.

Set-up compiles it. Where that was not possible the engine in Python does everything, and each process says which one it
has (``mover`` in its first line, and in a trial's environment).
"""

from __future__ import annotations

import ctypes
import os
import socket
import time
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import accumulate, chain
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from testbed.base import compiled
from testbed.base.errors import WorkerError
from testbed.workloads.job import Gated
from testbed.workloads.sync.bundle import Sockets
from testbed.workloads.sync.chunks import ChunkTable
from testbed.workloads.sync.connection import BUFFER_SHARE, LEAST_AWAITED_BYTES, MOST_AWAITED_BYTES, Connection, lost
from testbed.workloads.sync.engine import Engine, Floats
from testbed.workloads.sync.forest import ABSENT, Forest
from testbed.workloads.sync.plan import Plan
from testbed.workloads.sync.steps import Jitter

LIBRARY = "testbed.workloads.sync._mover"
VERSION = 4
"""Version of the compiled library; ``mover.c`` has the same."""
SLICE_S = 0.1
"""Longest time (s) after which the interpreter sees whether it has to do something else, such as to end on a signal."""
_QUIET, _MOVED, _CLOSED, _CUT_OFF, _MISFIT, _REFUSED = range(6)
_TYPES: Mapping[str, DTypeLike] = {
    "sockets": np.int32,
    "memory": np.uintp,
    "floats": np.int64,
    **dict.fromkeys(("gate", "bucket", "children", "parent"), np.int32),
    **dict.fromkeys(("receives", "takes_part"), np.uint8),
    **dict.fromkeys(("before", "after"), np.int32),
    **dict.fromkeys(("forward_from", "forward", "leaves_from", "leaves", "parts"), np.int32),
    "expected": np.int32,
    "whole_bytes": np.int64,
    **dict.fromkeys(("received", "unsent"), np.int32),
    "sent_bytes": np.int64,
    "closed": np.uint8,
    "missing": np.int32,
    "bucket_complete_s": np.float64,
}
"""Types of the arrays of ``struct plan``, in their order there."""
_FUNCTIONS: Sequence[compiled.Function] = (
    ("mover_new", ctypes.c_void_p, [ctypes.c_void_p]),
    ("mover_step", ctypes.c_int, [ctypes.c_void_p, ctypes.c_double]),
    ("mover_open", None, [ctypes.c_void_p, ctypes.c_int32]),
    ("mover_begin", None, [ctypes.c_void_p]),
    ("mover_replan", ctypes.c_int, [ctypes.c_void_p]),
    ("mover_free", None, [ctypes.c_void_p]),
)
_OF_CONNECTIONS, _OF_BUCKETS = (
    ("expected", "received", "unsent", "sent_bytes", "closed"),
    ("missing", "bucket_complete_s"),
)
"""Names of the arrays that change."""


class _Plan(ctypes.Structure):
    """The ``struct plan`` of ``mover.c``, which explains it."""

    _fields_ = [
        *[(name, ctypes.c_int64) for name in ("connections", "chunks", "gates", "buckets", "epoll")],
        *[(name, ctypes.c_int64) for name in ("least_awaited_bytes", "most_awaited_bytes", "buffer_share")],
        *[(name, ctypes.c_void_p) for name in _TYPES],
        ("remaining", ctypes.c_int64),
        ("complete_s", ctypes.c_double),
        *[(name, ctypes.c_int64) for name in ("connection", "chunk", "error")],
    ]
    epoll: int
    remaining: int
    complete_s: float
    connection: int
    chunk: int
    error: int


Classes: TypeAlias = "tuple[type[Engine], type[CompiledEngine]]"
"""The engine in Python, and the compiled one."""


def engine(
    node: int,
    forest: Forest,
    chunks: ChunkTable,
    sockets: Sockets,
    gradient: Floats | None,
    *,
    priority: bool = False,
    jitter: Jitter | None = None,
    classes: Classes | None = None,
) -> Engine:
    """Make the engine for these arguments: compiled, where that is installed and does all that is asked, else in
    Python. ``classes`` are those of the two, where these are not ours alone."""
    in_python, in_c = classes or (Engine, CompiledEngine)
    is_plain = forest.fixed is None and not priority and jitter is None
    has_one_each = all(isinstance(one, socket.socket) or len(one) == 1 for one in sockets.values())
    if is_plain and has_one_each and library() is not None:
        return in_c(node, forest, chunks, sockets, gradient)
    return in_python(node, forest, chunks, sockets, gradient, priority=priority, jitter=jitter)


@cache
def library() -> ctypes.CDLL | None:
    """Load the compiled library; None where there is none for this machine.

    Raises:
        MissingToolError: it is of another version.
    """
    return compiled.load(LIBRARY, VERSION, _FUNCTIONS)


class CompiledEngine(Engine):
    """An engine whose inner loop runs in the compiled library; arguments as for :class:`Engine`, whose code does what
    happens once a round.

    The library holds the state of a round. After each step, the attributes that :class:`Engine` looks at are copied
    from it.

    Raises:
        WorkerError: the compiled library is not installed.
    """

    mover = "compiled"

    def __init__(
        self, node: int, forest: Forest, chunks: ChunkTable, sockets: Sockets, gradient: Floats | None
    ) -> None:
        loaded = library()
        if loaded is None:
            raise WorkerError(f"{LIBRARY} is not installed", fix=compiled.FIX)
        self._library = loaded
        self._state: int | None = None
        self._arrays: dict[str, NDArray[Any]] = {}
        super().__init__(node, forest, chunks, sockets, gradient)

    def wait_at(self, gate: Gated, node: int, nodes: int) -> None:
        """
        Raises:
            ValueError: always.
        """
        raise ValueError(f"{self._name} ({node} of {nodes}) sends whatever the gate at {gate.path} says")

    def close(self) -> None:
        super().close()
        self._library.mover_free(self._state)
        self._state = None

    def _follow(self, plan: Plan) -> None:
        super()._follow(plan)
        if self._state is not None:
            self._furnish()
            if not self._library.mover_replan(self._state):
                raise self._no_memory()

    def _begin_round(self) -> None:
        super()._begin_round()
        if self._state is None:
            self._furnish()
            self._state = self._library.mover_new(ctypes.byref(self._shared))
        if self._state is None:
            raise self._no_memory()
        self._arrays["expected"][:] = 0
        self._library.mover_begin(self._state)

    def _expect(self, kind: int) -> None:
        super()._expect(kind)
        self._shared.remaining, self._shared.complete_s = self._remaining, self._complete_s
        self._arrays["expected"][:] = [self._by_node[one.node].expected for one in self._connections]

    def _open(self, gate: int) -> None:
        self._ready[gate] = True
        self._sums.open(gate)
        self._library.mover_open(self._state, gate)
        self._read_back()

    def _stuck(self) -> list[Connection]:
        return [one for one, unsent in zip(self._connections, self._arrays["unsent"], strict=True) if unsent]

    def _move(self) -> bool:
        return self._step(0.0)

    def _step(self, timeout_s: float) -> bool:
        until_s = time.monotonic() + min(timeout_s, SLICE_S) if timeout_s else 0.0
        how = self._library.mover_step(self._state, until_s)
        self._read_back()
        if how > _MOVED:
            raise self._failure(how)
        return bool(how)

    def _failure(self, how: int) -> Exception:
        connection, error = self._connections[self._shared.connection], self._shared.error
        if how == _CLOSED:
            return lost(connection, "it was closed")
        if how == _CUT_OFF:
            return self._cut_off(connection)
        if how == _MISFIT:
            return self._misfit(connection, self._shared.chunk)
        return lost(connection, os.strerror(error)) if how == _REFUSED else OSError(error, os.strerror(error))

    def _read_back(self) -> None:
        arrays = self._arrays
        self._remaining, self._complete_s = self._shared.remaining, self._shared.complete_s
        self._missing = arrays["missing"].tolist()
        self._bucket_complete_s = arrays["bucket_complete_s"].tolist()
        columns = (arrays[name].tolist() for name in ("received", "sent_bytes", "closed"))
        for connection, received, sent_bytes, closed in zip(self._connections, *columns, strict=True):
            self._by_node[connection.node].received = received
            connection.sent_bytes, connection.closed = sent_bytes, bool(closed)

    def _furnish(self) -> None:
        """Give the library the plan, and at first memory for its state, which stays."""
        plan, at = self._plan, {one.node: i for i, one in enumerate(self._connections)}
        before = self._sums.windows.before
        after = {k: later for later, k in before.items()}
        forward = [[at[peer] for peer in plan.forward[c]] for c in plan.klass]
        by_chunk = {
            "memory": [part.ctypes.data for part in self._sums.parts],
            "floats": [len(part) for part in self._sums.parts],
            "gate": plan.gate,
            "bucket": plan.bucket,
            "children": plan.children,
            "parent": [at.get(plan.parent[c], plan.parent[c]) for c in plan.klass],
            "receives": [plan.receives[c] for c in plan.klass],
            "takes_part": [plan.parent[c] != ABSENT or plan.receives[c] for c in plan.klass],
            "before": [before.get(k, -1) for k in range(len(plan.klass))],
            "after": [after.get(k, -1) for k in range(len(plan.klass))],
        }
        given = {
            **by_chunk,
            "sockets": [one.sock.fileno() for one in self._connections],
            "forward_from": _begins(forward),
            "forward": list(chain(*forward)),
            "leaves_from": _begins(plan.leaves),
            "leaves": list(chain(*plan.leaves)),
            "parts": plan.parts,
            "whole_bytes": [self._whole_bytes[one.node] for one in self._connections],
        }
        arrays = {name: np.array(values, _TYPES[name]) for name, values in given.items()}
        if self._state is None:
            kept = {**dict.fromkeys(_OF_CONNECTIONS, self._connections), **dict.fromkeys(_OF_BUCKETS, plan.parts)}
            arrays |= {name: np.zeros(len(like), _TYPES[name]) for name, like in kept.items()}
            self._shared = _Plan(
                connections=len(at),
                chunks=len(plan.klass),
                gates=len(plan.leaves),
                buckets=len(plan.parts),
                epoll=self._epoll.fileno(),
                least_awaited_bytes=LEAST_AWAITED_BYTES,
                most_awaited_bytes=MOST_AWAITED_BYTES,
                buffer_share=BUFFER_SHARE,
            )
        for name, array in arrays.items():
            setattr(self._shared, name, array.ctypes.data)
        self._arrays |= arrays

    def _no_memory(self) -> MemoryError:
        return MemoryError(f"for {len(self._plan.klass)} chunks")


def _begins(lists: Sequence[Sequence[int]]) -> list[int]:
    """Return where each list begins in their concatenation, and its end."""
    return [0, *accumulate(map(len, lists))]
