"""An experiment whose blocks run on machines: which goes where, and what comes back of it.

A trial comes back as soon as it has ended, into ``blocks/`` of the run's directory. Once its whole block has ended,
these files become those of the run. What a lost machine had sent is kept in ``lost/``, and counts nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

from testbed.analysis.cell import cell_of
from testbed.base.errors import HostError, OutputError
from testbed.base.listing import counted
from testbed.execution.several import blank_trial
from testbed.experiment import provenance
from testbed.experiment.duration import Estimate
from testbed.experiment.order import Block
from testbed.experiment.progress import Lines
from testbed.experiment.repeats import Record
from testbed.experiment.run import Experiment
from testbed.files.foreign import UnfitError
from testbed.files.removal import remove
from testbed.files.writing import named_errors, opened_folder
from testbed.run_directory import stored
from testbed.run_directory.layout import files_of
from testbed.spread import block as remote
from testbed.spread.bundle import of_experiment, unpack
from testbed.spread.machines import Machines
from testbed.trial.inputs import in_words
from testbed.trial.model import Trial

BLOCKS, LOST = "blocks", "lost"
"""Folders of a run's directory with what came back: of blocks that go on, and of machines that were lost."""
MOST_LOST = 3
"""Attempts that were lost with their machines, after which a block is FAILED."""
LOOK_S = 1.0
"""Seconds between two looks which machines are there."""
ABSENT_S = 120.0
"""Seconds for which none has to be there before the run ends: workers that died are started again."""
END_S = 20.0
"""Seconds for labs to be taken down where the run is interrupted."""


@dataclass
class Work:
    """A block that is not finished.

    Attributes:
        lost: why attempts were lost, by the machines that had them.
        told: ids of trials of which somebody was told, in this attempt.
    """

    block: Block[Trial]
    lost: list[tuple[str, str]] = field(default_factory=list)
    told: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        return f"{self.block[0].id}.{len(self.lost) + 1}"


class Spread(Experiment):
    """An experiment whose blocks are spread over machines; what is asked of a runner is asked of :class:`Machines`."""

    def _surroundings(self) -> dict[str, Any]:
        """Environments of machines whose blocks are there; before, that of this one."""
        before = stored.environment(self.directory.path)
        self._environments = provenance.apart(before, "before") if self.records else {}
        return before if self.records else super()._surroundings()

    def _work(self, reporter: Lines, surroundings: dict[str, Any]) -> None:
        """Have all blocks done that are not whole; the rounds that each turned out to need come with it.

        Raises:
            Stopped: somebody asked for the run's end. HostError: no machine is left.
        """
        del surroundings  # each block brings its own
        machines = self._runner
        assert isinstance(machines, Machines)
        self._packed = of_experiment(self.source, self._plan.firsts)
        left = {trial.cell for trial in self.planned if trial.id not in self.records}
        waiting = [Work(block) for block in self._plan.blocks if any(first.cell in left for first in block)]
        estimate = Estimate()
        waiting.sort(key=lambda work: -estimate.left_s(work.block))
        idle = len(machines.there) - len(waiting)
        told = [*machines.lines(), f"{counted(len(waiting), 'block')} of trials that are compared to run on them"]
        if idle > 0:
            told.append(f"idle, for there are more machines than blocks: {', '.join(machines.there[-idle:])}")
        reporter.tell("\n".join(told))
        with named_errors(self.directory.path):
            for folder in (BLOCKS, LOST):
                (self.directory.path / folder).mkdir(exist_ok=True)
            self._put_blocks_aside({})  # of a run that was killed
        for work in waiting:
            self._clear(work)
        running: dict[Future[Any], tuple[Work, str]] = {}
        try:
            self._spread(machines, waiting, running, reporter)
        except BaseException:
            ends = [machines.engine.send(machine, remote.end, work.name) for work, machine in running.values()]
            wait(ends, END_S)
            self._put_blocks_aside({work.name: machine for work, machine in running.values()})
            raise
        finally:
            with suppress(OSError):
                (self.directory.path / BLOCKS).rmdir()
            with suppress(OSError):
                (self.directory.path / LOST).rmdir()  # if nothing is in it

    def _spread(
        self,
        machines: Machines,
        waiting: list[Work],
        running: dict[Future[Any], tuple[Work, str]],
        reporter: Lines,
    ) -> None:
        seen_s = monotonic()
        while waiting or running:
            self.check_wanted()
            if told := machines.look():
                reporter.tell("\n".join(told))
            there = machines.there
            busy = {machine for _, machine in running.values()}
            for machine in (one for one in there if one not in busy):
                if work := _next(waiting, machine, there):
                    waiting.remove(work)
                    running[self._begin(machines, work, machine)] = work, machine
            if there:
                seen_s = monotonic()
            elif monotonic() - seen_s > ABSENT_S:
                raise HostError(f"no machine was there for {ABSENT_S:g} s", fix="start workers; then --resume")
            done = wait(running, LOOK_S, FIRST_COMPLETED).done
            gone = {future for future, (_, machine) in running.items() if machine not in there} - done
            for future in done | gone:
                work, machine = running[future]  # which stays until all is done, for Ctrl-C may come in between
                why = self._took(future, work, machine, reporter) if future in done else "it is not there any more"
                if why is None:
                    running[machines.engine.send(machine, remote.following, work.name)] = work, machine
                elif why:
                    future.cancel()
                    if future in done:
                        machines.engine.send(machine, remote.end, work.name)
                    self._lose(work, machine, why, reporter)
                    if len(work.lost) < MOST_LOST:
                        waiting.insert(0, work)
                    else:
                        self._fail(work, reporter)
                else:
                    machines.engine.send(machine, remote.end, work.name, bool(waiting))
                del running[future]

    def _begin(self, machines: Machines, work: Work, machine: str) -> Future[Any]:
        with named_errors(self.directory.path):
            self._folder(work).mkdir()
        order = remote.Order(self._packed, [first.id for first in work.block], machines.engine.holds_machine)
        return machines.engine.send(machine, remote.following, work.name, order)

    def _folder(self, work: Work) -> Path:
        return self.directory.path / BLOCKS / work.name

    def _took(self, future: Future[Any], work: Work, machine: str, reporter: Lines) -> str | None:
        """Keep what a machine has sent of a block; return why the attempt is lost, nothing if the block has ended, None
        if it goes on."""
        folder = self._folder(work)
        try:
            answer = future.result()
        except Exception as error:  # whatever it is, this worker cannot go on
            return f"{type(error).__name__}: {error!s:.200}".rstrip(": ")
        try:
            for packed in answer["trials"]:
                names = unpack(packed, folder)
                self._tell(stored.read_record(folder, folder / names[0]), work, reporter)
            if "code" not in answer:
                return None
            if "environment" not in answer:
                return f"its process ended with exit code {answer['code']}: {str(answer['said'])[-500:].strip()}"
            unpack(answer["environment"], folder)
            self._take_in(work, machine)
        except (UnfitError, OutputError, OSError, KeyError, TypeError, IndexError, ValueError) as error:
            return f"its answer is not taken: {error}"
        return ""

    def _tell(self, record: Record, work: Work, reporter: Lines) -> None:
        if record["id"] not in work.told:
            work.told.add(record["id"])
            reporter.finished(record)

    def _take_in(self, work: Work, machine: str) -> None:
        """Make the files of a whole block those of the run.

        Raises:
            UnfitError, OutputError: they are not all there, or are of other trials.
        """
        folder, run = self._folder(work), self.directory.path
        records = stored.records(folder)
        cells = {first.cell: first for first in work.block}
        for record in records.values():
            first = cells.get(cell_of(record))
            if first is None or record["identity"] != first.identity:
                told = in_words(record.get("inputs"), first.inputs) if first else ""
                raise UnfitError(f"{record['id']} is none of the block's trials{told}")
        lacking = [one.id for one in self.planned if one.cell in cells and one.id not in records]
        if lacking:
            raise UnfitError(f"{lacking[0]} has not come back")
        environment = stored.environment(folder)
        with named_errors(run):
            for trial, record in records.items():
                for name in list(files_of(folder, trial))[1:]:
                    (run / name).parent.mkdir(parents=True, exist_ok=True)
                    (folder / name).replace(run / name)
                self.records[trial] = record | {"machine": machine}
                self.directory.save_record(self.records[trial])
            _remove(folder)
        labs = self._environments.get(machine, {}).get(provenance.PER_TRIAL, {})
        self._environments[machine] = environment | {provenance.PER_TRIAL: labs | environment[provenance.PER_TRIAL]}
        self.directory.save_environment(provenance.together(self._environments))
        self._extend()
        self.directory.save_table(self._in_order())

    def _lose(self, work: Work, machine: str, why: str, reporter: Lines) -> None:
        """Keep what came back of an attempt where it does not count, and tell of it."""
        aside = self._put_aside(self._folder(work), machine)
        work.lost.append((machine, why))
        kept = f"; what it had sent is in {aside}" if aside else ""
        again = "is done again" if len(work.lost) < MOST_LOST else "is given up"
        lost = [trial for trial in self.planned if trial.id in work.told]
        reporter.lost(
            lost, f"{machine} is lost to {work.block[0].id} and what is compared with it: {why}{kept}; {again}"
        )
        work.told.clear()

    def _put_blocks_aside(self, machines: Mapping[str, str]) -> None:
        """Move all that came back of blocks to ``lost/``; ``machines`` had them, by name of the attempt."""
        for path in (self.directory.path / BLOCKS).iterdir():
            self._put_aside(path, machines.get(path.name, "interrupted"))

    def _put_aside(self, folder: Path, machine: str) -> Path | None:
        """Move what came back of an attempt, if anything did, to ``lost/``."""
        with named_errors(folder):
            if not folder.is_dir():
                return None
            if not any(path.is_file() for path in folder.rglob("*")):
                _remove(folder)
                return None
            name = f"{folder.name}-{re.sub(r'[^A-Za-z0-9_.-]+', '-', machine)}"
            aside = self.directory.path / LOST / name
            for number in range(2, 1000):
                if not aside.exists():
                    break
                aside = aside.with_name(f"{name}-{number}")
            folder.rename(aside)
            return aside

    def _clear(self, work: Work) -> None:
        """Move aside what the run has of a block that is not whole, and is done again."""
        folder, run = self._folder(work).with_name(work.block[0].id), self.directory.path
        cells = {first.cell for first in work.block}
        with named_errors(run):
            for trial, record in stored.records(run).items():
                if cell_of(record) in cells:
                    for name in list(files_of(run, trial)):
                        (folder / name).parent.mkdir(parents=True, exist_ok=True)
                        (run / name).replace(folder / name)
                    self.records.pop(trial, None)
        self._put_aside(folder, "before")

    def _fail(self, work: Work, reporter: Lines) -> None:
        """Give a block up: each machine that had it was lost."""
        told = "; ".join(f"{machine}: {why}" for machine, why in work.lost)
        cells = {first.cell for first in work.block}
        for trial in (one for one in self.planned if one.cell in cells):
            now = datetime.now(UTC).isoformat(timespec="seconds")
            record = blank_trial(trial) | {"started": now, "error": f"lost with {counted(MOST_LOST, 'worker')}: {told}"}
            self.directory.save_record(record)
            self.records[trial.id] = record
            reporter.finished(record)
        self.directory.save_table(self._in_order())


def _next(waiting: Sequence[Work], machine: str, there: Sequence[str]) -> Work | None:
    """The first block that this machine was not lost to, or that every machine was."""
    for work in waiting:
        shunned = {name for name, _ in work.lost}
        if machine not in shunned or shunned.issuperset(there):
            return work
    return None


def _remove(folder: Path) -> None:
    with opened_folder(folder.parent) as parent:
        remove(folder.name, parent)
