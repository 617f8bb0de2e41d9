"""Rows that C++ makes are those that Python would make."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from testbed.execution import rank_lines
from testbed.workloads.kinds.ranks import RankRows
from testbed.workloads.kinds.script.backend import watcher
from tests.workloads.kinds.script.backend.ranks import Ranks

SCRIPT = Path(__file__).with_name("watched.py")
MAKERS = ("c++", "python")

compiled = pytest.mark.skipif(watcher.load() is None, reason="watcher.cpp is not compiled for this PyTorch")


def told(folder: Path, maker: str, what: str) -> tuple[list[RankRows], list[str], str]:
    """Rows and words of the ranks, and the first one's file."""
    (own := folder / maker).mkdir()
    ranks = Ranks(own, "star(hosts=2)", "ring")
    ranks.library = "gloo"
    ended = ranks.fork(SCRIPT, maker, what)
    assert [status for status, _ in ended] == [0, 0], ended
    found = [
        rank_lines.rows(rank_lines.read(ranks.samples(f"h{rank}")), rank, rank) for rank in range(2 - (what == "loss"))
    ]
    assert None not in found
    return [rows for rows in found if rows], [said for _, said in ended], ranks.samples("h0").read_text()


@pytest.fixture(scope="module")
def by_python(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[RankRows], list[str], str]:
    return told(tmp_path_factory.mktemp("by_python"), "python", "steps")


def kinds(rows: RankRows) -> list[tuple[object, ...]]:
    """All of its collectives but their moments."""
    return sorted(
        (call.group, call.sequence, call.op, call.dtype, call.nbytes, call.by, call.ranks, call.is_other, call.chained)
        for call in rows.calls
    )


def totals(text: str) -> object:
    return json.loads(text.splitlines()[-1])["calls"]


@compiled
def test_rows_of_c_and_of_python_are_alike(by_python: tuple[list[RankRows], list[str], str], tmp_path: Path) -> None:
    by_c = told(tmp_path, "c++", "steps")
    assert by_c[1] == by_python[1]  # the same gradients
    assert totals(by_c[2]) == totals(by_python[2])
    for ours, theirs in zip(by_c[0], by_python[0], strict=True):
        assert (ours.slow_rows_of, theirs.slow_rows_of) == (None, torch.__version__)
        assert kinds(ours) == kinds(theirs)
        assert ours.groups == theirs.groups
        sums, others = (
            [c for c in rows.calls if c.op == "allreduce" and c.waited_s is None] for rows in (ours, theirs)
        )
        assert {(c.group, c.dtype) for c in sums} == {(0, "float32"), (1, "float64")}
        assert len(sums) == len(others) > 10
        assert all(0 < c.asking_s <= c.done_s - c.asked_s + 1e-6 < 60 for c in sums)  # lines have nanoseconds


@compiled
def test_a_sum_that_fails_is_told_as_python_tells_it(tmp_path: Path) -> None:
    for maker in MAKERS:
        (rows,), (said, _), _ = told(tmp_path, maker, "loss")
        assert "failed: " in said
        last = max(call.sequence for call in rows.calls if call.group == 0)
        assert rows.failed
        assert {(each.op, each.group) for each in rows.failed} == {("allreduce", 0)}
        assert all(each.sequence is not None and each.sequence >= last - 2 for each in rows.failed)
        assert all(each.why.startswith("RuntimeError: ") and "\n" not in each.why for each in rows.failed)


@compiled
def test_it_is_taken_for_no_other_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "RELEASE", "2.12.1")
    assert watcher.load.__wrapped__() is None


def test_without_it_ranks_say_that_python_makes_their_rows(
    by_python: tuple[list[RankRows], list[str], str],
) -> None:
    rows, _, _ = by_python
    assert [one.slow_rows_of for one in rows] == [torch.__version__] * 2
