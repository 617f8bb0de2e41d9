"""A run that goes on for as long as a test wants, and its server, asked without a browser."""

from __future__ import annotations

import asyncio
import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from testbed.execution.execute import Outcome
from testbed.experiment import runner
from testbed.experiment.run import Experiment
from testbed.interactive.watch.server import serve
from testbed.spec import read
from testbed.trial.files import WORK
from testbed.trial.model import Trial
from tests.patience import PATIENCE_S

from ..conftest import SPEC
from ..runner import go, in_memory, outcome


class GoingOn:
    """A run of six trials, in a thread; each waits for :meth:`let`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ids: list[str] = []
        self.ended_with: BaseException | None = None
        self._allowed = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._go, daemon=True)

    def execute(self, trial: Trial, *_: Any) -> Outcome:
        self.ids.append(trial.id)
        work, logs = self.path / WORK / trial.id, self.path / "logs" / trial.id
        for folder in (work, logs):
            folder.mkdir(parents=True)
        (logs / "h0.log").write_text(f"a line of {trial.id}\n")
        assert self._allowed.acquire(timeout=10 * PATIENCE_S)
        work.rmdir()
        return outcome(trial, 1.0)

    def begin(self) -> None:
        self._thread.start()

    def let(self, trials: int = 1) -> None:
        """Have so many trials end."""
        self._allowed.release(trials)

    def wait(self) -> BaseException | None:
        """Until the run has ended; what it ended with."""
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        return self.ended_with

    def _go(self) -> None:
        try:
            go(Experiment.new(read(f"{SPEC}repeats: 3\n", "spec.yaml", Path()), self.path, in_memory))
        except BaseException as error:
            self.ended_with = error


@contextmanager
def going_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GoingOn]:
    one = GoingOn(path)
    monkeypatch.setattr(runner, "execute", one.execute)
    one.begin()
    try:
        yield one
    finally:
        one.let(100)
        one.wait()  # it writes into the test's folder


@dataclass(frozen=True)
class Answer:
    status: int
    headers: http.client.HTTPMessage
    text: str


@dataclass(frozen=True)
class Served:
    """A server, and requests to it as nobody's browser would make them."""

    address: str

    @property
    def port(self) -> int:
        port = urlsplit(self.address).port
        assert port
        return port

    @property
    def token(self) -> str:
        return urlsplit(self.address).path.strip("/")

    def ask(self, path: str, method: str = "GET", **headers: str) -> Answer:
        """The answer to one request; ``path`` goes as it is after the token, or from the root with a leading slash."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        whole = path if path.startswith("/") else f"/{self.token}/{path}"
        try:
            connection.request(method, whole, headers=headers)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read().decode())
        finally:
            connection.close()


@contextmanager
def served(run: Path) -> Iterator[Served]:
    """Serve a run from a thread of this process."""
    loop = asyncio.new_event_loop()
    ready, address = threading.Event(), []

    def tell(where: str) -> None:
        address.append(where)
        ready.set()

    task = loop.create_task(serve(run, None, tell))

    def go_on() -> None:
        with pytest.raises(asyncio.CancelledError):
            loop.run_until_complete(task)
        loop.close()

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    assert ready.wait(PATIENCE_S)
    try:
        yield Served(address[0])
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(PATIENCE_S)
