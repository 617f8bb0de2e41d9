"""One trial as data: its network and all that follows from the spec about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from analysis.cell import Cell
from testbed.lab.base import BUCKET_PACKETS, BUCKET_S, LARGEST_PACKET_BYTES, LinkSettings
from testbed.perturb.kinds.base import Perturbation
from testbed.perturb.schedule import Schedule, background_pairs
from testbed.perturb.schedule import schedule as schedule_of
from testbed.perturb.stragglers import Stragglers, draw
from testbed.spec import Arm, Spec
from testbed.spec.axes import Plain
from testbed.spec.model import Synchronised
from testbed.trial.identity import identity
from topologies.model import Topology
from workloads import kinds
from workloads.buckets import Gradient
from workloads.job import Compute, Task
from workloads.kinds.base import Kind
from workloads.own.prepared import Prepared
from workloads.sync.cost import ETHERNET_BYTES, Cost, Shaper, goodput
from workloads.sync.forest import Forest
from workloads.sync.schemes import survives


@dataclass(frozen=True)
class Network:
    """One arm of an experiment, checked: its topology, its verified forest and what a synchronisation costs.

    ``topology_text`` and ``scheme_text`` rebuild them from the working directory.
    """

    arm: Arm
    topology_text: str
    scheme_text: str
    topology: Topology
    forest: Forest
    cost: Cost
    gradient: Gradient

    @property
    def floats(self) -> int:
        """Length of the gradient."""
        return self.gradient.floats

    @property
    def world(self) -> int:
        """Number of workers."""
        return len(self.forest.workers)

    @property
    def kind(self) -> Kind:
        """What moves in it."""
        return kinds.of(self.forest)


@dataclass(frozen=True)
class Trial:
    """One arm with one batch size at one point of a sweep, run once."""

    name: str
    """The same in all repeats."""
    network: Network
    spec: Spec
    """The whole spec at this point."""
    batch: int
    """0 where the workload has none."""
    repeat: int
    folder: Path = Path()
    """The spec's directory."""
    point: Mapping[str, Plain] = field(default_factory=dict)
    """By the names of swept fields, their values in base units; an arm has none of a field that only others sweep."""
    at: str = ""
    """The point for people."""
    mark: str = ""
    """What tells its id from that of another trial with the same name."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """The digests of the files that its result depends on, see :mod:`testbed.trial.inputs`."""
    own: Prepared | None = field(default=None, compare=False, repr=False)
    """The user's own model and data, where it has one of them."""

    @property
    def id(self) -> str:
        """Readable, unique in its experiment, and a name for files."""
        return self.name + (f"-r{self.repeat + 1}" if self.spec.most_repeats > 1 else "") + self.mark

    @property
    def cell(self) -> Cell:
        """What all its repeats have in common."""
        return Cell.of(self.label, self.batch, self.point, self.at)

    @property
    def kind(self) -> Kind:
        """What moves in it."""
        return self.network.kind

    @property
    def survives(self) -> bool:
        """Whether the others go on when a node dies."""
        return survives(self.network.scheme_text)

    @property
    def work(self) -> Synchronised:
        """What our workers do."""
        return work_of(self.spec)

    @property
    def gradient_bytes(self) -> int:
        """Size of one gradient."""
        return 4 * self.network.floats

    @property
    def knows_bytes(self) -> bool:
        """Whether the plan's bytes are what goes over the wire."""
        return not self.kind.unknown_bytes(self.network.forest)

    @property
    def iterations(self) -> int:
        """0 where they are the affair of processes that tell of none."""
        return self.work.iterations if self.kind.writes_samples else 0

    @property
    def label(self) -> str:
        return self.network.arm.title

    @property
    def training(self) -> Task:
        """What each worker does; the same for every arm, so that their results can be compared."""
        network = self.network
        rounding = network.kind.rounding(network.forest)
        return self.work.task(self.batch, self.spec.seed, network.gradient, rounding)

    @property
    def perturbations(self) -> list[Perturbation]:
        """What happens to it: the experiment's, then its arm's."""
        return [*self.spec.perturb, *self.network.arm.perturb]

    @cached_property
    def stragglers(self) -> Stragglers | None:
        """How much longer each worker computes in each iteration, if anybody does."""
        workers, topology = self.network.forest.workers, self.network.topology
        return draw(self.perturbations, topology, workers, self.iterations, self.spec.seed, self.folder)

    @property
    def jitter(self) -> list[Mapping[int, float]]:
        """By host, the standard deviations (s) of what is added to the steps of a synchronisation."""
        topology = self.network.topology
        return [sigma_s for one in self.perturbations if (sigma_s := one.step_sigma_s(topology))]

    @cached_property
    def processes(self) -> dict[str, int]:
        """The node of each of its processes, by the process's name."""
        return self.kind.processes(self.network.forest)

    def schedule(self) -> Schedule:
        """What is to happen in the lab, from its beginning."""
        topology, settings = self.network.topology, link_settings(self.spec)
        return schedule_of(self.perturbations, topology, self.spec.seed, self.scale, settings, self.processes)

    @property
    def settings_met(self) -> list[LinkSettings]:
        """How its links are to be emulated: at first, and while each of its perturbations lasts."""
        first = link_settings(self.spec)
        asked = [impairment for one in self.perturbations if (impairment := one.impairment)]
        # A lab that can have a delay vary can have one: settings have no delay of their own, for links have.
        met = (replace(first, jitter_s=one.delay_s + one.jitter_s, loss=one.loss, reorder=one.reorder) for one in asked)
        return [first, *met]

    @property
    def background(self) -> list[tuple[int, int]]:
        """(source, sink) of each flow that competes with its own."""
        return background_pairs(self.perturbations, self.network.topology)

    @property
    def scale(self) -> float:
        """What divides the links' rates."""
        return self.spec.workload.scale

    @property
    def compute(self) -> Compute:
        compute = self.work.compute
        return Compute(mode=compute.mode, pace_s=compute.pace_s.get(self.batch, 0.0))

    @property
    def gst_theory_s(self) -> float:
        """The least time a synchronisation can take at this MTU (s); 0 where nothing is known of it."""
        return self.network.cost.bound_s(shaper(self.spec.links.mtu))

    @property
    def jct_theory_s(self) -> float | None:
        """The least that the whole job can take (s): of a synchronous scheme, for each iteration the paced computing
        time and the least GST, or, where they overlap, the longer of the two; None where computing time is not known.
        """
        if not self.kind.writes_samples or self.compute.mode == "real":
            return None
        cost, least_s = self.network.cost, self.gst_theory_s
        return self.kind.least_jct_s(cost, least_s, goodput(self.spec.links.mtu), self.pace_s, self.work.overlap)

    @property
    def pace_s(self) -> NDArray[np.float64]:
        """float64[workers, iterations]: how long computing takes at least."""
        slow = self.stragglers
        if slow is None:
            return np.full((self.network.world, self.iterations), self.compute.pace_s)
        found: NDArray[np.float64] = slow.factor * self.compute.pace_s + slow.extra_s
        return found

    @cached_property
    def identity(self) -> str:
        """A digest of everything that this trial's result depends on."""
        return identity(self)


def work_of(spec: Spec) -> Synchronised:
    """What our workers do; not asked for where they are programs."""
    assert isinstance(spec.workload, Synchronised)
    return spec.workload


def shaper(mtu_bytes: int) -> Shaper:
    """What a shaped link of any lab lets pass before its rate counts.

    A ring of two at 100 Mbit/s synchronised 310 kB in 0.79 to 0.90 of bytes over rate: a bucket and a packet of 64 KiB
    are a quarter of them.
    """
    factor = goodput(mtu_bytes)
    return Shaper(factor, BUCKET_S, BUCKET_PACKETS * (mtu_bytes + ETHERNET_BYTES), LARGEST_PACKET_BYTES / factor)


def link_settings(spec: Spec, congestion_control: str | None = None) -> LinkSettings:
    """How the lab emulates links, beyond the rate and delay that each has; the last is every node's default."""
    links = spec.links
    return LinkSettings(
        mtu=links.mtu,
        queue_bytes=links.queue_bytes,
        jitter_s=links.jitter_s,
        loss=links.loss,
        reorder=links.reorder,
        seed=spec.seed,
        congestion_control=congestion_control,
    )
