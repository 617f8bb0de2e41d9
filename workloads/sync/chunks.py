"""The cut of the flat gradient into chunks, the same at every node.

A bucket is a span of the gradient that becomes ready at once. Each bucket is divided among the classes by their shares
and each class's run into chunks of about equal size, at most ``chunk_bytes``. Chunks are numbered bucket by bucket and,
within one, in rounds over the classes (first chunk of each class, second chunk of each, ...), so that classes advance
together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import SchemeError, SpecError
from testbed.workloads.sync.forest import Forest

FLOAT_BYTES = 4
CHUNK_BITS = 29
"""Bits of the engine's 4-byte header that number chunks. Chunks of the gradient take half of the numbers at most: there
are no more chunks of exponents than of those, and barriers take a number a class at most."""

Spans = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ChunkTable:
    """The K chunks of a gradient; together they cover it once.

    Attributes:
        start, stop: int64[K], the chunk's span of the flat gradient, in floats.
        klass: int64[K], the class whose trees it follows.
        bucket: int64[K], the bucket it becomes ready with; ascending.
        buckets: number of buckets.
        total_floats: length of the flat gradient.
        has_tally: whether each iteration sums one number more, which is no part of the gradient.
    """

    start: Spans
    stop: Spans
    klass: Spans
    bucket: Spans
    buckets: int
    total_floats: int
    has_tally: bool = False

    def __len__(self) -> int:
        return len(self.start)


def cut(forest: Forest, total_floats: int, buckets: Sequence[tuple[int, int]], chunk_bytes: int) -> ChunkTable:
    """Cut ``total_floats`` into chunks.

    ``buckets`` are (start, stop) spans in floats, in the order in which they become ready; they cover the gradient
    once. Gradients that do not leave before all of them are complete are one bucket, ``[(0, total_floats)]``.

    Raises:
        SpecError: a chunk holds no float, there are too many chunks, or the buckets do not cover the gradient once.
        SchemeError: there are more classes than floats, shares are too large to be multiplied, or aligned classes do
            not add up to the gradient.
    """
    if chunk_bytes < FLOAT_BYTES:
        raise SpecError(f"a chunk of {chunk_bytes} bytes holds no float", fix=f"make it {FLOAT_BYTES} bytes or more")
    _check_cover(buckets, total_floats)
    edges = _class_edges(forest, total_floats)
    # int64[C + 1] each: where the run of each class in a bucket begins, and the last one ends.
    runs = [
        np.clip(edges, start, stop) if forest.aligned else start + (stop - start) * edges // edges[-1]
        for start, stop in buckets
    ]
    chunk_floats = chunk_bytes // FLOAT_BYTES
    count = sum(int((-(-np.diff(run) // chunk_floats)).sum()) for run in runs)
    most = (1 << CHUNK_BITS - 1) - forest.classes
    if count > most:
        raise SpecError(
            f"there are {count:,} chunks of {chunk_bytes} bytes; at most {most:,} can be numbered",
            fix="make chunks larger",
        )
    pieces = [_cut_bucket(number, run, chunk_floats) for number, run in enumerate(runs)]
    start, stop, klass, bucket = np.concatenate(pieces, axis=1)
    return ChunkTable(start, stop, klass, bucket, len(buckets), total_floats)


def whole(forest: Forest, total_floats: int) -> ChunkTable:
    """Cut as :func:`cut`, with no more than one chunk in each class."""
    return cut(forest, total_floats, [(0, total_floats)], FLOAT_BYTES * total_floats)


def _check_cover(buckets: Sequence[tuple[int, int]], total_floats: int) -> None:
    at = 0
    for start, stop in sorted(buckets):
        if start != at or stop <= start:
            raise SpecError(
                f"the bucket of floats {start} to {stop} does not begin where the one before ends, at {at}",
                fix="let the buckets cover the gradient once, without an empty one",
            )
        at = stop
    if at != total_floats:
        raise SpecError(
            f"the buckets end at float {at}, the gradient has {total_floats}", fix="let the buckets cover the gradient"
        )


def _class_edges(forest: Forest, total_floats: int) -> Spans:
    """Return int64[C + 1]: cumulative shares, from 0 to the sum of shares."""
    if forest.classes > total_floats:
        raise SchemeError(
            f"scheme {forest.scheme} has {forest.classes} chunk classes, more than the {total_floats} floats to send",
            fix="take a larger model, a smaller scale, fewer workers, or fewer classes",
        )
    whole = sum(forest.share.tolist())
    if whole * total_floats >= 1 << 63:
        raise SchemeError(
            f"scheme {forest.scheme} has shares of {whole:,} together, which 64 bits cannot multiply",
            fix="divide them all by the same number: only their ratios matter",
        )
    edges = np.concatenate([[0], np.cumsum(forest.share)])
    if forest.aligned and edges[-1] != total_floats:
        raise SchemeError(
            f"scheme {forest.scheme} places {edges[-1]} floats, the gradient has {total_floats}",
            fix="give the scheme the sizes of the tensors of this model",
        )
    return edges


def _cut_bucket(number: int, runs: Spans, chunk_floats: int) -> Spans:
    """Return int64[4, k]: start, stop, class and bucket of the bucket's chunks, in rounds over the classes."""
    length = np.diff(runs)
    count = -(-length // chunk_floats)
    klass = np.repeat(np.arange(len(length)), count)
    nth = np.arange(len(klass)) - np.repeat(np.cumsum(count) - count, count)
    start = runs[klass] + length[klass] * nth // count[klass]
    stop = runs[klass] + length[klass] * (nth + 1) // count[klass]
    rounds = np.lexsort((klass, nth))
    return np.stack([start, stop, klass, np.full(len(klass), number)])[:, rounds]
