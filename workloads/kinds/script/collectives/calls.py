"""A script's call: the data on which every member of a group must agree, and its form on the wire."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple


class What(IntEnum):
    """Kinds of calls, by their number on the wire."""

    __hash__ = int.__hash__  # an enumeration's own is Python, and each call is looked for among those that were planned
    ALLREDUCE = 1
    BROADCAST = 2
    REDUCE = 3
    REDUCE_SCATTER = 4
    ALL_GATHER = 5
    BARRIER = 6
    SEND = 7
    GATHER = 8
    SCATTER = 9
    ALL_TO_ALL = 10


DTYPES: tuple[tuple[str, int], ...] = (
    ("float32", 4),
    ("float64", 8),
    ("float16", 2),
    ("bfloat16", 2),
    ("int32", 4),
    ("int64", 8),
    ("uint8", 1),
    ("int8", 1),
    ("int16", 2),
    ("bool", 1),
    ("complex64", 8),
    ("complex128", 16),
    ("other", 1),
)
"""Types by their number on the wire, with their size in bytes. Numbers of ``other`` types are counted in bytes."""
_NUMBER = {name: number for number, (name, _) in enumerate(DTYPES)}
SUMMED = frozenset({"float32", "float64", "float16", "bfloat16", "int32", "int64"})
"""Types that the engine adds."""
_SIGNATURE = struct.Struct(">BBBxiQ")
SIGNATURE_BYTES = _SIGNATURE.size
_OPS = ("", "sum", "avg")
_NAMES = {
    What.REDUCE_SCATTER: "reduce_scatter",
    What.ALL_GATHER: "all_gather",
    What.ALL_TO_ALL: "all_to_all",
}


class Call(NamedTuple):
    """One collective, the same for all members of the group.

    A tuple, as each call is looked for among those whose plans are known.

    Attributes:
        what: its kind.
        dtype: name of the numbers' type, one of :data:`DTYPES`.
        count: how many numbers there are together: of an all-gather all that come out, of a reduce-scatter all that go
            in; 0 where only the two ends of each message know (send, gather, scatter, all-to-all).
        op: ``sum`` or ``avg``; empty where nothing is added.
        root: the rank in the group that has or gets the numbers; -1 where all do.
    """

    what: What
    dtype: str = "other"
    count: int = 0  # type: ignore[assignment]  # a tuple has a method of this name, which nobody calls here
    op: str = ""
    root: int = -1

    @property
    def itemsize(self) -> int:
        """Bytes of a number."""
        return DTYPES[_NUMBER[self.dtype]][1]

    @property
    def nbytes(self) -> int:
        return self.count * self.itemsize

    def encode(self) -> bytes:
        """Encode the call in 16 bytes."""
        return _SIGNATURE.pack(self.what, _NUMBER[self.dtype], _OPS.index(self.op), self.root, self.count)

    @classmethod
    def decode(cls, signature: bytes) -> Call:
        """
        Raises:
            ValueError: these bytes are no call.
        """
        if len(signature) != SIGNATURE_BYTES:
            raise ValueError(f"a call has {SIGNATURE_BYTES} bytes, not {len(signature)}")
        what, dtype, op, root, count = _SIGNATURE.unpack(signature)
        if dtype >= len(DTYPES) or op >= len(_OPS):
            raise ValueError(f"there is no type {dtype} or no operation {op}")
        return cls(What(what), DTYPES[dtype][0], count, _OPS[op], root)

    def describe(self) -> str:
        """Describe the call for messages: ``allreduce of 1,024 float32 (sum)``."""
        name = _NAMES.get(self.what, self.what.name.lower())
        unit = "bytes" if self.dtype == "other" else self.dtype
        said = f"{name} of {self.count:,} {unit}" if self.count else name
        said += f" ({self.op})" if self.op else ""
        if self.root >= 0:
            said += f" {'to' if self.what in (What.REDUCE, What.GATHER) else 'from'} rank {self.root}"
        return said


BARRIER = Call(What.BARRIER, "int32", 1, "sum")
"""A sum of ones: at its end each member knows that all have come."""
