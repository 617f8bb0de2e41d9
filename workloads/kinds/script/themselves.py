"""Plan of a command without a scheme: it knows only which hosts take part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from testbed.topologies.model import Topology
from testbed.workloads.sync.cost import Cost
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.schemes.reference import one_nic


@dataclass(frozen=True)
class Themselves:
    """Mark of a plan whose ranks synchronise by themselves, whatever way they like."""

    kind: ClassVar[str] = "command"


def command(topology: Topology) -> Forest:
    """Make a plan with one rank a host, and a forest without classes.

    Raises:
        SchemeError: a host has several NICs, of which the ranks would not know.
    """
    one_nic("a command", topology)
    none = np.empty((0, len(topology.nodes)), np.int32)
    names = tuple(node.name for node in topology.nodes)
    workers = tuple(topology.hosts)
    return Forest("command", names, workers, np.empty(0, np.int64), none, none, run_by=Themselves())


def free(topology: Topology) -> Cost:
    """Make a cost of zero, because nothing is known of what the command sends."""
    rates = np.array(topology.rates_bps)
    return Cost(0, 0.0, 0.0, np.zeros_like(rates), rates)
