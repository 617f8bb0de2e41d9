"""Processes, their parts in jobs, and what the processes of several jobs have in common."""

from __future__ import annotations

from dataclasses import replace

import pytest

from testbed.base.errors import SpecError
from testbed.topologies.build import build
from testbed.workloads import kinds
from testbed.workloads.kinds.process import JobPart, Process, merged, named, process
from testbed.workloads.sync.schemes import build_plan

SERVER = replace(process("box", 2, "server", meets=["h0", "h1"]), is_shared=True)
JOB = [process("h0", 0, "worker", 0, ["box"]), process("h1", 1, "worker", 1, ["box"]), SERVER]


def test_a_plan_has_workers_by_rank_and_each_knows_whom_it_meets() -> None:
    plan = build_plan("async_ps(replication=chain)", build("star(hosts=4)", rate_bps=10**9), [100])
    assert list(kinds.of(plan).processes(plan)) == [
        Process("h0", 0, (JobPart("h0", "worker", 0),), ("h2",)),
        Process("h1", 1, (JobPart("h1", "worker", 1),), ("h2",)),
        Process("h2", 2, (JobPart("h2", "server"),), ("h0", "h1", "h3")),
        Process("h3", 3, (JobPart("h3", "replica"),), ("h2",)),
    ]


def test_processes_of_a_library_meet_as_they_like() -> None:
    plan = build_plan("gloo", build("star(hosts=3)", rate_bps=10**9), [100])
    assert [(each.name, each.meets) for each in kinds.of(plan).processes(plan)] == [("h0", ()), ("h1", ()), ("h2", ())]


def test_a_job_has_its_own_processes_but_for_those_that_all_jobs_share() -> None:
    listed = named(JOB, "a")
    assert list(listed) == ["a/h0", "a/h1", "a/box"], "parts"
    assert [each.name for each in listed.values()] == ["a/h0", "a/h1", "box"]
    assert listed["a/h1"].meets == ("box",)
    assert listed["a/box"].meets == ("a/h0", "a/h1")
    assert list(named(JOB, "")) == ["h0", "h1", "box"], "of a job without a name"


def test_a_shared_process_has_a_part_in_each_job() -> None:
    listed = merged([named(JOB, "a"), named(JOB, "b")])
    assert list(listed) == ["a/h0", "a/h1", "box", "b/h0", "b/h1"]
    assert listed["box"].parts == (JobPart("a/box", "server", job="a"), JobPart("b/box", "server", job="b"))
    assert listed["box"].meets == ("a/h0", "a/h1", "b/h0", "b/h1")


def test_jobs_agree_where_a_shared_process_is() -> None:
    apart = [*JOB[:2], replace(SERVER, node=3)]
    with pytest.raises(SpecError, match="the jobs a and b share the process box, and put it on different nodes"):
        merged([named(JOB, "a"), named(apart, "b")])
