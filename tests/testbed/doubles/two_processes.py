"""A runner that hands trials to two other processes, as one for other machines would: the experiment, its order and its
records are testbed's, and only pickled trials and outcomes pass between processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path

from testbed.execution.execute import Outcome
from testbed.experiment.runner import Listener, Runner
from testbed.trial.model import Trial

PROCESSES = 2
_own: list[Runner] = []
"""The runner of a process that runs trials."""


class Quiet:
    """Tells nobody how a trial goes."""

    def waiting(self, what: str) -> None: ...

    def started(self, trial: Trial) -> None: ...

    def advanced(self, iterations: int, so_far: object = None) -> None: ...


def _open(open_runner: Callable[[], Runner]) -> None:
    _own.append(open_runner())


def _require(trial: Trial) -> None:
    _own[0].require(trial)


def _run(trial: Trial, folder: Path) -> Outcome:
    (outcome,) = _own[0].run([trial], folder, Quiet())
    return outcome


class TwoProcesses:
    """Each process has a runner of its own, which ``open_runner`` opens there."""

    def __init__(self, open_runner: Callable[[], Runner]) -> None:
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(PROCESSES, context, _open, (open_runner,))

    def require(self, trial: Trial) -> None:
        self._pool.submit(_require, trial).result()

    def run(
        self,
        trials: Iterable[Trial],
        folder: Path,
        listener: Listener,
    ) -> Iterator[Outcome]:
        left, running = iter(trials), set[Future[Outcome]]()
        while True:
            while len(running) < PROCESSES and (trial := next(left, None)):
                listener.started(trial)
                running.add(self._pool.submit(_run, trial, folder))
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            yield from (one.result() for one in done)

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
