"""How large the chunks of a gradient are where nobody asks for a size.

A chunk costs about as much processor time as some ten thousand bytes. A link, however, waits until the last chunk has
come to the last node and is added. Where nodes have nothing to send before the first chunks have come as far as to
them, their links wait for these, too.
"""

from __future__ import annotations

from workloads.sync.forest import Forest
from workloads.sync.steps import are_even, idle_steps

CHUNK_S = 0.005
CHUNK_BYTES = (128 * 2**10, 512 * 2**10)
"""Chunks are what the slowest link carries in ``CHUNK_S``, within these limits."""
WAIT = 0.01
"""Share of a synchronisation for which links may wait for its first chunks."""
SMALL_BYTES = 32 * 2**10
"""Of a chunk, however long links wait: smaller ones take more processor time than they save."""
LEAST_SHARE = 4
"""Chunks are not divided by more, for the same reason: on faster links as many chunks come in less time."""
OF_A_CLASS = 8
"""So many chunks at least has a class on average where steps differ in what nodes send, if that leaves them the least
of ``CHUNK_BYTES``: with fewer, nodes wait for whole classes of each other."""


def suiting(slowest_bps: float) -> int:
    """The size (bytes, whole float64 numbers) of chunks for links of at least this rate."""
    least, most = CHUNK_BYTES
    return min(most, max(least, int(slowest_bps / 8 * CHUNK_S) // 8 * 8))


def shortened(forest: Forest, nbytes: float, chunk_bytes: int) -> int:
    """``chunk_bytes``, or less where links would wait longer than ``WAIT`` says in a synchronisation of ``nbytes``, or
    classes would have too few."""
    found = chunk_bytes
    if not are_even(forest):
        found = min(found, max(CHUNK_BYTES[0], int(nbytes / (OF_A_CLASS * forest.classes))))
    if idle := idle_steps(forest):
        found = min(found, max(SMALL_BYTES, chunk_bytes // LEAST_SHARE, int(WAIT * nbytes / idle)))
    return found if found == chunk_bytes else found // 8 * 8
