"""Boxes, the workers that they serve, and the settings of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from testbed.base.errors import SchemeError
from testbed.topologies.model import Topology
from testbed.workloads.sync.chunks import FLOAT_BYTES
from testbed.workloads.sync.trees import racks


@dataclass(frozen=True)
class Options:
    """Settings of boxes.

    Attributes:
        boxes: one for all, the last host, or one in each rack, its last host (section 2.3).
        across: with a box in each rack: ``none`` shards keys over all boxes; with ``ring`` and ``ps`` each box adds its
            rack's gradients, and boxes add these.
        colocated: whether each worker's host serves, too (PShard); then there are no boxes.
        affinity: whether a key passes one NIC of a box, or all keys of a worker do (section 6.1.5).
        aggregation: whether a key is optimised once it has come from all, or a layer is (section 3.2.2).
        cores: processes of each NIC.
        key_bytes: largest size of a key; 0 makes one key for each NIC.
    """

    boxes: Literal["one", "rack"] = "one"
    across: Literal["none", "ring", "ps"] = "none"
    colocated: bool = False
    affinity: Literal["key", "worker"] = "key"
    aggregation: Literal["tall", "wide"] = "tall"
    cores: int = 1
    key_bytes: int = 32_768


@dataclass(frozen=True)
class Boxes:
    """Boxes and the workers that they serve.

    Attributes:
        workers: nodes that have a gradient, by rank.
        boxes: nodes that serve.
        rack: by worker, the place in ``boxes`` of the box that is in its rack; 0 where there is one box.
        nics: connections of a worker with a box, one for each of its NICs.
    """

    scheme: str
    workers: tuple[int, ...]
    boxes: tuple[int, ...]
    rack: tuple[int, ...]
    nics: int
    options: Options

    @property
    def adds_racks(self) -> bool:
        """Whether each box adds its rack's gradients, so that all boxes have all keys."""
        return self.options.across != "none"

    @property
    def places(self) -> int:
        """Number of NICs over which keys are spread."""
        return self.nics * (1 if self.adds_racks else len(self.boxes))

    def connection(self, worker: int, nic: int) -> int:
        """Return the connection with a box by which a worker sends a key of the box's NIC, and gets it back."""
        return worker % self.nics if self.options.affinity == "worker" else nic


def plan(scheme: str, topology: Topology, options: Options) -> Boxes:
    """Place boxes on a topology.

    Raises:
        SchemeError: no worker is left, or settings contradict each other.
    """
    _check(scheme, options)
    hosts = [*topology.hosts]
    if options.colocated:
        return Boxes(scheme, tuple(hosts), tuple(hosts), (0,) * len(hosts), 1, options)
    groups = racks(topology, scheme) if options.boxes == "rack" else [hosts]
    if options.boxes == "rack" and len(groups) < 2:
        raise SchemeError(
            f"scheme {scheme} has a box in each rack, and {topology.expression} is one rack",
            fix="take boxes=one, or a topology of several racks, such as spine_leaf",
        )
    if any(len(group) < 2 for group in groups):
        raise SchemeError(
            f"scheme {scheme} needs a worker beside each box, and a box of {topology.expression} is alone",
            fix="take two hosts or more for each box",
        )
    boxes = tuple(group[-1] for group in groups)
    rack = {worker: place for place, group in enumerate(groups) for worker in group[:-1]}
    workers = tuple(sorted(rack))
    nics = len(topology.connections(workers[0], boxes[rack[workers[0]]]))
    return Boxes(scheme, workers, boxes, tuple(rack[worker] for worker in workers), nics, options)


def _check(scheme: str, options: Options) -> None:
    if options.key_bytes % FLOAT_BYTES or options.key_bytes < 0:
        raise SchemeError(
            f"scheme {scheme}: keys of {options.key_bytes} bytes cut a float",
            fix="give key_bytes a multiple of 4, such as 32768",
        )
    if options.cores < 1:
        raise SchemeError(f"scheme {scheme}: cores is {options.cores}", fix="give cores at least 1")
    if options.across != "none" and options.boxes == "one":
        raise SchemeError(f"scheme {scheme} sums across racks, and has one box", fix="add boxes=rack")
    if options.colocated and options.affinity == "worker":
        raise SchemeError(
            f"scheme {scheme}: with affinity=worker a worker's keys pass one of a server's NICs, and colocated servers "
            "have one",
            fix="leave out affinity=worker, or colocated=true",
        )
    if options.colocated and options.boxes == "rack":
        raise SchemeError(
            f"scheme {scheme} has boxes, and servers beside workers", fix="leave out boxes=rack, or colocated=true"
        )
