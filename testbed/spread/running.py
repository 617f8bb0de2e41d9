"""Blocks of one experiment in the process that runs them, one after the other."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from rich.console import Console

from testbed.base import interrupt
from testbed.base.errors import TestbedError
from testbed.base.exits import INTERRUPTED, OK, TRIAL_FAILED, code_for
from testbed.execution.execute import Outcome
from testbed.experiment.progress import Lines
from testbed.experiment.run import Experiment, here
from testbed.experiment.runner import Here, Listener
from testbed.machine import exclusive
from testbed.run_directory.stored import source_of
from testbed.spec import Source
from testbed.spread.bundle import FILES, IDS, OUT, RUN
from testbed.trial.model import Trial


class Blocks:
    """Runs blocks of the experiment that was unpacked into a folder; they share what the first one opened. Use in
    ``with``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._here: Here | None = None
        self._opened = ExitStack()
        interrupt.raise_once()

    def run(self, folder: Path, *, shares_machine: bool) -> int:
        """Run the block that has this folder; return its exit code. The current directory is that of the spec's files
        from now on."""
        os.chdir(self._folder / FILES)
        (exclusive.share if shares_machine else lambda: exclusive.hold(lambda: print("waits for another run")))()
        ids = (folder / IDS).read_text().split("\n")
        try:
            source = source_of(self._folder / RUN)
            with Experiment.new(source, folder / OUT, lambda: self._runner(source), only=lambda _: ids) as experiment:
                done = experiment.go(lambda left: Lines(left, Console(stderr=True)))
        except TestbedError as error:
            print(f"error: {error}", flush=True)
            return code_for(error) if code_for(error) != TRIAL_FAILED else INTERRUPTED
        except KeyboardInterrupt:
            return INTERRUPTED
        finally:
            exclusive.release()
        return TRIAL_FAILED if done.failed else OK

    def _runner(self, source: Source) -> _Kept:
        if self._here is None:
            self._here = here(source)
            self._opened.callback(self._here.close)
        return _Kept(self._here)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()


class _Kept:
    """Runner of a block, which leaves open what the next one has a use for."""

    def __init__(self, here: Here) -> None:
        self.require, self._here = here.require, here

    def run(self, trials: Iterable[Trial], folder: Path, listener: Listener) -> Iterator[Outcome]:
        return self._here.run(trials, folder, listener)

    def close(self) -> None:
        """Leave everything open."""
