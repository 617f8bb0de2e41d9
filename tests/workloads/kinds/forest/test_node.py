"""A process of a synchronous scheme, as it meets its neighbours."""

from __future__ import annotations

import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from testbed.topologies.model import Topology
from testbed.workloads.job import WorkerJob
from testbed.workloads.kinds.forest import node
from testbed.workloads.sync import transport
from testbed.workloads.sync.schemes import build
from testbed.workloads.sync.sums import UNSENT_BYTES


@pytest.mark.parametrize(
    ("scheme", "at", "is_limited"),
    [("switchml", 0, True), ("switchml", 2, False), ("ring", 0, False)],
    ids=["worker of integers", "switch", "worker of floats"],
)
def test_the_kernel_holds_little_that_a_worker_made_integers(
    scheme: str, at: int, is_limited: bool, topology: Callable[..., Topology], monkeypatch: pytest.MonkeyPatch
) -> None:
    forest = build(scheme, topology("star(hosts=2,ina=all)"), [])
    sockets = {peer: [socket.socket()] for peer in range(3) if peer != at}
    usual = {_unsent_bytes(one) for one in sockets.values()}
    monkeypatch.setattr(transport, "connect_all", lambda *_: sockets)
    given: dict[str, Any] = {"node": at, "peers": [], "buckets": [(0, 100)], "chunk_bytes": 64, "start_timeout_s": 1.0}
    given |= {"congestion_control": "reno", "failover": None, "jitter": None, "priority": False}
    part: Any = SimpleNamespace(gradient=np.zeros(100, np.float32)) if at < 2 else None
    with node.join(cast(WorkerJob, SimpleNamespace(**given)), forest, part, lambda: None):
        assert {_unsent_bytes(one) for one in sockets.values()} == ({UNSENT_BYTES} if is_limited else usual)


def _unsent_bytes(sockets: list[socket.socket]) -> int:
    (one,) = sockets
    return one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT)
