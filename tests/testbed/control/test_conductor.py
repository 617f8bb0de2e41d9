"""Carrying events out: at their moment, in order, recorded, and whatever happens."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from testbed.base.errors import TrialTimeoutError, WorkerError
from testbed.control.conductor import Conductor, Record, blamed_for_job, timeline
from testbed.control.feed import Feed
from testbed.control.registry import Beside
from testbed.lab.base import LinkChange
from testbed.perturb.events import Event, Helper
from testbed.perturb.moments import Moment
from testbed.perturb.schedule import Schedule
from tests.patience import until

from ..fake_lab import FakeLab

LATE_S = 5.0
"""Generous: the suite runs on a busy machine."""


@contextmanager
def conducted(
    schedule: Schedule, lab: FakeLab, folder: Path, samples: Mapping[str, Path] | None = None
) -> Iterator[Conductor]:
    """A conductor that is asked beside; a trial of which no process says anything begins at once."""
    feed = Feed(samples or {})
    with Conductor(schedule, lab, folder) as conductor, Beside(feed, [conductor]):
        if not samples:
            feed.begin()
        yield conductor


def event(link: int, *, time_s: float | None = None, iteration: int | None = None, optional: bool = False) -> Event:
    at = Moment(time_s=time_s, iteration=iteration)
    return Event(at, "rate", f"link {link}", (LinkChange(link, rate_bps=1),), optional=optional)


def links(lab: FakeLab) -> list[int]:
    """Those that were adjusted, in order."""
    return [change.directed_link for changes in lab.asked("adjust") for change in changes]


def line(path: Path, **fields) -> None:
    with path.open("a") as file:
        file.write(json.dumps(fields) + "\n")


def test_events_of_all_streams_come_in_the_order_of_their_moments(tmp_path: Path) -> None:
    lab, samples = FakeLab(), tmp_path / "h0.jsonl"
    streams = (iter([event(1, time_s=0.05), event(2, time_s=0.3)]), iter([event(3, time_s=0.15)]))
    with conducted(Schedule(streams), lab, tmp_path, {"h0": samples}) as conductor:
        time.sleep(0.1)
        assert not lab.notes  # training has not begun
        begun_s = time.monotonic()
        line(samples, kind="hello")
        line(samples, kind="begin", time=begun_s)
        until(lambda: len(lab.notes) == 3)
    assert links(lab) == [1, 3, 2]
    for note, planned_s in zip(lab.notes, (0.05, 0.15, 0.3), strict=True):
        assert planned_s <= note.at_s - begun_s < planned_s + LATE_S
    assert [round(record.planned_s - begun_s, 3) for record in conductor.records] == [0.05, 0.15, 0.3]
    assert all(record.begun_s <= record.done_s and record.error is None for record in conductor.records)


def test_an_iteration_counts_from_the_line_at_its_end(tmp_path: Path) -> None:
    lab, samples = FakeLab(), tmp_path / "h0.jsonl"
    with conducted(Schedule((iter([event(1, iteration=2)]),)), lab, tmp_path, {"h0": samples}) as conductor:
        line(samples, kind="begin", time=time.monotonic())
        line(samples, kind="iteration", i=0, end=time.monotonic())
        time.sleep(0.1)
        assert not lab.notes
        ended_s = time.monotonic()
        with samples.open("a") as file:  # a line that is not whole yet
            file.write('{"kind": "iteration", "i": 1, ')
            file.flush()
            time.sleep(0.05)
            file.write(f'"end": {ended_s}}}\n')
        until(lambda: lab.notes)
    assert links(lab) == [1]
    assert conductor.records[0].planned_s == ended_s


def test_what_never_came_is_recorded_unless_nothing_is_missed(tmp_path: Path) -> None:
    streams = (iter([event(1, time_s=60)]), iter([event(2, iteration=9, optional=True)]))
    with conducted(Schedule(streams), FakeLab(), tmp_path, {"h0": tmp_path / "none.jsonl"}) as conductor:
        pass
    assert [(record.what, record.begun_s) for record in conductor.records] == [("link 1", None)]
    assert timeline(conductor.records, 0.0)[0] | {"what": ""} == {
        "kind": "rate",
        "what": "",
        "planned_s": None,
        "free_s": None,
        "begun_s": None,
        "done_s": None,
        "takes_s": 0.0,
        "error": None,
        "links": None,
    }


def test_the_timeline_says_which_links_were_changed_to_what() -> None:
    changes = (LinkChange(1, rate_bps=5), LinkChange(4, blocked=False), LinkChange(6, queue_bytes=9))
    (told,) = timeline([Record("rate", "", 2.0, 2.5, 3.0, links=changes)], 1.0)
    assert told["links"] == {"rate_bps": {"1": 5}, "blocked": {"4": False}}
    assert (told["planned_s"], told["begun_s"], told["done_s"]) == (1.0, 1.5, 2.0)


def test_a_refused_event_says_why_and_the_next_one_comes(tmp_path: Path) -> None:
    streams = (iter([event(1, time_s=0), event(2, time_s=0.01)]),)
    with conducted(Schedule(streams), FakeLab(refuses=True), tmp_path) as conductor:
        until(lambda: len(conductor.records) == 2)
    assert [record.error for record in conductor.records] == ["the kernel refused"] * 2


def test_a_trial_that_lost_a_node_by_order_says_so(tmp_path: Path) -> None:
    killed = Event(Moment(time_s=0.0), "kill", "h1 killed", kills=("h1",))
    with conducted(Schedule((iter([killed]),)), FakeLab(), tmp_path) as conductor:
        until(lambda: conductor.kills)
    error = conductor.blamed(WorkerError("the worker on h1 was killed by SIGKILL", fix="x"))
    assert isinstance(error, WorkerError)
    assert error.problem == "after perturb had killed h1: the worker on h1 was killed by SIGKILL"
    assert error.fix == "remove the kill, with which this trial ends"
    assert error.by_perturb
    with pytest.raises(WorkerError):
        raise error
    other = conductor.blamed(error, instead=", or take rina")
    assert other.fix == "remove the kill, with which this trial ends, or take rina"


def test_a_scheme_that_goes_on_fails_of_something_else_than_a_kill(tmp_path: Path) -> None:
    """Unless it is about the node that was killed, as where no worker is left."""
    killed = Event(Moment(time_s=0.0), "kill", "h1 killed", kills=("h1",))
    with conducted(Schedule((iter([killed]),)), FakeLab(), tmp_path) as conductor:
        until(lambda: conductor.kills)
    error = WorkerError("the worker on h0 ended with exit status 1", fix="x")
    for process, ends in itertools.product(("h0", "h1"), ("trial", "job")):
        error.process, by_perturb = process, process == "h1"
        told = conductor.blamed(error, goes_on=True) if ends == "trial" else blamed_for_job(error, conductor.records)
        assert told.by_perturb == by_perturb
        assert told.fix == (f"remove the kill, with which this {ends} ends" if by_perturb else "x")
        named = by_perturb or ends == "trial"
        assert told.problem.startswith("after perturb had killed h1: the worker" if named else "the worker")


def halted(until_s: float | None, kind: str = "freeze") -> Schedule:
    """h2 stands still from the beginning on."""
    stops = (2,) if kind == "freeze" else ()
    events = [Event(Moment(time_s=0.0), kind, "h2 frozen", stops=stops, halts="h2 frozen")]
    if until_s is not None:
        events.append(Event(Moment(time_s=until_s), kind, "no longer", resumes="h2 frozen", optional=True))
    return Schedule((iter(events),))


LET_IT_END = "let that end sooner (until), or give a longer timeout"


def test_a_trial_that_waits_for_what_stands_still_says_so(tmp_path: Path) -> None:
    """Whoever gives up first is told as the one that failed; who made it wait is not to be guessed."""
    with conducted(halted(None), FakeLab(), tmp_path) as conductor:
        until(lambda: conductor.halted)
    told = conductor.blamed(TrialTimeoutError("no rank did anything", fix="x"), instead=", or take rina")
    assert str(told) == f"while perturb had h2 frozen: no rank did anything\n  fix: {LET_IT_END}, or take rina"
    assert told.by_perturb
    told = conductor.blamed(WorkerError("the worker on h0 ended with exit status 1", fix="see why"))
    assert str(told) == (
        "while perturb had h2 frozen: the worker on h0 ended with exit status 1\n"
        f"  fix: {LET_IT_END}; if that is not why, see why"
    )
    dead = WorkerError("the worker on h0 was killed by SIGKILL", fix="see dmesg")
    dead.signalled = True  # nobody is killed by waiting
    told = conductor.blamed(dead)
    assert (told.fix, told.by_perturb) == ("see dmesg", False)


def test_no_scheme_goes_on_without_a_link(tmp_path: Path) -> None:
    with conducted(halted(None, "down"), FakeLab(), tmp_path) as conductor:
        until(lambda: conductor.halted)
    assert conductor.blamed(TrialTimeoutError("x"), instead=", or take rina").fix == LET_IT_END


def test_what_goes_on_again_is_blamed_for_what_failed_before(tmp_path: Path) -> None:
    with conducted(halted(0.05), FakeLab(), tmp_path) as conductor:
        until(lambda: len(conductor.records) == 2)
    ((begun, ended_s),) = conductor.halted.values()
    for at_s, blamed in ((begun.begun_s - 1, False), (begun.begun_s + 0.01, True), (ended_s + 1, False), (None, False)):
        error = WorkerError("the worker on h0 ended with exit status 1")
        error.at_s = at_s
        assert conductor.blamed(error).by_perturb == blamed


def test_when_rank_0_is_killed_the_next_one_is_followed(tmp_path: Path) -> None:
    lab, first, second = FakeLab(), tmp_path / "h0.jsonl", tmp_path / "h1.jsonl"
    killed = Event(Moment(iteration=1), "kill", "h0 killed", kills=("h0",))
    streams = (iter([killed]), iter([event(2, iteration=3)]))
    with conducted(Schedule(streams), lab, tmp_path, {"h0": first, "h1": second}) as conductor:
        for path in (first, second):
            line(path, kind="begin", time=time.monotonic())
            line(path, kind="iteration", i=0, end=time.monotonic())
        assert until(lambda: list(conductor.kills)) == ["h0"]
        ended_s = time.monotonic()
        line(second, kind="iteration", i=2, end=ended_s)  # it took iteration 1 over from another
        until(lambda: lab.notes)
    assert links(lab) == [2]
    assert conductor.records[1].planned_s == ended_s


def test_only_a_source_says_what_it_sent_whatever_others_are_called(tmp_path: Path) -> None:
    helper = Helper("source-of-trouble", 0, "testbed.workloads.perturbing.hog")
    with conducted(Schedule(helpers=(helper,)), FakeLab(), tmp_path) as conductor:
        pass
    assert conductor.finish() == []
