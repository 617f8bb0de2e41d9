"""Circuits of jobs: when they are patched, and when they are given to hosts that are free."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.base.errors import LabError
from testbed.execution.switching import Switching
from testbed.experiment.expand import trials
from testbed.spec import read
from testbed.trial.job import Job
from testbed.trial.model import Trial
from tests.patience import until

from ..fake_lab import FakeLab

SPEC = """
name: jobs
workload: {kind: profile, model: lenet5, scale: 100, batch: 16, iterations: 3, compute: none}
links: {rate: 100 Mbit/s}
arms:
  - topology: "patch_panel(servers=4,degree=2,rings=[1],reconfiguration_s=0.05)"
    jobs:
      - {name: a, scheme: ring, hosts: 4}
      - {name: b, scheme: ring, hosts: 4, rings: [[0,2,1,3]]}
"""
PAIRS = [(0, 1), (0, 2)]


def trial(look_ahead: bool) -> Trial:
    text = SPEC.replace("=0.05", "=0.05,look_ahead=true") if look_ahead else SPEC
    return trials(read(text, "spec.yaml", Path()))[0]


def second(trial: Trial) -> Job:
    return trial.jobs[1]


def test_with_look_ahead_switches_turn_once_circuits_are_patched() -> None:
    one, lab = trial(look_ahead=True), FakeLab()
    switching = Switching(lab, one.topology, PAIRS)
    switching.look_ahead(second(one))
    assert not switching.is_lit(second(one)), "they are not patched yet"
    assert not lab.asked("patch")
    until(lambda: switching.is_lit(second(one)))
    (patched,) = lab.asked("patch")
    assert patched.panels == second(one).network.topology.panels
    (record,) = switching.records
    assert (record.what, record.takes_s, record.error) == ("circuits of the job b", 0.0, None)
    assert switching.dark_s["b"] > 0
    switching.close()


def test_without_they_are_dark_for_as_long_as_panels_take() -> None:
    one, lab = trial(look_ahead=False), FakeLab()
    switching = Switching(lab, one.topology, PAIRS)
    switching.look_ahead(second(one))  # nothing can be patched
    until(lambda: switching.is_lit(second(one)))
    (record,) = switching.records
    assert record.takes_s == 0.05
    assert record.begun_s is not None
    assert record.done_s == pytest.approx(record.begun_s + 0.05)
    switching.close()


def test_a_move_that_the_lab_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise LabError("the kernel refuses")

    one, lab = trial(look_ahead=False), FakeLab()
    monkeypatch.setattr(lab, "patch", refuse)
    switching = Switching(lab, one.topology, PAIRS)
    with pytest.raises(LabError, match="the kernel refuses"):
        until(lambda: switching.is_lit(second(one)))
    assert switching.records[0].error == "the kernel refuses"
    switching.close()
