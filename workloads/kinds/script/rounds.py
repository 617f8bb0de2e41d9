"""The iterations of a script, found in the collectives that it asked for, and the beginning of the first one.

A script that calls ``testbed.mark()`` says when an iteration ends. Any other shows it by its sums: PyTorch's DDP asks
for the sums of its buckets in each backward pass, of the same sizes in the same order, and FSDP for those of its
units. So the iterations are the repetitions at the end of the sequence of sums. Before it builds its buckets anew after
the first backward pass, DDP's have other sizes that come to the same whole.

Problem: from the process group to the first gradient, a script loads its data, imports what it uses for the first time,
and has DDP copy the weights. Nothing marks where that ends and the first iteration begins.

Chosen: iterations are alike. Of later ones it is seen for how long a rank computes: from the end of the iteration
before to the moment at which its last sum moves. The first iteration begins as long before its own last sum moves, by
the median of the later ones.

- The last sum is that of the end of the backward pass, also in DDP's first iteration, which has one bucket in place of
  several.
- A sum moves when its first chunk comes from another process. So connections and plans of the very first sum, here and
  there, are set-up, too.
- No sum is whole before the last rank has computed. So the job's first iteration begins with the last rank's, and what
  others wait for that is set-up.
- The first iteration is no shorter than the shortest later one. It begins after all ranks have met, and before any rank
  ends it.

``docs/decisions/beginning-of-scripts.md`` has what was rejected.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from itertools import pairwise
from statistics import median

from testbed.workloads.kinds.ranks import PAIRED, Call, RankRows

SCALAR_BYTES = 64
"""A sum of at most so many bytes is a loss or a count that a script adds up over ranks, unless all its sums are."""

BY_GLOO = "gloo"
"""Mover of collectives whose sums go around a ring; what else it does is not known."""
MOST_AFTER = 8
"""Sums that a script may ask for after its last iteration, such as those of a test."""

Round = tuple[Call, ...]
"""The sums of an iteration, as a rank saw them."""


def gradients(rows: RankRows, world: int, *, by_gloo: bool = False) -> list[Call]:
    """Return the sums of gradients that a rank asked for with all others, in their order. Those that Gloo makes beside
    a scheme, such as comparisons, are none; with ``by_gloo`` it makes all of them."""
    some = (call for call in rows.calls if call.adds and call.ranks == world and (by_gloo or call.by != BY_GLOO))
    sums = sorted(some, key=lambda call: call.asked_s)
    large = [call for call in sums if call.nbytes > SCALAR_BYTES]
    return large or sums


def rounds(ranks: Sequence[RankRows], *, by_gloo: bool = False) -> list[list[Round]]:
    """Find each rank's sums of each iteration; empty where the sums of the first rank show no iterations.

    Iterations of all ranks are those of the first one: the same sums belong to them.
    """
    first, world = ranks[0], len(ranks)
    sums = gradients(first, world, by_gloo=by_gloo)
    groups = _by_marks(sums, first.marks_s) if first.marks_s else _by_repetition(sums)
    keys = [[(call.group, call.sequence) for call in group] for group in groups]
    found = []
    for rows in ranks:
        known = {(call.group, call.sequence): call for call in rows.calls if call.adds}
        found.append([tuple(known[key] for key in group if key in known) for group in keys])
    complete = min((_complete(one, keys) for one in found), default=0)
    return [one[:complete] for one in found]


def _complete(one: Sequence[Round], keys: Sequence[Sequence[Hashable]]) -> int:
    """Count the first iterations of which a rank has all sums."""
    for number, (mine, wanted) in enumerate(zip(one, keys, strict=True)):
        if len(mine) < len(wanted):
            return number
    return len(keys)


def _by_marks(sums: Sequence[Call], marks_s: Sequence[float]) -> list[list[Call]]:
    """Group the sums up to each mark; a mark without a sum before it, as of a part of a batch whose gradients are kept,
    ends no iteration."""
    asked_s = [call.asked_s for call in sums]
    edges = [0, *(bisect_left(asked_s, mark_s) for mark_s in marks_s)]
    return [list(sums[begin:end]) for begin, end in pairwise(edges) if end > begin]


def _by_repetition(sums: Sequence[Call]) -> list[list[Call]]:
    for dropped in range(min(MOST_AFTER, len(sums)) + 1):
        kept = sums[: len(sums) - dropped]
        sizes = [(call.op, call.dtype, call.nbytes) for call in kept]
        if length := period(sizes):
            begin = len(kept) - length * _repeated(sizes, length)
            whole = sum(call.nbytes for call in kept[len(kept) - length :])
            before = _of_the_same_whole(kept[:begin], whole)
            return [*before, *(list(kept[at : at + length]) for at in range(begin, len(kept), length))]
    return []


def period(values: Sequence[Hashable]) -> int:
    """Return the length of the shortest sequence that comes at least twice in a row at the end, covering at least half
    of all; 0 if there is none.

    It is found with the borders of the reversed sequence (Knuth, Morris, Pratt 1977): a prefix of length m has the
    period m minus its longest border.
    """
    turned = values[::-1]
    border, best = [0], 0
    for at in range(1, len(turned)):
        width = border[-1]
        while width and turned[at] != turned[width]:
            width = border[width - 1]
        border.append(width + (turned[at] == turned[width]))
        length = at + 1
        repeats = length - border[-1]
        if 2 * repeats <= length and 2 * length >= len(turned):
            best = repeats  # of the longest run at the end
    return best


def _repeated(values: Sequence[Hashable], length: int) -> int:
    """Count how many times the last ``length`` values come in a row at the end."""
    last, count = list(values[len(values) - length :]), 0
    while len(values) >= length * (count + 1):
        begin = len(values) - length * (count + 1)
        if list(values[begin : begin + length]) != last:
            break
        count += 1
    return count


def _of_the_same_whole(sums: Sequence[Call], whole: int) -> list[list[Call]]:
    """Group the sums before the repetitions into parts of ``whole`` bytes each; empty if they do not come to that."""
    found: list[list[Call]] = []
    part: list[Call] = []
    for call in sums:
        part.append(call)
        nbytes = sum(one.nbytes for one in part)
        if nbytes == whole:
            found.append(part)
            part = []
        elif nbytes > whole:
            return []
    return [] if part else found


def begins_s(ranks: Sequence[RankRows], rounds: Sequence[Sequence[Round]], ends_s: Sequence[Sequence[float]]) -> float:
    """Find the moment (s) at which the first iteration of a job begins; all arguments are by rank.

    Args:
        rounds: the sums of each iteration, at least one.
        ends_s: when each iteration ends.
    """
    found_s = max(map(_of_rank_s, ranks, rounds, ends_s))
    all_end_s = [max(each) for each in zip(*ends_s, strict=True)]
    if later_s := [end_s - before_s for before_s, end_s in pairwise(all_end_s)]:
        found_s = min(found_s, all_end_s[0] - min(later_s))
    found_s = max(found_s, *(rows.met_s for rows in ranks))
    return min(found_s, *(each[0] for each in ends_s))


def _of_rank_s(rows: RankRows, rounds: Sequence[Round], ends_s: Sequence[float]) -> float:
    last = [_last(sums) for sums in rounds]
    computing_s = [call.moves_s - end_s for call, end_s in zip(last[1:], ends_s, strict=False)]
    if computing_s:
        found_s = last[0].moves_s - max(0.0, median(computing_s))
    else:  # of a single iteration it is only known that it comes after the last collective of the set-up
        asked_s = min(call.asked_s for call in rounds[0])
        found_s = max((call.done_s for call in rows.calls if call.done_s <= asked_s), default=rows.met_s)
    return min(found_s, last[0].asked_s)


def _last(sums: Round) -> Call:
    """Return the last sum that the script's own thread asks for."""
    return max((call for call in sums if not call.chained), key=_asked_s, default=sums[-1])


def _asked_s(call: Call) -> float:
    return call.asked_s


def connect_s(ranks: Sequence[RankRows]) -> float | None:
    """Return how long (s) the first collective of all ranks took from the last rank's call until its first chunk had
    come on all ranks that get some: connections, plans and threads that are made then. None if that is not seen."""
    calls = [call for call in ranks[0].calls if call.ranks == len(ranks) and call.op not in PAIRED]
    if not calls:
        return None
    first = min(calls, key=_asked_s)
    same = [call for rows in ranks for call in rows.calls if _key(call) == _key(first)]
    came_s = [call.came_s for call in same if call.came_s is not None]
    return max(0.0, max(came_s) - max(map(_asked_s, same))) if came_s else None


def _key(call: Call) -> tuple[int, int, str]:
    return call.group, call.sequence, call.op
