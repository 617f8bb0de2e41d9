"""Waiting for a calm machine: for whom, how long, and what it costs where nobody is there."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.experiment import progress, runner
from testbed.experiment.run import Experiment
from testbed.machine.calm import GLANCE_S, LOOK_S, Look, Lookout, Reading, between, read_machine, sentence, used_ticks

from ..conftest import SPEC
from ..experiment.test_progress import record
from ..runner import go, in_memory
from ..sweeps import Made, records, source

CORES = 2


class Machine:
    """Two cores with a plan: from each moment (s) on, the shares that other programs use and that the host takes."""

    def __init__(self, *plan: tuple[float, float, float]) -> None:
        self._plan = plan
        self.now_s = 0.0
        self._busy_s = self._steal_s = 0.0

    def read(self) -> Reading:
        total_s = CORES * self.now_s
        return Reading(self.now_s, total_s - self._busy_s - self._steal_s, self._steal_s, total_s, 0.0)

    def sleep(self, seconds: float) -> None:
        busy, stolen = next((b, s) for at_s, b, s in reversed(self._plan) if at_s <= self.now_s)
        self._busy_s += CORES * seconds * busy
        self._steal_s += CORES * seconds * stolen
        self.now_s += seconds

    def lookout(self, quiet_s: float = 30.0) -> Lookout:
        return Lookout(quiet_s, self.read, self.sleep)


def test_a_calm_machine_costs_next_to_nothing() -> None:
    machine = Machine((0.0, 0.05, 0.02))
    lookout = machine.lookout()
    lookout.begin()
    machine.sleep(0.04)  # results are saved
    found = lookout.wait(lambda _: pytest.fail("nothing to wait for"))
    assert found == {"waited_s": 0.0, "calm": True, "busy": 0.05, "stolen": 0.02, "taken": False}
    assert machine.now_s == pytest.approx(GLANCE_S)
    lookout.begin()
    machine.sleep(1.0)  # they are many
    assert lookout.wait(lambda _: None) is not None
    assert machine.now_s == pytest.approx(GLANCE_S + 1.0)


def test_it_waits_until_others_are_gone_and_says_for_whom() -> None:
    machine, told = Machine((0.0, 0.35, 0.0), (2.0, 0.1, 0.2), (4.0, 0.1, 0.01)), list[str]()
    lookout = machine.lookout()
    lookout.begin()
    found = lookout.wait(told.append)
    assert found is not None
    assert found["waited_s"] == pytest.approx(4.0, abs=2 * LOOK_S)
    assert (found["calm"], found["busy"], found["stolen"]) == (True, 0.35, 0.0)
    assert told[0] == "waiting for other programs to leave the cores: 35% busy"
    assert told[-1] == "waiting for the host to give back the cores: 20% taken"


def test_patience_ends_and_comes_back() -> None:
    """A machine that is never calm costs a run twice the wait, however many trials it has."""
    machine = Machine((0.0, 0.5, 0.0), (200.0, 0.0, 0.0), (201.0, 0.5, 0.0))
    lookout = machine.lookout()

    def wait() -> dict:
        lookout.begin()
        return lookout.wait(lambda _: None) or {}

    waits = [wait() for _ in range(20)]
    assert [one["calm"] for one in waits] == [False] * 20
    assert waits[0]["waited_s"] == pytest.approx(30, abs=LOOK_S)
    assert waits[1]["waited_s"] == pytest.approx(15, abs=LOOK_S)
    assert sum(one["waited_s"] for one in waits) < 60 + 20 * LOOK_S
    machine.now_s = 200.5
    assert wait()["calm"]
    machine.now_s = 202.0
    assert wait()["waited_s"] == pytest.approx(30, abs=LOOK_S)


def test_who_does_not_want_to_wait_does_not_look() -> None:
    lookout = Lookout(0.0, lambda: pytest.fail("nobody looks"))
    lookout.begin()
    assert lookout.wait(lambda _: None) is None


def test_what_is_ours_is_no_reason_to_wait() -> None:
    first, last = Reading(0.0, 0.0, 0.0, 0.0, 5.0), Reading(1.0, 0.4, 0.1, 2.0, 6.2)
    assert between(first, last) == Look(pytest.approx(0.15), 0.05)
    assert between(first, Reading(1.0, 0.5, 0.0, 2.0, 7.0)) == Look(0.0, 0.0)  # clocks that tick at different moments
    assert between(first, first).is_calm


def stat(folder: Path, pid: int, parent: int, *ticks: int) -> None:
    (folder / str(pid)).mkdir()
    before = [0] * 9
    fields = ["S", parent, *before, *ticks, *([0] * 30)]
    (folder / str(pid) / "stat").write_text(f"{pid} (a name) with) R 1) {' '.join(map(str, fields))}")


def test_our_children_and_theirs_are_ours_also_once_they_have_ended(tmp_path: Path) -> None:
    stat(tmp_path, 10, 1, 5, 3, 40, 2)  # 42 of children that it has waited for
    stat(tmp_path, 11, 10, 7, 0, 0, 0)
    stat(tmp_path, 12, 11, 100, 1, 0, 0)
    stat(tmp_path, 13, 1, 1000, 1000, 0, 0)
    (tmp_path / "14").mkdir()  # has ended since it was listed
    (tmp_path / "self").mkdir()
    assert used_ticks(tmp_path, 10) == 50 + 7 + 101


def test_this_machine_can_be_read() -> None:
    first, began_s = read_machine(), time.process_time()
    while time.process_time() < began_s + 0.1:
        pass
    last = read_machine()
    assert last.ours_s - first.ours_s >= 0.05
    assert last.total_s > first.total_s


def test_a_line_says_how_long_it_waited_and_for_whom() -> None:
    waited = {"waited_s": 4.004, "calm": True, "busy": 0.35, "stolen": 0.0}
    line = progress.sentence(record("a", "A", 1.0, waited=waited))
    assert line.endswith(", VALID; waited 4.00 s for other programs to leave the cores: 35% busy")
    vain = {"waited_s": 30.1, "calm": False, "busy": 0.0, "stolen": 0.121}
    assert sentence(vain) == "waited 30.1 s in vain for the host to give back the cores: 12% taken"
    assert sentence({"waited_s": 0.0, "calm": True, "busy": 0.1, "stolen": 0.0}) == ""
    assert sentence(None) == ""


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Machine]:
    """Have runs believe in a machine that others leave after a second."""

    def made() -> Machine:
        machine = Machine((0.0, 0.5, 0.0), (1.0, 0.0, 0.0))
        monkeypatch.setattr(runner, "Lookout", machine.lookout)
        return machine

    return made


def test_each_attempt_waits_and_its_record_says_so(made_up: Made, busy: Callable[[], Machine], tmp_path: Path) -> None:
    busy()
    made_up()
    go(Experiment.new(source(SPEC, "quiet=20 s"), tmp_path / "run", in_memory))
    found = records(tmp_path / "run")
    assert found["PS-b2"]["waited"]["waited_s"] == pytest.approx(1.0, abs=2 * LOOK_S)
    assert found["ring-b2"]["waited"] == {"waited_s": 0.0, "calm": True, "busy": 0.0, "stolen": 0.0, "taken": False}


def test_a_lab_whose_workers_run_elsewhere_does_not_wait(
    made_up: Made, busy: Callable[[], Machine], tmp_path: Path
) -> None:
    machine = busy()
    made_up()
    go(Experiment.new(source(SPEC, "quiet=20 s", "lab=baremetal"), tmp_path / "run", in_memory))
    assert [one["waited"] for one in records(tmp_path / "run").values()] == [None, None]
    assert machine.now_s == 0.0
