"""A kind whose jobs share one server, which adds for each of them. All that it changes lies in this folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from testbed.base.errors import SchemeError
from testbed.topologies.model import Topology
from testbed.workloads.kinds.forest.kind import ForestKind
from testbed.workloads.kinds.process import Process
from testbed.workloads.sync.forest import ABSENT, ROOT, Forest


@dataclass(frozen=True)
class Added:
    """Mark of a forest whose root is a process of all jobs."""

    kind: ClassVar[str] = "adder"


def adder(topology: Topology, tensor_sizes: Sequence[int]) -> Forest:  # noqa: ARG001
    """Workers send gradients to the network's last host, which no job may have for itself."""
    server = len(topology.nodes) - 1
    if server in topology.hosts or not topology.nodes[server].name.startswith("h"):
        raise SchemeError("adder serves several jobs", fix="give the arm jobs that leave the last host free")
    trees = np.full((1, len(topology.nodes)), ABSENT, np.int32)
    trees[:, list(topology.hosts)], trees[:, server] = server, ROOT
    names = tuple(node.name for node in topology.nodes)
    return Forest("adder", names, tuple(topology.hosts), np.ones(1, np.int64), trees, trees, run_by=Added())


class AdderKind(ForestKind):
    """Forests of several jobs with one process at their root."""

    name = "adder"
    run_by = Added
    repair = None

    def processes(self, plan: Forest) -> Sequence[Process]:
        *workers, server = super().processes(plan)
        (part,) = server.parts
        return [*workers, replace(server, parts=(replace(part, role="server"),), is_shared=True)]


KIND = AdderKind()
