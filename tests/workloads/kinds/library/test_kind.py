"""What is said of what a library does by itself."""

from __future__ import annotations

from collections.abc import Callable

from testbed.topologies.model import Topology
from testbed.workloads import kinds
from testbed.workloads.sync.schemes import build

Build = Callable[..., Topology]


def test_bytes_that_are_not_ours_to_know_are_called_so(topology: Build) -> None:
    net = topology("star(hosts=3)")
    default, ring = build("openmpi", net, []), build("openmpi(algorithm=ring)", net, [])
    told = kinds.of(default).unknown.bytes(default)
    assert told == "which bytes openmpi moves in its algorithm default is not ours to say"
    assert kinds.of(ring).unknown.bytes(ring) == ""
