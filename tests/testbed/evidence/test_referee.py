"""The process that repeats the training: what happens to a trial when it dies or stands still."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from testbed.base.errors import TrialError, TrialTimeoutError
from testbed.evidence import referee
from testbed.evidence.referee import Referee, read_weights
from testbed.files.foreign import UnfitError
from testbed.workloads.job import Training

TRAINING = Training("resnet8", "digits", 2, 1, 0.01, 0.9, 1)


@pytest.fixture
def judge() -> Iterator[Referee]:
    with Referee() as one:
        yield one


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    from testbed.workloads.learning.reference import reference

    np.save(tmp_path / "weights.npy", reference(TRAINING, 2).weights)
    return tmp_path / "weights.npy"


def pid(judge: Referee) -> int:
    assert judge._process is not None
    return judge._process.pid


def test_one_that_died_is_started_anew_for_the_next_trial(judge: Referee, weights: Path) -> None:
    assert judge.check(TRAINING, [(0, 2)], "real", weights)["weights_error"] < 1e-6
    first = pid(judge)
    os.kill(first, signal.SIGKILL)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
    assert judge.check(TRAINING, [(0, 2)], "real", weights)["weights_error"] < 1e-6
    assert pid(judge) != first


def test_one_that_dies_at_work_fails_the_trial(judge: Referee, weights: Path) -> None:
    unknown = replace(TRAINING, model="absent")
    with pytest.raises(TrialError, match="repeats the training as single-process SGD ended with status 1"):
        judge.check(unknown, [(0, 2)], "real", weights)


def test_weights_that_are_no_file_fail_the_trial_and_the_next_is_judged(judge: Referee, weights: Path) -> None:
    fifo = weights.with_name("fifo.npy")
    os.mkfifo(fifo)
    with pytest.raises(TrialError, match=r"fifo\.npy: is no regular file"):
        judge.check(TRAINING, [(0, 2)], "real", fifo)
    assert judge.check(TRAINING, [(0, 2)], "real", weights)["weights_error"] < 1e-6


def test_weights_are_as_many_floats_as_the_model_has(tmp_path: Path) -> None:
    path = tmp_path / "weights.npy"
    np.save(path, np.arange(5, dtype=np.float32))
    assert read_weights(path, 5).tolist() == [0, 1, 2, 3, 4]
    (tmp_path / "link.npy").symlink_to(path)
    with pytest.raises(UnfitError, match="is a symbolic link"):
        read_weights(tmp_path / "link.npy", 5)
    for other in (np.arange(6, dtype=np.float32), np.arange(5.0), np.ones((5, 1), np.float32), np.array([{}] * 5)):
        np.save(path, other, allow_pickle=True)
        with pytest.raises(UnfitError, match="does not hold 5 floats of 32 bits"):
            read_weights(path, 5)
    np.save(path, np.arange(5, dtype=np.float32))
    right = path.read_bytes()
    for content in (b"", right[:-1], right + b"x", b"\x93NUMPY\x01\x00v\x00" + b"[" * 118):
        path.write_bytes(content)
        with pytest.raises(UnfitError, match="does not hold 5 floats of 32 bits"):
            read_weights(path, 5)


def test_one_that_stands_still_fails_the_trial_and_is_ended(
    judge: Referee, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge.check(TRAINING, [(0, 2)], "real", weights)
    first = pid(judge)
    os.kill(first, signal.SIGSTOP)
    with monkeypatch.context() as patch:
        patch.setattr(referee, "SILENT_S", 2.0)
        with pytest.raises(TrialTimeoutError, match="showed no sign of life for 2 s"):
            judge.check(TRAINING, [(0, 2)], "real", weights)
    assert not Path(f"/proc/{first}").exists()
    assert judge.check(TRAINING, [(0, 2)], "real", weights)["weights_error"] < 1e-6
