"""Room on the disk, and trials that failed for want of it."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from testbed.base.errors import DiskFullError
from testbed.execution.working_files import blame_full_disk, check_room, needed_bytes
from testbed.experiment.expand import trials
from testbed.spec import read
from testbed.trial.model import Trial


@pytest.mark.parametrize(("free", "is_full"), [(12_000, True), (50 * 2**20, False)])
def test_a_full_disk_is_blamed_for_what_failed(
    trial: Trial, monkeypatch: pytest.MonkeyPatch, free: int, is_full: bool
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    if not is_full:
        blame_full_disk(trial, Path("run"))
        return
    with pytest.raises(DiskFullError, match=r"^run: the disk is full, and so PS-b2 failed"):
        blame_full_disk(trial, Path("run"))


def test_a_simulated_trial_needs_room_for_its_samples_only() -> None:
    text = (
        "{name: x, lab: %s, links: {rate: 1 Gbit/s}, arms: [{topology: star(hosts=2), scheme: ring}],"
        " workload: {kind: profile, model: vgg19, batch: 4, iterations: 100, compute: none}}"
    )
    emulated, simulated = (trials(read(text % lab, "spec.yaml", Path()))[0] for lab in ("netns", "simulator"))
    assert needed_bytes(simulated) < 2**20 < 2**29 < needed_bytes(emulated)


def test_a_trial_for_which_there_is_no_room_is_not_begun(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = needed_bytes(trial)
    assert needed > 4 * trial.job.floats
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=needed - 1))
    with pytest.raises(DiskFullError, match=r"^run: .* are left on the disk, the next trial needs "):
        check_room(Path("run"), needed)
    check_room(Path("run"), needed - 1)
