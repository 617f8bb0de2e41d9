"""The compiled part of :mod:`.gloo`: rows of the sums that C++ asks for, as DDP does (``watcher.cpp``).

It is compiled for one version of PyTorch. Where there is none for that of this process, the kernels in Python make all
rows, with more processor time.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import torch
import torch.distributed as dist

from testbed.base import compiled

VERSION = 1
RELEASE = torch.__version__.partition("+")[0]
LIBRARY = f"{__package__}.torch_{RELEASE.replace('.', '_')}._watcher"
_Failed = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_char_p, ctypes.c_char_p)
_TAKEN_BYTES = 2**16
_COUNT = ctypes.POINTER(ctypes.c_int64)
_FUNCTIONS: list[compiled.Function] = [
    ("watcher_torch", ctypes.c_char_p, []),
    ("watcher_begin", None, [_Failed]),
    ("watcher_end", None, []),
    ("watcher_python", None, [ctypes.c_int]),
    ("watcher_number", ctypes.c_int64, [ctypes.c_int64]),
    ("watcher_open", ctypes.c_int64, []),
    ("watcher_take", ctypes.c_int64, [ctypes.c_void_p, ctypes.c_int64, _COUNT, _COUNT]),
]
Failed = Callable[[int, int, str], None]
"""Callback for a collective that failed: its group's number, its own, and the error."""


@functools.cache
def load() -> Watcher | None:
    """Load the watcher of this process; None where there is none for this PyTorch.

    Raises:
        MissingToolError: it is of another version of testbed.
    """
    library = compiled.load(LIBRARY, VERSION, _FUNCTIONS)
    if library is None or library.watcher_torch().decode() != RELEASE:
        return None
    return Watcher(library)


def in_python() -> AbstractContextManager[None]:
    """Return a context in which Python's kernels make all rows of this thread."""
    return _in_python


class _Python(AbstractContextManager[None]):
    """Context of a part of a thread's work.

    Attributes:
        change: tells C++ of an entry (1) or an exit (-1); None without a watcher.
    """

    change: Callable[[int], None] | None = None

    def __enter__(self) -> None:
        if self.change is not None:
            self.change(1)

    def __exit__(self, *_: object) -> None:
        if self.change is not None:
            self.change(-1)


_in_python = _Python()


class Watcher:
    """The compiled rows of this process."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._failed: dict[int, Failed] = {}
        self._tell = _Failed(self._told)
        self._memory = ctypes.create_string_buffer(_TAKEN_BYTES)
        self._count, self._nbytes = ctypes.c_int64(), ctypes.c_int64()
        library.watcher_begin(self._tell)
        _in_python.change = library.watcher_python

    def watch(self, group: dist.ProcessGroup, number: int, failed: Failed) -> Iterator[int]:
        """Make rows of a group's sums; return the numbers of its other collectives, which C++ counts."""
        self._failed[number] = failed
        torch.ops.testbed_watcher.watch(group.boxed(), number)
        return iter(functools.partial(self._library.watcher_number, number), None)

    def take(self) -> str:
        """Return the lines of all rows that are complete, each once."""
        taken = b""
        while True:
            size = self._library.watcher_take(self._memory, _TAKEN_BYTES, self._count, self._nbytes)
            taken += self._memory.raw[:size]
            if size < _TAKEN_BYTES // 2:
                return taken.decode()

    @property
    def totals(self) -> list[int]:
        """Collectives that were asked for until the last :meth:`take`, complete or not, and their arrays' bytes."""
        return [self._count.value, self._nbytes.value]

    @property
    def is_open(self) -> bool:
        """Whether collectives are on their way."""
        return bool(self._library.watcher_open())

    def end(self) -> None:
        """Tell of no more failures: Python ends, and a thread of C++ could not."""
        self._library.watcher_end()

    def _told(self, group: int, number: int, kind: bytes, why: bytes) -> None:
        said = "".join(why.decode(errors="replace").splitlines()[:1])
        self._failed[group](group, number, f"{kind.decode()}: {said}")
