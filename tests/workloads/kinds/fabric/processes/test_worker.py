"""What a worker refuses to push and to get, word for word, and what it hands to its daemon."""

from __future__ import annotations

import math
import socket
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from testbed.base.errors import SpecError
from testbed.topologies.build import build
from testbed.workloads.kinds.fabric.plan import Options, fabric
from testbed.workloads.kinds.fabric.processes.exchange import Exchange
from testbed.workloads.kinds.fabric.processes.messages import Given, Note, Push
from testbed.workloads.kinds.fabric.processes.shared import Memory
from testbed.workloads.kinds.fabric.processes.worker import Worker

PLAN = fabric(build("star(hosts=4)", rate_bps=10**9), "test", Options(), 0)
UPDATE = np.array([1, 2, 3], np.float32)


class Daemon(Exchange):
    """Answers each update as it is told."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__("h0.daemon", {0: "h0"}, {0: sock})
        self.got: list[Note] = []

    def _came(self, connection: object, note: Note, floats: object) -> None:  # noqa: ARG002 - as its base has it
        self.got.append(note)

    def barrier(self, timeout_s: float) -> None:
        raise NotImplementedError

    def _awaited(self) -> str:
        return "for h0"

    def give(self, *, goes_on: bool) -> None:
        """Say that the update was applied, of which it heard last."""
        self.poll(0.01)
        push = self.got[-1]
        assert isinstance(push, Push)
        entry = 2 * push.iteration, 0
        self._say(0, Given(push.iteration + 1, push.iteration, push.iteration, (entry,), 0.0, goes_on))
        self.poll(0.01)


class Pair:
    """A worker and what stands for its daemon."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self.memory = Memory.make(3)
        self.worker = Worker(PLAN, 0, ours, self.memory, 1.0)
        self.daemon = Daemon(theirs)

    def iterate(self, *, goes_on: bool = True) -> np.ndarray[Any, Any]:
        """Push and get."""
        model = np.zeros(3, np.float32)
        self.worker.push("h2", UPDATE, 3.7)
        self.daemon.give(goes_on=goes_on)
        self.worker.get("h2", model)
        return model


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    with made.worker, made.daemon:
        yield made


def test_an_update_may_change_once_it_is_pushed(pair: Pair) -> None:
    update = UPDATE.copy()
    pair.worker.push("h2", update, 3.7)
    update[:] = 0
    assert pair.memory.update.tolist() == [1, 2, 3]
    pair.daemon.poll(0.01)
    assert pair.daemon.got == [Push(0, 0, 3.7)]


def test_get_brings_newer_weights_and_their_version(pair: Pair) -> None:
    pair.memory.weights[:] = [7, 8, 9]
    assert pair.iterate().tolist() == [7, 8, 9]
    assert (pair.worker.version, pair.worker.fate, pair.worker.goes_on) == (1, 0, True)
    pair.iterate(goes_on=False)
    assert [note.version for note in pair.daemon.got if isinstance(note, Push)] == [0, 1]
    assert not pair.worker.goes_on


def test_a_norm_may_be_numpys(pair: Pair) -> None:
    norm = np.linalg.norm(UPDATE)
    assert isinstance(norm, np.float32)
    pair.worker.push("h2", UPDATE, norm)  # type: ignore[arg-type]
    pair.daemon.poll(0.01)
    assert pair.daemon.got == [Push(0, 0, float(norm))]


def ended(pair: Pair) -> None:
    pair.iterate(goes_on=False)
    pair.worker.push("h2", UPDATE, 1.0)


def twice(pair: Pair) -> None:
    pair.worker.push("h2", UPDATE, 1.0)
    pair.worker.push("h2", UPDATE, 1.0)


def got_twice(pair: Pair) -> None:
    pair.iterate()
    pair.worker.get("h2", UPDATE.copy())


def closed(pair: Pair) -> None:
    with pair.worker:
        pass
    pair.worker.push("h2", UPDATE, 1.0)


MISTAKES: dict[str, tuple[Callable[[Pair], object], str]] = {
    "no server": (
        lambda pair: pair.worker.push("h1", UPDATE, 1.0),
        "h0 knows no server 'h1'\n  fix: take its attribute server: h2",
    ),
    "too short": (
        lambda pair: pair.worker.push("h2", UPDATE[:2], 1.0),
        "an array of h0 must be float32[3], and is float32[2]\n"
        "  fix: give all tensors in one array, such as numpy.concatenate([one.ravel() for one in tensors])",
    ),
    "doubles": (
        lambda pair: pair.worker.push("h2", UPDATE.astype(float), 1.0),  # type: ignore[arg-type]
        "an array of h0 must be float32[3], and is float64[3]\n"
        "  fix: give all tensors in one array, such as numpy.concatenate([one.ravel() for one in tensors])",
    ),
    "a list": (
        lambda pair: pair.worker.get("h2", [1.0, 2.0, 3.0]),  # type: ignore[arg-type]
        "an array of h0 must be float32[3], and is a list\n"
        "  fix: give all tensors in one array, such as numpy.concatenate([one.ravel() for one in tensors])",
    ),
    "NaN": (
        lambda pair: pair.worker.push("h2", UPDATE, math.nan),
        "h0 pushes an update with a norm of nan\n"
        "  fix: give its Euclidean norm, a finite number; if that is none, the training has diverged",
    ),
    "a negative norm": (
        lambda pair: pair.worker.push("h2", UPDATE, -1.0),
        "h0 pushes an update with a norm of -1.0\n"
        "  fix: give its Euclidean norm, a finite number; if that is none, the training has diverged",
    ),
    "no norm": (
        lambda pair: pair.worker.push("h2", UPDATE, UPDATE),  # type: ignore[arg-type]
        "h0 pushes an update with a norm of array([1., 2., 3.], dtype=float32)\n"
        "  fix: give its Euclidean norm, a finite number; if that is none, the training has diverged",
    ),
    "read-only": (
        lambda pair: pair.worker.get("h2", np.frombuffer(bytes(12), np.float32)),
        "an array of h0 is read-only\n  fix: give a copy: numpy.array(weights)",
    ),
    "pushed twice": (
        twice,
        "h0 pushes an update before it got the weights that follow the last one\n  fix: call get after each push",
    ),
    "nothing pushed": (
        lambda pair: pair.worker.get("h2", UPDATE.copy()),
        "h0 gets weights, and has pushed no update since the last ones\n"
        "  fix: call push first; the first weights are those that all processes begin with",
    ),
    "got twice": (
        got_twice,
        "h0 gets weights, and has pushed no update since the last ones\n"
        "  fix: call push first; the first weights are those that all processes begin with",
    ),
    "ended": (ended, "h0 pushes an update, and the training has ended\n  fix: push only while goes_on is true"),
    "closed": (closed, "h0 was closed\n  fix: push and get before the end of its with statement"),
    "no sums": (
        lambda pair: pair.worker.all_reduce(UPDATE.copy()),
        "h0 asks for a sum, and h2 has weights\n  fix: give all processes sums=True",
    ),
}


@pytest.mark.parametrize(("mistake", "told"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_named_with_its_fix(pair: Pair, mistake: Callable[[Pair], object], told: str) -> None:
    with pytest.raises(SpecError) as error:
        mistake(pair)
    assert str(error.value) == told
