"""Turns of jobs without a lab: which instructions follow which events, wherever the protocol is stopped."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from testbed.execution.turns import Event, Light, Lit, LookAhead, Looked, Start, Turns
from testbed.experiment.expand import trials
from testbed.spec import read
from testbed.trial.job import Job

SPEC = """
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
    return trials(read(SPEC, "spec.yaml", Path()))[0].jobs


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
