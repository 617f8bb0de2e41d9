"""Rounds of recovery without a lab: which instructions follow which events, wherever the protocol is stopped."""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

import pytest

from testbed.base.errors import WorkerError
from testbed.experiment.expand import trials
from testbed.lab.programs import Exit
from testbed.recovery.rounds import Call, CheckedIn, Died, Event, Fence, Looked, Rounds, Said, SendOn
from testbed.spec import read
from testbed.trial.job import Job

from .test_failover import ONE, SPEC

FIRST, SILENCE_S = "h1", 3.0


@pytest.fixture(scope="module")
def job() -> Job:
    return trials(read(SPEC.replace("TOPOLOGY", f'"{ONE}"'), "spec.yaml", Path()))[0].job


def killed(job: Job, process: str, at_s: float = 1.0) -> Died:
    return Died(Exit(process, job.processes[process], -9, 0.0, at_s))


def others(job: Job, *gone: str) -> tuple[str, ...]:
    return tuple(process for process in job.processes if process not in gone)


def told(rounds: Rounds, events: list[Event]) -> list[Any]:
    """Instructions, as text: those of two machines are compared."""
    return [describe(instruction) for event in events for instruction in rounds.handle(event)]


def describe(instruction: Any) -> Any:
    if not isinstance(instruction, SendOn):
        return instruction
    last = instruction.recovery
    return (instruction.generation, instruction.here, instruction.taken, last.first, last.behind, last.job.plan.workers)


def course_of_two(job: Job) -> list[Event]:
    """A worker dies; one of the others is silent and fenced; then all go on, until another one dies."""
    left, still = others(job, FIRST), "h2"
    alive = others(job, FIRST, still)
    third = "h5"
    last = others(job, FIRST, still, third)
    return [
        Looked(0.5, others(job)),
        killed(job, FIRST),
        Looked(1.1, left),
        *(CheckedIn(process, Said(4 if process == "h0" else 3, "lost h1")) for process in alive),
        Looked(1.5, left),
        Looked(1.2 + SILENCE_S, left),
        killed(job, still, 4.3),
        Looked(4.5, alive),
        Looked(5.0, alive),
        killed(job, third, 6.0),
        Looked(6.1, last),
        *(CheckedIn(process, Said(7, "lost h5")) for process in last),
        Looked(6.5, last),
    ]


def test_who_dies_begins_a_round_and_who_is_silent_is_fenced(job: Job) -> None:
    rounds = Rounds(job)
    found = told(rounds, course_of_two(job))
    workers = tuple(node for node in job.plan.workers if node not in (job.processes[FIRST], job.processes["h2"]))
    assert found[0] == Call(0)
    assert found[1] == Fence("h2")
    assert found[2][3] == 4, "the iteration that the furthest one has reached"
    assert found[2][5] == workers
    assert found[3] == Call(1)
    assert found[4][0] == 1
    course = rounds.course
    assert [phase.first for phase in course.phases] == [0, 4, 7]
    assert [phase.cause.kind for phase in course.phases] == ["beginning", "death", "death"]
    assert "h2 did not check in for 3 s" in course.phases[1].cause.what


def test_the_protocol_can_be_stopped_at_any_point_and_goes_on(job: Job) -> None:
    """A machine that is stored between two events gives the same instructions from there on."""
    events = course_of_two(job)
    whole = told(Rounds(job), events)
    for stop in range(len(events) + 1):
        rounds = Rounds(job)
        before = told(rounds, events[:stop])
        again: Rounds = pickle.loads(pickle.dumps(rounds))
        assert before + told(again, events[stop:]) == whole, f"stopped after {stop} events"


@pytest.mark.parametrize("seed", range(20))
def test_looks_in_between_and_the_order_of_check_ins_change_nothing(job: Job, seed: int) -> None:
    draw = random.Random(seed)
    left = others(job, FIRST)
    check_ins: list[Event] = [CheckedIn(process, Said(3, "lost h1")) for process in left]
    draw.shuffle(check_ins)
    events: list[Event] = [killed(job, FIRST)]
    for event in check_ins:
        events += [Looked(1.1, left)] * draw.randrange(3) + [event]
    first, *rest = told(Rounds(job), [*events, Looked(1.2, left)])
    assert first == Call(0)
    ((generation, here, *_),) = rest
    assert (generation, here) == (0, left)


def test_a_death_in_the_middle_of_a_round_is_just_another_one(job: Job) -> None:
    left, fewer = others(job, FIRST), others(job, FIRST, "h2")
    events = [killed(job, FIRST), Looked(1.1, left), killed(job, "h2"), Looked(1.2, fewer)]
    events += [CheckedIn(process, Said(3, "lost h1")) for process in fewer]
    rounds = Rounds(job)
    assert told(rounds, events) == [Call(0)]
    assert len(told(rounds, [Looked(1.3, fewer)])) == 1
    assert len(rounds.course.recoveries[0].deaths) == 2


def test_nobody_is_left_and_nobody_died(job: Job) -> None:
    gone = [killed(job, process) for process in job.workers]
    with pytest.raises(WorkerError, match="no worker is left: h0 was killed by SIGKILL, and 5 more"):
        told(Rounds(job), [*gone, Looked(2.0, ())])
    stuck = [CheckedIn(process, Said(0, "lost h3")) for process in job.processes]
    with pytest.raises(WorkerError, match="all processes are alive, but they cannot go on: lost h3"):
        told(Rounds(job), [*stuck, Looked(2.0, others(job))])
