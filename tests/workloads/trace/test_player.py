"""The player of a trace: its values, and two ranks over Gloo on the loopback interface."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from testbed.workloads.trace import chakra
from testbed.workloads.trace.graph import Collective, Kind, Node
from testbed.workloads.trace.player import Buffer
from tests.ports import blocks

EVERY = [
    Collective.ALL_REDUCE,
    Collective.REDUCE,
    Collective.ALL_GATHER,
    Collective.GATHER,
    Collective.SCATTER,
    Collective.BROADCAST,
    Collective.ALL_TO_ALL,
    Collective.REDUCE_SCATTER,
    Collective.BARRIER,
]


def test_a_sum_that_lacks_a_rank_is_wrong() -> None:
    node = Node(1, "", Kind.COMM_COLL, bytes=4096, collective=Collective.ALL_REDUCE)
    both = [Buffer(node, (0, 1), rank, 7, 1024) for rank in range(2)]
    for buffer in both:
        buffer.fill(3)
    right = both[0].given.numpy() + both[1].given.numpy()
    assert both[0].wrong(3, 0.0) > 900
    both[0].given.numpy()[:] = right
    assert both[0].wrong(3, 0.0) == 0
    assert both[0].wrong(4, 0.0) > 900
    both[0].given.numpy()[5] += 0.5
    assert (both[0].wrong(3, 0.0), both[0].wrong(3, 1.0)) == (1, 0)


def test_a_message_is_zeros_until_it_comes() -> None:
    node = Node(1, "", Kind.COMM_RECV, bytes=4096, peer=1)
    buffer = Buffer(node, (0,), 0, 7, 1024)
    buffer.fill(0)
    assert np.count_nonzero(buffer.got.numpy()) == 0
    assert buffer.wrong(0, 0.0) > 900


def _nodes(rank: int) -> list[Node]:
    """Two streams that compute 60 ms together, then every collective, and two messages."""
    found = [Node(number, "", Kind.COMP, duration_us=60_000, stream=(True, number)) for number in (1, 2)]
    for number, kind in enumerate(EVERY, 3):
        found.append(Node(number, "", Kind.COMM_COLL, (1, 2), bytes=4000, collective=kind))
    found.append(Node(20, "", Kind.COMM_SEND, bytes=64, peer=1 - rank, tag=7))
    found.append(Node(21, "", Kind.COMM_RECV, bytes=64, peer=1 - rank, tag=7))
    return found


def _play(folder: Path, *more: str) -> list[str]:
    """Play a trace of two ranks; return what each prints."""
    port, ranks = str(next(blocks(1))), []
    for rank in range(2):
        with (folder / f"x.{rank}.et").open("wb") as file:
            chakra.write(file, rank, _nodes(rank), {})
    for rank in range(2):
        given = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        command = [sys.executable, "-P", "-m", "testbed.workloads.trace.player", "x.%d.et", *more]
        environment = {**os.environ, **given, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
        ranks.append(subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True))
    said = [process.communicate(timeout=60)[0] for process in ranks]
    assert [process.returncode for process in ranks] == [0, 0]
    return said


def test_two_ranks_play_every_collective_and_check_it(tmp_path: Path) -> None:
    pytest.importorskip("google.protobuf")
    for said in _play(tmp_path, "--iterations", "3", "--pace", "0.5"):
        times_s = [float(one) for one in re.findall(r"iteration ([0-9.]+) s", said)]
        assert len(times_s) == 3
        assert all(time_s >= 0.03 for time_s in times_s)
