"""When a job began: its processes, and its first iteration."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest

from testbed.control.feed import Feed
from testbed.execution import several, supervise
from testbed.execution.starting import Began, Event, Light, Lit, LookAhead, Looked, Start, Starting, Turns, spans
from testbed.experiment.expand import trials
from testbed.lab.programs import Exit, Launch
from testbed.spec import read
from testbed.trial.files import Files
from testbed.trial.job import Job

from ..fake_lab import FakeLab

SPEC = """
name: jobs
workload: {kind: profile, model: lenet5, scale: 100, batch: 16, iterations: 3, compute: none}
links: {rate: 100 Mbit/s}
arms:
  - topology: star(hosts=4)
    jobs:
      - {name: a, scheme: ring, hosts: 2}
      - {name: b, scheme: ring, hosts: 2}
"""


class Noting(FakeLab):
    """A lab that only notes when processes are to be started."""

    def launch(self, workers: Sequence[Launch]) -> None:
        self._note("launch", list(workers))


def test_starting_the_processes_is_no_waiting(tmp_path: Path) -> None:
    (trial,) = trials(read(SPEC, "spec.yaml", Path()))
    lab, feed = Noting(), Feed(dict.fromkeys(trial.processes))
    starting = Starting(trial.jobs, [], lab, Files(tmp_path, tmp_path), None)
    starting.begin(feed)
    starting.look(feed)
    for name, note in zip(("a", "b"), lab.notes, strict=True):
        one = starting.began[name]
        assert one.origin_s <= one.origin_s + one.started_s <= note.at_s


class Slow(Noting):
    """A lab in which the start of a job's processes takes a while."""

    def launch(self, workers: Sequence[Launch]) -> None:
        super().launch(workers)
        time.sleep(0.2)


def begun(tmp_path: Path, spec: str, lab: FakeLab) -> tuple[Starting, Feed]:
    """Jobs of which those that are due were started."""
    (trial,) = trials(read(spec, "spec.yaml", Path()))
    launches = [Launch(process, node, "", "") for process, node in trial.processes.items()]
    starting = Starting(trial.jobs, launches, lab, Files(tmp_path, tmp_path), None)
    feed = Feed(dict.fromkeys(trial.processes))
    starting.begin(feed)
    starting.look(feed)
    return starting, feed


@pytest.mark.parametrize("submitted_s", [0.0, 0.1])
def test_starting_the_processes_of_another_job_is_no_waiting_either(tmp_path: Path, submitted_s: float) -> None:
    """Also if the job is submitted meanwhile."""
    spec = SPEC.replace("{name: b,", f"{{name: b, start: {submitted_s} s,")
    starting, feed = begun(tmp_path, spec, Slow())
    starting.look(feed)
    told = spans(starting.began["b"])
    assert told["submitted_s"] == submitted_s
    assert told["started_s"] >= 0.2
    assert told["queued_s"] == 0


def test_a_job_waits_until_the_processes_before_it_have_ended_and_not_until_somebody_looks(tmp_path: Path) -> None:
    starting, feed = begun(tmp_path, SPEC.replace("hosts: 2", "hosts: 4"), Noting())
    origin_s = starting.began["a"].origin_s
    processes = [launch.process for launch in starting._launches["a"]]
    feed.note([Exit(process, 0, 0, ended_s=origin_s + 0.01 * i) for i, process in enumerate(processes, 1)])
    time.sleep(0.1)
    starting.look(feed)
    told = spans(starting.began["b"])
    assert told["queued_s"] == pytest.approx(0.01 * len(processes), abs=1e-6)
    assert told["started_s"] >= 0.1


SERVED = """
  - topology: star(hosts=5)
    service: pbox
    jobs:
      - {name: a, scheme: service, hosts: 2}
      - {name: b, scheme: service, hosts: 2}
"""


@pytest.mark.parametrize(
    ("of_core", "said"),
    [
        ({"error": "h1 pushed key 17 twice in iteration 4", "elsewhere": False}, "a: h1 pushed key 17 twice"),
        ({"error": "lost the connection to h1", "elsewhere": True}, "the worker on a/h0 ended with exit status 1"),
    ],
)
def test_a_job_fails_for_what_its_part_of_a_shared_process_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_core: dict[str, object], said: str
) -> None:
    monkeypatch.setattr(supervise, "SETTLE_S", 0.0)
    spec = SPEC[: SPEC.index("arms:")] + f"arms:{SERVED}"
    starting, feed = begun(tmp_path, spec, Noting())
    lost = {"error": "lost the connection to h4.core0", "elsewhere": True}
    for part, words in (("a/h0", lost), ("a/h1", lost), ("a/h4.core0", of_core)):
        path = starting._files.samples(part)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"kind": "error", "fix": "mend it", **words}) + "\n")
    feed.note([Exit("a/h0", 0, 1), Exit("a/h1", 1, 1)])
    starting.look(feed)
    starting.look(feed)
    assert starting.failed.keys() == {"a"}
    assert starting.failed["a"].problem.startswith(said)


def test_moments_are_from_the_beginning_of_the_trial() -> None:
    began = Began(1.0, 3.0, 3.5, origin_s=100.0)
    assert spans(began) == {"submitted_s": 1.0, "started_s": 3.5, "queued_s": 2.0}
    samples = pd.DataFrame({"start_s": [106.0, 105.25], "end_s": [107.0, 108.0]})
    assert several.begun_s(samples, began) == pytest.approx(5.25)


THREE_JOBS = """
name: jobs
workload: {kind: profile, model: lenet5, scale: 100, batch: 16, iterations: 3, compute: none}
links: {rate: 100 Mbit/s}
arms:
  - topology: "patch_panel(servers=4,degree=2,rings=[1],reconfiguration_s=0.05)"
    jobs:
      - {name: a, scheme: ring, hosts: 4}
      - {name: b, scheme: ring, hosts: 4, rings: [[0,2,1,3]]}
      - {name: c, scheme: ring, hosts: 4, start: 5 s}
"""


@pytest.fixture(scope="module")
def jobs() -> tuple[Job, ...]:
    return trials(read(THREE_JOBS, "spec.yaml", Path()))[0].jobs


def turns(jobs: tuple[Job, ...]) -> Turns:
    return Turns(jobs, {job.name: [*job.processes] for job in jobs})


def told(machine: Turns, events: list[Event]) -> list[tuple[str, str]]:
    return [(type(one).__name__, one.job.name) for event in events for one in machine.handle(event)]


def course(jobs: tuple[Job, ...]) -> list[Event]:
    """Each job waits for the one before it, and one of them for its circuits."""
    a, b, c = (frozenset(job.processes) for job in jobs)
    none = frozenset[str]()
    return [
        Looked(0.0, none),
        Looked(1.0, a),
        Looked(2.0, none),
        Looked(2.1, none),
        Lit("b"),
        Looked(2.2, b),
        Looked(5.5, b),
        Looked(6.0, none),
        Looked(7.0, c),
    ]


def test_a_job_starts_when_its_hosts_are_free_and_its_circuits_carry_light(jobs: tuple[Job, ...]) -> None:
    machine = turns(jobs)
    kinds = [LookAhead.__name__, Light.__name__, Start.__name__]
    ahead, light, start = kinds
    assert told(machine, course(jobs)) == [
        (start, "a"),
        (ahead, "b"),
        (ahead, "b"),
        (light, "b"),
        (ahead, "b"),
        (light, "b"),
        (start, "b"),
        (start, "c"),
    ]
    assert (machine.waiting, [*machine.running]) == ([], ["c"])


def test_the_protocol_can_be_stopped_at_any_point_and_goes_on(jobs: tuple[Job, ...]) -> None:
    events = course(jobs)
    whole = told(turns(jobs), events)
    for stop in range(len(events) + 1):
        machine = turns(jobs)
        before = told(machine, events[:stop])
        again: Turns = pickle.loads(pickle.dumps(machine))
        assert before + told(again, events[stop:]) == whole, f"stopped after {stop} events"
