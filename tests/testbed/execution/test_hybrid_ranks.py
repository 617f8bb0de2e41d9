"""Files of a hybrid job's ranks, each of which has a part of the weights: ranks may have made anything of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from testbed.base.errors import TestbedError
from testbed.execution.accounting import told_by_processes
from testbed.execution.correctness import whole
from testbed.trial.files import Files
from testbed.workloads import kinds
from testbed.workloads.kinds.hybrid.parts import HeldOperators
from tests.workloads.kinds.hybrid.test_hybrid_kind import made
from tests.workloads.kinds.hybrid.test_hybrid_plan import TWO

PLAN = made("ring", TWO, {"e": [0], "a": [1], "b": "all"}, 2)
HELD = HeldOperators().held(PLAN)
NAMES = [PLAN.nodes[worker] for worker in PLAN.workers]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Those of two servers, which did as they should."""
    files = Files(work=tmp_path / "work", logs=tmp_path / "logs")
    for name, count in zip(NAMES, HELD, strict=True):
        files.own(name).mkdir(parents=True)
        np.save(files.weights(name), np.ones(count, np.float32))
    return files


def collect(files: Files) -> Path:
    job: Any = SimpleNamespace(kind=kinds.of(PLAN), plan=PLAN, workers=NAMES, name="")
    return whole(job, files, NAMES[0])


def linked(path: Path) -> None:
    path.symlink_to("/etc/shadow")


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**40)


def other(path: Path) -> None:
    np.save(path, np.ones(HELD[0] + 1, np.float32))


def code(path: Path) -> None:
    np.save(path, np.array([{}] * HELD[0]), allow_pickle=True)


def folder(path: Path) -> None:
    path.mkdir()


def not_finite(path: Path) -> None:
    np.save(path, np.full(HELD[0], np.nan, np.float32))


def different(path: Path) -> None:
    np.save(path, np.full(HELD[0], 2, np.float32))


@pytest.mark.parametrize("leave", [linked, endless, large, other, code, folder, os.mkfifo, not_finite, different, None])
def test_a_rank_that_leaves_something_else_fails_its_trial_and_is_named(
    leave: Callable[[Path], object] | None, files: Files
) -> None:
    path = files.weights(NAMES[0])
    path.unlink()
    if leave is not None:
        leave(path)
    with pytest.raises(TestbedError, match=NAMES[0]):
        collect(files)
    assert not files.collected().exists()


def test_parts_of_ranks_that_did_as_they_should_make_a_whole(files: Files) -> None:
    assert (np.load(collect(files)) == 1).all()


@pytest.mark.parametrize(
    "told", [None, {"2": 0}, {"-1": 0}, {"01": 0}, {"1 ": 0}, {"one": 0}, {"99999999999999999999": 0}, {"1": 2**62}]
)
def test_a_rank_that_tells_of_other_bytes_or_nodes_fails_its_trial(told: dict[str, int] | None) -> None:
    iterations = 3
    sent: list[dict[str, Any]] = [{"name": name, "payload_bytes": {}} for name in NAMES]
    for src, dst, count in PLAN.flows:
        sent[src]["payload_bytes"][str(dst)] = iterations * round(count)
    waits = dict.fromkeys(("mp_wait_forward_s", "mp_wait_backward_s", "late_s", "overrun_s"), 0.0)
    samples = pd.DataFrame([{"iteration": i, "rank": rank, **waits} for i in range(iterations) for rank in (0, 1)])
    kind = kinds.of(PLAN)
    assert len(kind.told(PLAN, samples, sent, iterations).pairs) == len(list(PLAN.flows))
    if told is None:
        del sent[0]["payload_bytes"]
    else:
        sent[0]["payload_bytes"] |= told
    with pytest.raises(TestbedError), told_by_processes():
        kind.told(PLAN, samples, sent, iterations)
