"""Trials in which nodes died, cut into phases: which samples count, and how many there must be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from testbed.base.errors import WorkerError
from testbed.experiment.expand import trials
from testbed.spec import read
from testbed.trial import phases
from testbed.trial.job import Job
from testbed.trial.phases import Phase
from testbed.workloads.sync.schemes import repair

from ..conftest import SPEC


@pytest.fixture
def three() -> Job:
    """Three workers."""
    return trials(read(SPEC, "spec.yaml", Path()))[1].job


@pytest.fixture
def two(three: Job) -> Job:
    """The same without h1."""
    return replace(three, plan=repair("rina", three.network.topology, [100], {1}))


def begun(job: Job) -> phases.Change:
    return phases.Change(0, job, phases.BEGINNING)


def died(first: int, job: Job) -> phases.Change:
    return phases.Change(first, job, phases.Cause(phases.DEATH, "h1 was killed by SIGKILL"))


def samples(*rows: tuple[int, int]) -> pd.DataFrame:
    """(node, iteration); ranks as workers say them, which close up when one dies."""
    return pd.DataFrame(rows, columns=["node", "iteration"]).assign(rank=0)


WHOLE = [(0, 0), (1, 0), (2, 0), (0, 1), (2, 1)]


def test_phases_end_where_the_next_begins(three: Job, two: Job) -> None:
    assert phases.split([begun(three), died(4, two)], 9) == (Phase(0, 4, three), Phase(4, 9, two, died(4, two).cause))


def test_a_phase_without_iterations_is_none(three: Job, two: Job) -> None:
    changes = [begun(three), died(0, two), died(3, three), died(3, two)]
    assert phases.split(changes, 3) == (Phase(0, 3, two, changes[1].cause),)
    assert phases.split([begun(three), died(3, two)], 3) == (Phase(0, 3, three),)


def test_bytes_and_gradients_are_those_of_each_phase(three: Job, two: Job) -> None:
    both = (Phase(0, 4, three), Phase(4, 9, replace(two, cost=replace(three.cost, wire_bytes=7.0))))
    assert phases.contributions(both) == 4 * 3 + 5 * 2
    assert phases.wire_bytes(both) == 4 * three.cost.wire_bytes + 5 * 7.0
    assert np.allclose(phases.link_bytes(both), 9 * three.cost.link_bytes)


def test_workers_keep_their_first_rank_and_iterations_know_their_world(three: Job, two: Job) -> None:
    found = phases.attribute(samples(*WHOLE), (Phase(0, 1, three), Phase(1, 2, two)), {1}, set())
    assert list(zip(found["node"], found["rank"], found["iteration"], found["world"], strict=True)) == [
        (0, 0, 0, 3),
        (0, 0, 1, 2),
        (1, 1, 0, 3),
        (2, 2, 0, 3),
        (2, 2, 1, 2),
    ]


def test_what_the_dead_had_done_of_an_iteration_that_others_did_anew_does_not_count(three: Job, two: Job) -> None:
    found = phases.attribute(samples(*WHOLE, (1, 1)), (Phase(0, 1, three), Phase(1, 2, two)), {1}, set())
    assert len(found) == len(WHOLE)


def test_who_died_in_an_iteration_and_who_took_it_over_may_lack_it(three: Job, two: Job) -> None:
    rows = [(2, 0), (0, 1), (2, 1)]
    found = phases.attribute(samples(*rows), (Phase(0, 1, three), Phase(1, 2, two)), {1}, {(0, 0)})
    assert found.loc[found["iteration"] == 0, "world"].tolist() == [1]


@pytest.mark.parametrize("missing", [(0, 0), (2, 1)])
def test_nobody_else_may(three: Job, two: Job, missing: tuple[int, int]) -> None:
    rows = [row for row in WHOLE if row != missing]
    name = f"h{missing[0]} has no sample of iteration {missing[1]}"
    with pytest.raises(WorkerError, match=name):
        phases.attribute(samples(*rows), (Phase(0, 1, three), Phase(1, 2, two)), {1}, set())


def test_where_nobody_died_all_must_have_all(three: Job) -> None:
    rows = [(0, 0), (1, 0), (2, 0)]
    assert len(phases.attribute(samples(*rows), (Phase(0, 1, three),), set(), set())) == 3
    with pytest.raises(WorkerError, match="h1 has no sample of iteration 0"):
        phases.attribute(samples(rows[0], rows[2]), (Phase(0, 1, three),), set(), set())


def test_who_died_in_the_last_iteration_may_lack_that_alone(three: Job) -> None:
    rows = [(0, 0), (1, 0), (2, 0), (0, 1), (2, 1)]
    found = phases.attribute(samples(*rows), (Phase(0, 2, three),), {1}, set())
    assert found.loc[found["iteration"] == 1, "world"].tolist() == [2, 2]
    with pytest.raises(WorkerError, match="h1 has no sample of iteration 0"):
        phases.attribute(samples(*(row for row in rows if row != (1, 0))), (Phase(0, 2, three),), {1}, set())
