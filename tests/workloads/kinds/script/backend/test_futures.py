"""What a script does with futures is seen: waits in Python, and collectives that other ones' ends ask for."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import torch

from testbed.execution import rank_lines
from testbed.workloads.kinds.ranks import Call
from testbed.workloads.kinds.script.backend import futures
from tests.workloads.kinds.script.backend.ranks import Ranks, fork

SCRIPT = Path(__file__).with_name("futures_of_hooks.py")
WAITED = 3
"""Sums that the script waits for, or not, before its hook asks for some."""


@pytest.fixture(scope="module")
def by_mover(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[Call]]]:
    """By mover and rank, the sums of two that ran the script, in the order in which it asked for them."""
    both = {}
    for mover, library in (("ours", ""), ("gloo", "gloo")):
        both[mover] = Ranks(tmp_path_factory.mktemp(mover), "star(hosts=2)", "ring")
        both[mover].library = library
    for status, said in fork([*both.values()], SCRIPT):
        assert status == 0, said
    return {mover: sums_of(ranks) for mover, ranks in both.items()}


def sums_of(ranks: Ranks) -> list[list[Call]]:
    rows = [rank_lines.rows(rank_lines.read(ranks.samples(f"h{rank}")), rank, rank) for rank in range(2)]
    calls = [[call for call in one.calls if call.op == "allreduce"] for one in rows if one is not None]
    return [sorted(some, key=lambda call: call.asked_s) for some in calls]


@pytest.fixture(params=["ours", "gloo"])
def sums(request: pytest.FixtureRequest, by_mover: dict[str, list[list[Call]]]) -> list[list[Call]]:
    return by_mover[request.param]


def test_waits_for_futures_are_seen(sums: list[list[Call]]) -> None:
    """Of the future itself, and of a callback on one; the last one nobody waits for."""
    for calls in sums:
        assert [call.waited_s is None for call in calls[:WAITED]] == [False, False, True]


def test_what_powersgd_asks_for_when_others_end_is_told_apart(sums: list[list[Call]]) -> None:
    """Of its five steps, two sum the gradient. Three sum what is not compressed, and then two factors each. Where a sum
    is over before a rank says what is to be done then, that is done at once, and the script waits for it."""
    first, second = (calls[WAITED:] for calls in sums)
    chained = [False] * 2 + [False, True, True] * 3
    assert [call.chained for call in first] == chained
    assert all(call.waited_s is None for call in first)
    assert [call.chained or call.waited_s is not None for call in second] == chained


def test_a_process_that_ends_waits_until_nothing_is_to_be_called_any_more() -> None:
    future: torch.futures.Future[int] = torch.futures.Future()
    called: list[int] = []
    futures.call_back(future, lambda done: called.append(done.value()))
    timer = threading.Timer(0.1, future.set_result, (7,))
    timer.start()
    futures.end_callbacks()
    assert called == [7]
    assert not futures._callbacks
    timer.join()


def test_a_callback_that_never_comes_keeps_no_process_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(futures, "LEAVE_S", 0.05)
    future: torch.futures.Future[int] = torch.futures.Future()
    futures.call_back(future, lambda _: None)
    futures.end_callbacks()
    assert futures._callbacks
    future.set_result(0)
    assert not futures._callbacks
