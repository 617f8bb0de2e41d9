"""Sizes of a gradient's chunks where nobody asks for a size.

A chunk costs about as much processor time as some ten thousand bytes. Large chunks, however, make links wait: a
synchronisation ends only when the last chunk has reached the last node and is added. Where a node has nothing to send
until the first chunks reach it, its links wait for those chunks, too.
"""

from __future__ import annotations

from functools import lru_cache

from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.steps import are_even, idle_steps

CHUNK_S = 0.005
CHUNK_BYTES = (128 * 2**10, 512 * 2**10)
"""Limits of a chunk's size, within which it is what the slowest link carries in ``CHUNK_S``."""
CALL_BYTES = 2 * 2**20
"""Upper limit of a chunk's size in calls of scripts, whose chunks take more processor time: 5 ms of 3.4 Gbit/s."""
WAIT = 0.01
"""Share of a synchronisation for which links may wait for its first chunks."""
SMALL_BYTES = 32 * 2**10
"""Least size of a chunk, however long links wait: smaller ones take more processor time than they save."""
LEAST_SHARE = 4
"""Largest divisor of ``chunk_bytes`` where links wait: chunks are not cut below that part. On fast links, smaller ones
would follow each other so quickly that they take too much processor time."""
OF_A_CLASS = 8
"""Chunks that a class has at least on average where nodes send different amounts in different steps, unless they would
be smaller than the lower limit of ``CHUNK_BYTES``. With fewer, nodes wait for whole classes of each other."""


def suiting(slowest_bps: float, most_bytes: int = CHUNK_BYTES[1]) -> int:
    """Return the size (bytes, whole float64 numbers) of chunks for links of at least this rate, at most
    ``most_bytes``."""
    return min(most_bytes, max(CHUNK_BYTES[0], int(slowest_bps / 8 * CHUNK_S) // 8 * 8))


@lru_cache(maxsize=1)  # a trial's size is asked for while it is planned and again while it runs
def shortened(forest: Forest, nbytes: float, chunk_bytes: int) -> int:
    """Return ``chunk_bytes``, or less where links would wait longer than ``WAIT`` says in a synchronisation of
    ``nbytes``, or classes would have too few chunks."""
    found = chunk_bytes
    of_a_class = max(CHUNK_BYTES[0], int(nbytes / (OF_A_CLASS * forest.classes)))
    if of_a_class < found and not are_even(forest):
        found = of_a_class
    if idle := idle_steps(forest):
        found = min(found, max(SMALL_BYTES, chunk_bytes // LEAST_SHARE, int(WAIT * nbytes / idle)))
    return found if found == chunk_bytes else found // 8 * 8
