"""Processes that a trial may lose: whose exit is forgiven, who is ended, and what is told of it."""

from __future__ import annotations

import json
import math
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testbed.base.errors import WorkerError
from testbed.control.conductor import Record
from testbed.control.feed import Feed
from testbed.lab.programs import Exit, Launch
from testbed.recovery import losses
from testbed.recovery.losses import Bystander, hit_s, noticed
from testbed.topologies.build import build
from testbed.trial import job_files

PROCESSES = {"h0": 0, "h1": 1, "h0.daemon": 0, "h1.daemon": 1, "h2": 2, "h3": 3}

NUMBERS = ("wire_bytes", "max_rss_bytes", "cpu_s", "late_s", "stalled_s", "halted_s", "sent_segments")
DONE = {"kind": "done", "time": 9.0, "clock_s": 8.0, "sent": {}, **dict.fromkeys(NUMBERS, 0)}
"""A last line."""


class Bench:
    """A trial that is made up: two workers with daemons, a server h2 and a scheduler h3."""

    def __init__(self, folder: Path) -> None:
        self.paths: dict[str, Path | None] = {process: folder / process for process in PROCESSES}
        for process in PROCESSES:
            (folder / process).touch()
        self.signals: list[tuple[str, int]] = []
        survives = PROCESSES.keys() - {"h2"}
        job: Any = SimpleNamespace(processes=PROCESSES, workers=["h0", "h1"], survives=survives, returns={"h2"})
        job.name, job.network = "", SimpleNamespace(spec=SimpleNamespace(silence_s=0.0))
        files: Any = SimpleNamespace(
            samples=self.paths.__getitem__,
            called=lambda process: f"the process {process}",
            log=lambda _: folder / "log",
            checkpoint=lambda process: folder / f"{process}.checkpoint",
            fenced=lambda _: folder / "fenced",
            position=lambda process: folder / f"{process}.position",
        )
        self.launched: list[Launch] = []
        self.still: list[str] = []
        self.told: list[str] = []
        lab: Any = SimpleNamespace(
            signal=lambda process, number: self.signals.append((process, number)),
            launch=self.launched.extend,
            stopped=lambda: self.still,
            tell=lambda path, said: self.told.append(f"{path.name}: {said['process']}"),
        )
        self.feed, self.bystander = Feed(self.paths), Bystander(job, files, lab)

    def ends(self, process: str, status: int, **said: object) -> None:
        path = self.paths[process]
        assert path is not None
        path.write_text(json.dumps({"kind": "error", "error": "lost", "fix": None, **said}) + "\n" if said else "")
        self.feed.note([Exit(process, PROCESSES[process], status, 1.0)])


@pytest.fixture
def made(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_kill_and_the_loss_of_a_neighbour_are_forgiven_and_other_errors_are_not(made: Bench) -> None:
    made.ends("h0.daemon", -9)
    made.ends("h0", 1, elsewhere=True)
    made.ends("h3", 1, elsewhere=False)
    made.bystander.look(made.feed)
    assert [exit.process for exit in made.feed.failed] == ["h3"]


def test_the_server_is_named_if_all_workers_end_of_its_loss(made: Bench) -> None:
    made.ends("h2", -9)
    for process in ("h0", "h1", "h0.daemon", "h1.daemon"):
        made.ends(process, 1, elsewhere=True)
    with pytest.raises(WorkerError, match="the process h2 was killed by SIGKILL"):
        made.bystander.look(made.feed)


@pytest.mark.parametrize(
    ("wrong", "others", "has_checkpoint"),
    [(-9, [], False), (1, [], True), (-9, ["h3"], True), (-9, ["h0", "h1"], True)],
)
def test_a_server_comes_back_only_from_a_checkpoint_to_all_others(
    made: Bench, tmp_path: Path, wrong: int, others: list[str], has_checkpoint: bool
) -> None:
    if has_checkpoint:
        (tmp_path / "h2.checkpoint").touch()
    for process in others:
        made.ends(process, -9 if process == "h3" else 0)
    made.ends("h2", wrong)
    made.bystander.look(made.feed)
    assert [exit.process for exit in made.feed.failed] == ["h2"]
    assert made.launched == []


def test_a_server_that_comes_back_needs_all_others(
    made: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "h2.checkpoint").symlink_to("/dev/zero")  # what it is the new process looks at
    monkeypatch.setattr(job_files, "again", lambda process, _job, _files: Launch(process, 2, "", ""))
    for _ in range(2):
        made.ends("h2", -9)
        made.bystander.look(made.feed)
        assert made.feed.failed == []
        assert "h2" in made.feed.running
    assert [one.process for one in made.launched] == ["h2", "h2"]
    made.ends("h0.daemon", -9)
    made.bystander.look(made.feed)
    assert [exit.process for exit in made.feed.failed] == ["h0.daemon"]


def test_who_stands_still_and_is_lost_to_the_others_is_ended(made: Bench) -> None:
    server = made.paths["h2"]
    assert server is not None
    server.write_text(json.dumps(DONE | {"lost": [[1, 5.0, 5.5]]}) + "\n")
    made.feed.note([Exit("h2", 2, 0, 9.0)])
    made.bystander.look(made.feed)
    made.bystander.look(made.feed)
    assert sorted(made.signals) == [("h1", signal.SIGKILL), ("h1.daemon", signal.SIGKILL)]


def test_a_server_that_stands_still_is_ended_before_it_comes_back(
    made: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(losses, "_LOOK_S", 0.0)
    monkeypatch.setattr(job_files, "again", lambda process, _job, _files: Launch(process, 2, "", ""))
    made.still = ["h2", "h0.daemon"]
    made.bystander.look(made.feed)
    assert made.signals == [], "there is no checkpoint from which it could come back"
    (tmp_path / "h2.checkpoint").touch()
    for _ in range(2):
        made.bystander.look(made.feed)
    assert made.signals == [("h2", signal.SIGKILL)]
    assert made.told == ["fenced: h2"]
    made.still = []
    made.ends("h2", -9)
    made.bystander.look(made.feed)
    assert [one.process for one in made.launched] == ["h2"]
    assert made.feed.failed == []


def test_a_server_that_stands_still_for_a_while_goes_on(
    made: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(losses, "_LOOK_S", 0.0)
    made.bystander._job.network.spec.silence_s = 60.0  # type: ignore[misc]
    (tmp_path / "h2.checkpoint").touch()
    for made.still in (["h2"], [], ["h2"]):
        made.bystander.look(made.feed)
    assert made.signals == []
    made.ends("h2", -9)
    monkeypatch.setattr(job_files, "again", lambda process, _job, _files: Launch(process, 2, "", ""))
    made.bystander.look(made.feed)
    assert made.bystander._fenced == [], "somebody else has killed it"


def test_what_is_told_of_losses_is_on_our_clock() -> None:
    lines = [DONE | {"lost": [[1, 5.0, 5.5], [3, 6.0, None]]}, {"kind": "begin"}]
    first, second = noticed(lines)
    assert (first.node, first.at_s, first.recovered_s) == (1, 6.0, 0.5)
    assert (second.node, second.at_s, second.recovered_s) == (3, 7.0, None)


def test_only_the_one_that_serves_is_believed(made: Bench) -> None:
    worker = made.paths["h0"]
    assert worker is not None
    worker.write_text(json.dumps(DONE | {"lost": [[2, 5.0, 5.5]]}) + "\n")
    made.feed.note([Exit("h0", 0, 0, 9.0)])
    made.bystander.look(made.feed)
    assert made.signals == []


@pytest.mark.parametrize("wrong", [{"lost": [1]}, {"lost": [[1, -1.0, None]]}, {"lost": [[1, 5.0, 5.5]], "time": None}])
def test_a_line_that_is_not_as_it_should_be_counts_for_nothing(wrong: dict[str, object]) -> None:
    assert noticed([DONE | wrong]) == []
    assert noticed([{"kind": "done", "lost": [[1, 5.0, 5.5]]}]) == []


def test_lost_updates_are_told() -> None:
    (found,) = noticed([DONE | {"lost": [[2, 5.0, 5.5, [[0, 3], [1, 4]]]]}])
    assert found.updates == ((0, 3), (1, 4))
    assert noticed([DONE | {"lost": [[2, 5.0, 5.5, [[0, -3]]]]}]) == []


def test_a_process_that_was_lost_is_not_hit_again_by_what_comes_after() -> None:
    """It may have been started again, and have ended well by then."""
    star = build("star(hosts=3)", rate_bps=10**8)
    kills = [Record("kill", "kill h2", begun_s=moment_s, kills=("h2",)) for moment_s in (1.0, 3.0, 5.0)]
    assert [hit_s(kills, star, 2, ["h2"], before_s) for before_s in (0.5, 3.5, math.inf)] == [None, 3.0, 5.0]
    assert hit_s(kills, star, 1, ["h1"], math.inf) is None
