"""Runners: trials that go to other processes leave the same records."""

from __future__ import annotations

import os
import pickle
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from testbed.base.errors import SpecError, TrialError
from testbed.experiment.expand import trials
from testbed.experiment.run import Experiment
from testbed.experiment.runner import Here
from testbed.lab.limits import Limits
from testbed.spec import Source, read
from testbed.testing import IdealPlace
from testbed.trial.model import Trial

from ..conftest import PROFILE, SPEC
from ..doubles.two_processes import TwoProcesses
from ..fake_lab import FakeLab
from ..runner import go, in_memory

SWEEP = SPEC.replace("batch: [2]", "batch: [2, 4]") + "repeats: 2\n"
OF_THE_MOMENT = {"started", "duration_s", "waited"}
SPECS = {
    "trained": SPEC,
    "profile": PROFILE,
    "in a container": f"{PROFILE}lab: docker\ndocker: {{memory: 1 GiB}}\n",
    "command": textwrap.dedent("""\
        workload: {kind: command, command: "true"}
        links: {rate: 1 Gbit/s}
        arms: [{topology: star(hosts=2)}]
        """),
}


def source(text: str, folder: Path = Path()) -> Source:
    return read(text, "spec.yaml", folder)


def records(run: Path) -> dict[str, Any]:
    """Records of a run, without what is of the moment."""
    with Experiment.resumed(run, None, in_memory) as experiment:
        return {
            name: {key: value for key, value in record.items() if key not in OF_THE_MOMENT}
            for name, record in experiment.records.items()
        }


@pytest.mark.parametrize("name", SPECS)
def test_a_trial_that_was_pickled_is_the_same_trial(name: str, tmp_path: Path) -> None:
    for trial in trials(source(SPECS[name], tmp_path)):
        again: Trial = pickle.loads(pickle.dumps(trial))
        assert again.id == trial.id
        assert again.identity == trial.identity
        assert again.spec == trial.spec
        assert again.spec.lab_options == trial.spec.lab_options


def test_a_trial_takes_large_files_of_a_users_data_with_it(tmp_path: Path) -> None:
    from testbed.workloads.own.prepared import SMALL_BYTES, Prepared

    (tmp_path / "large").write_bytes(large := os.urandom(SMALL_BYTES + 1))
    descriptor = os.open(tmp_path / "large", os.O_RDONLY)
    os.read(descriptor, 10)  # the position of a descriptor is nobody's business
    whole = Prepared((), {"data": "digest"}, "digest", {"facts.json": b"{}", "large": descriptor})
    again: Prepared = pickle.loads(pickle.dumps(whole))
    os.close(descriptor)
    again.place(tmp_path / "again")
    assert (tmp_path / "again" / "large").read_bytes() == large
    assert (again.inputs, again.digest, again.nbytes) == (whole.inputs, "digest", 2 + SMALL_BYTES + 1)


def test_an_error_that_another_process_raises_keeps_its_fix() -> None:
    error = TrialError("it failed", fix="mend it")
    error.by_perturb = True
    again: TrialError = pickle.loads(pickle.dumps(error))
    assert (str(again), again.fix, again.by_perturb) == (str(error), "mend it", True)


def test_a_sweep_in_two_other_processes_leaves_the_same_records(tmp_path: Path) -> None:
    ideal = partial(Here, IdealPlace)
    there = go(Experiment.new(source(SWEEP), tmp_path / "there", partial(TwoProcesses, ideal)))
    here = go(Experiment.new(source(SWEEP), tmp_path / "here", ideal))
    assert not here.failed
    assert [record["id"] for record in there.records] == [record["id"] for record in here.records]
    assert records(tmp_path / "there") == records(tmp_path / "here")
    for name in ("results.csv", "samples"):
        assert (tmp_path / "there" / name).exists()
    assert {path.name for path in (tmp_path / "there" / "samples").iterdir()} == {
        path.name for path in (tmp_path / "here" / "samples").iterdir()
    }


def test_a_lab_that_cannot_emulate_the_links_is_told_before_there_is_a_directory(tmp_path: Path) -> None:
    class Refusing(FakeLab):
        def require(self, *_: object) -> None:
            raise SpecError("no such links here", fix="take others")

    with pytest.raises(SpecError, match="no such links here"):
        Experiment.new(source(SPEC), tmp_path / "run", lambda: Here(Refusing))  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()


class Small(IdealPlace):
    limits = Limits("a toy", slowest_bps=1, fastest_bps=10**9, most_hosts=2, most_links=9)


@pytest.mark.parametrize("runner", [partial(Here, Small), partial(Here, FakeLab, Small.limits)])
def test_a_network_beyond_the_limits_is_told_before_there_is_a_directory(
    runner: Callable[[], Here], tmp_path: Path
) -> None:
    """Those of a place, and those that a lab was declared with."""
    with pytest.raises(SpecError, match=r"star\(hosts=3\) has 3 hosts; a lab holds at most 2"):
        Experiment.new(source(SPEC), tmp_path / "run", runner)
    assert not (tmp_path / "run").exists()
