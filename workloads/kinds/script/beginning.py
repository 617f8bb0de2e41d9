"""Beginning of a script's first iteration, which the script does not report, and the set-up before it.

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

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from testbed.workloads.kinds.ranks import PAIRED, Call, RankRows
from testbed.workloads.kinds.script.rounds import Round


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
