"""What a script does with futures is seen: waits in Python, and collectives that other ones' ends ask for."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.execution import rank_lines
from tests.workloads.kinds.script.backend.ranks import Ranks, finished
from workloads.kinds.ranks import Call

SCRIPT = Path(__file__).with_name("futures_of_hooks.py")


def sums(folder: Path, how: str, library: str) -> list[list[Call]]:
    """By rank, the sums of two that ran the script."""
    ranks = Ranks(folder, "star(hosts=2)", "ring")
    ranks.library = library
    finished(ranks.start(SCRIPT, how))
    rows = [rank_lines.rows(rank_lines.read(ranks.samples(f"h{rank}")), rank, rank) for rank in range(2)]
    return [[call for call in one.calls if call.op == "allreduce"] for one in rows if one is not None]


@pytest.mark.parametrize("library", ["", "gloo"])
def test_what_powersgd_asks_for_when_others_end_is_told_apart(library: str, tmp_path: Path) -> None:
    """Of its five steps, two sum the gradient. Three sum what is not compressed, and then two factors each. Where a sum
    is over before a rank says what is to be done then, that is done at once, and the script waits for it."""
    first, second = (sorted(calls, key=lambda call: call.asked_s) for calls in sums(tmp_path, "power", library))
    chained = [False] * 2 + [False, True, True] * 3
    assert [call.chained for call in first] == chained
    assert all(call.waited_s is None for call in first)
    assert [call.chained or call.waited_s is not None for call in second] == chained


def test_waits_for_futures_are_seen(tmp_path: Path) -> None:
    """Of the future itself, and of a callback on one; the last one nobody waits for."""
    for calls in sums(tmp_path, "wait", ""):
        assert [call.waited_s is None for call in calls] == [False, False, True]
