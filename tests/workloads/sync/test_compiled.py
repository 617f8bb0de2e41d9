"""The compiled engine: where it is taken, what a neighbour cannot do to it, and that signals reach the interpreter.

That it does what the engine in Python does is tested with that one, in :mod:`tests.workloads.sync.test_engine`.
"""

from __future__ import annotations

import random
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.base.errors import TrialTimeoutError, WorkerError
from testbed.topologies.build import build as build_topology
from testbed.topologies.model import Topology
from testbed.workloads.job import Gated
from testbed.workloads.sync import compiled
from testbed.workloads.sync.chunks import cut
from testbed.workloads.sync.compiled import CompiledEngine, engine
from testbed.workloads.sync.engine import Engine
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.schemes import build
from testbed.workloads.sync.steps import Jitter

FLOATS = 60
MARGIN = 1000
UNTOUCHED = np.float32(7.0)


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    compiled.library.cache_clear()
    yield monkeypatch
    monkeypatch.undo()
    compiled.library.cache_clear()


@pytest.fixture(scope="module")
def ring() -> Forest:
    """Of two workers."""
    return build("ring", build_topology("star(hosts=2)", rate_bps=10**9), [])


def alone(forest: Forest, **more: Any) -> Engine:
    """An engine of a network of one worker."""
    return engine(0, forest, cut(forest, 8, [(0, 8)], 64), {}, np.zeros(8, np.float32), **more)


def test_it_is_taken_where_it_does_all_that_is_asked(topology: Callable[..., Topology]) -> None:
    one = build("ring", topology("star(hosts=1)"), [])
    assert alone(one).mover == "compiled"
    assert alone(one, priority=True).mover == "python"
    assert alone(one, jitter=Jitter(one, 0, 0.001, (1,))).mover == "python"
    switch = build("switchml", topology("star(hosts=2,ina=all)"), [])
    with socket.socket() as here:
        table = cut(switch, 8, [(0, 8)], 64)
        assert engine(0, switch, table, {2: here}, np.zeros(8, np.float32)).mover == "python"


def test_several_connections_with_a_neighbour_are_for_python(ring: Forest) -> None:
    pairs = [socket.socketpair() for _ in range(2)]
    made = engine(0, ring, cut(ring, 8, [(0, 8)], 64), {1: [here for here, _ in pairs]}, np.zeros(8, np.float32))
    assert made.mover == "python"
    made.close()
    for _, there in pairs:
        there.close()


def test_without_it_python_does_all(topology: Callable[..., Topology], no_library: pytest.MonkeyPatch) -> None:
    one = build("ring", topology("star(hosts=1)"), [])
    no_library.setattr(compiled, "LIBRARY", "testbed.workloads.sync.no_such_module")
    assert alone(one).mover == "python"
    with pytest.raises(WorkerError, match=r"workloads\.sync\.no_such_module is not installed") as caught:
        CompiledEngine(0, one, cut(one, 8, [(0, 8)], 64), {}, np.zeros(8, np.float32))
    assert "install a C compiler" in (caught.value.fix or "")


def test_it_has_no_gate(ring: Forest) -> None:
    here, there = socket.socketpair()
    with here, there:
        made = engine(0, ring, cut(ring, 8, [(0, 8)], 64), {1: here}, np.zeros(8, np.float32))
        with pytest.raises(ValueError, match="whatever the gate at /x says"):
            made.wait_at(Gated("/x", 1), 0, 2)


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10**9), pieces=st.integers(1, 40))
def test_a_neighbour_writes_to_chunks_alone(ring: Forest, seed: int, pieces: int) -> None:
    """Right and wrong headers of all rounds, phases and chunks, with payloads of any lengths: a sum, an error of ours
    or silence follows, and the memory around the gradient is as it was."""
    draw = random.Random(seed)
    table = cut(ring, FLOATS, [(0, FLOATS)], 64)
    memory = np.full(FLOATS + 2 * MARGIN, UNTOUCHED, np.float32)
    here, there = socket.socketpair()
    with here, there:
        there.setblocking(False)
        made = CompiledEngine(0, ring, table, {1: here}, memory[MARGIN : MARGIN + FLOATS])
        for _ in range(pieces):
            word = (
                draw.choice([0, 1 << 31])
                | draw.choice([0, 0, 0, 1, 2, 3]) << 29
                | draw.choice([*range(len(table)), *range(len(table)), len(table), 2**29 - 1])
            )
            there.send(word.to_bytes(4, "big") + draw.randbytes(draw.choice([0, 3, 60, 64, 120, 500])))
        if draw.random() < 0.5:
            there.shutdown(socket.SHUT_WR)
        try:
            made.start(0)
            made.wait(0.0)
        except (WorkerError, TrialTimeoutError):
            pass
        made.close()
    assert (memory[:MARGIN] == UNTOUCHED).all()
    assert (memory[-MARGIN:] == UNTOUCHED).all()


def test_a_signal_reaches_the_interpreter_while_a_neighbour_is_silent(ring: Forest) -> None:
    class Called(Exception):  # noqa: N818 - it is no error
        pass

    def handle(_number: int, _frame: FrameType | None) -> None:
        raise Called

    before = signal.signal(signal.SIGUSR1, handle)
    here, there = socket.socketpair()
    try:
        with here, there:
            made = engine(0, ring, cut(ring, 8, [(0, 8)], 64), {1: here}, np.zeros(8, np.float32))
            made.start(0)
            begun_s = time.monotonic()
            main = threading.main_thread().ident
            assert main
            threading.Timer(0.2, signal.pthread_kill, (main, signal.SIGUSR1)).start()
            with pytest.raises(Called):
                made.wait(30.0)
            assert time.monotonic() - begun_s < 5
    finally:
        signal.signal(signal.SIGUSR1, before)
