"""Rows of ranks as tests want them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from testbed.workloads.kinds.ranks import Call, RankRows


def call(sequence: int, nbytes: int, asked_s: float, took_s: float = 0.1, **changes: object) -> Call:
    """A sum of floats along the scheme's trees, for which the script waited all the time."""
    fields = {
        "group": 0,
        "sequence": sequence,
        "op": "allreduce",
        "dtype": "float32",
        "nbytes": nbytes,
        "asked_s": asked_s,
        "done_s": asked_s + took_s,
        "waited_s": took_s,
        "by": "scheme",
        "ranks": 2,
    }
    return Call(**{**fields, **changes})  # type: ignore[arg-type]


def sums(sizes: Iterable[int], every_s: float = 1.0) -> list[Call]:
    """One after the other, from second 1 on."""
    return [call(i, nbytes, 1.0 + i * every_s) for i, nbytes in enumerate(sizes)]


def ranks(calls: Sequence[Call], world: int = 2, **changes: object) -> list[RankRows]:
    """That all make the same calls at the same time."""
    return [RankRows(rank, rank, 0.5, calls, **changes) for rank in range(world)]  # type: ignore[arg-type]
