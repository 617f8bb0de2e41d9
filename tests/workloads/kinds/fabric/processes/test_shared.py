"""Memory and a socket that a worker and its daemon share."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import numpy as np
import pytest

from testbed.base.errors import SpecError, TrialTimeoutError, WorkerError
from testbed.workloads.kinds.fabric.processes.shared import Memory, await_worker, place, reach_daemon


def test_what_one_writes_the_other_reads_and_nothing_is_left() -> None:
    address, got = place(f"test of process {os.getpid()}", 3), []
    thread = threading.Thread(target=lambda: got.append(await_worker(address, 4, 10.0)))
    thread.start()
    mine = Memory.make(4)
    with reach_daemon(address, mine, 10.0) as sock:
        thread.join()
        ((other, memory),) = got
        mine.update[:] = [1, 2, 3, 4]
        assert memory.update.tolist() == [1, 2, 3, 4]
        memory.weights[:] = 5
        assert mine.weights.tolist() == [5, 5, 5, 5]
        sock.sendall(b"x")
        assert other.recv(1) == b"x"
        other.close()
        with pytest.raises(OSError, match="not permitted"):
            os.ftruncate(memory.descriptor, 1)
    assert address.decode() not in Path("/proc/net/unix").read_text().replace("@", "\0")


def test_more_than_the_machine_has_is_refused() -> None:
    with pytest.raises(
        SpecError, match=r"^weights and an update of 1,000,000,000,000 floats take 8,000,000,000,000 bytes"
    ):
        Memory.make(10**12)


def test_who_does_not_introduce_itself_is_no_worker() -> None:
    address, got = place(f"another test of process {os.getpid()}", 3), []

    def wait() -> None:
        try:
            await_worker(address, 4, 2.0)
        except TrialTimeoutError as error:
            got.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    while True:
        with socket.socket(socket.AF_UNIX) as stranger:
            try:
                stranger.connect(address)
            except OSError:
                continue
            stranger.sendall(b"hello!")
            assert stranger.recv(1) == b""
            break
    thread.join()
    assert "the worker did not come" in str(got[0])


def test_memory_of_another_size_is_refused() -> None:
    memory = Memory.make(4)
    with pytest.raises(WorkerError, match="does not have 40 bytes"):
        Memory(os.dup(memory.descriptor), 5)
    assert np.count_nonzero(memory.update) == 0
