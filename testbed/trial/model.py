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
from testbed.perturb.schedule import Schedule, background_pairs
from testbed.perturb.schedule import schedule as schedule_of
from testbed.perturb.stragglers import Stragglers, draw
from testbed.spec import Arm, Spec
from testbed.spec.axes import Plain
from testbed.spec.model import Command, Profile, Train
from testbed.spec.perturb import Impair, Jitter, Perturbation
from testbed.trial.identity import identity
from testbed.trial.processes import processes
from topologies.model import Topology
from workloads.buckets import Gradient, shares
from workloads.job import LARGEST, Compute, Replay, Training
from workloads.profiles import profile
from workloads.sync.cost import ETHERNET_BYTES, Cost, Shaper, goodput
from workloads.sync.fixed_point import furthest
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


@dataclass(frozen=True)
class Trial:
    """One arm with one batch size at one point of a sweep, run once."""

    name: str
    """The same in all repeats."""
    network: Network
    spec: Spec
    """The whole spec at this point."""
    batch: int
    """0 where the workload is a command, which has none."""
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

    @property
    def id(self) -> str:
        """Readable, unique in its experiment, and a name for files."""
        return self.name + (f"-r{self.repeat + 1}" if self.spec.most_repeats > 1 else "") + self.mark

    @property
    def cell(self) -> Cell:
        """What all its repeats have in common."""
        return Cell.of(self.label, self.batch, self.point, self.at)

    @property
    def command(self) -> tuple[str, ...]:
        """The words to run on every host, in place of our workers; empty where these train."""
        work = self.spec.workload
        return tuple(work.command) if isinstance(work, Command) else ()

    @property
    def survives(self) -> bool:
        """Whether the others go on when a node dies."""
        return not self.command and survives(self.network.scheme_text)

    @property
    def asynchronous(self) -> bool:
        """Whether its workers do not wait for sums."""
        return self.network.forest.asynchronous is not None

    @property
    def work(self) -> Train | Profile:
        """What our workers do."""
        return work_of(self.spec)

    @property
    def gradient_bytes(self) -> int:
        """Size of one gradient."""
        return 4 * self.network.floats

    @property
    def knows_bytes(self) -> bool:
        """Whether the forest's bytes are what goes over the wire; not where a library or a command does something
        else."""
        library = self.network.forest.library
        return not self.command and (library is None or library.exact)

    @property
    def iterations(self) -> int:
        """0 for a command, whose iterations are its own affair."""
        return 0 if self.command else self.work.iterations

    @property
    def label(self) -> str:
        return self.network.arm.title

    @property
    def training(self) -> Training | Replay:
        """What each worker does; the same for every arm, so that their results can be compared."""
        work, seed = self.work, self.spec.seed
        if isinstance(work, Train):
            rate, momentum = work.learning_rate, work.momentum
            return Training(work.model, work.dataset, self.batch, work.iterations, rate, momentum, seed)
        macs = [layer.macs for layer in reversed(profile(work.model).layers)]
        tolerance = _rounding(self.network.forest)
        return Replay(work.iterations, seed, shares(macs, self.network.gradient.layers), tolerance)

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
    def jitter(self) -> list[Jitter]:
        """What is added to the steps of a synchronisation."""
        return [one for one in self.perturbations if isinstance(one, Jitter) and one.of == "step"]

    @cached_property
    def processes(self) -> dict[str, int]:
        """The node of each of its processes, by the process's name."""
        return processes(self.network.forest)

    def schedule(self) -> Schedule:
        """What is to happen in the lab, from its beginning."""
        topology, settings = self.network.topology, link_settings(self.spec)
        return schedule_of(self.perturbations, topology, self.spec.seed, self.scale, settings, self.processes)

    @property
    def settings_met(self) -> list[LinkSettings]:
        """How its links are to be emulated: at first, and while each of its perturbations lasts."""
        first = link_settings(self.spec)
        asked = [one.impairment for one in self.perturbations if isinstance(one, Impair)]
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
        return 1.0 if self.command else self.work.scale

    @property
    def compute(self) -> Compute:
        compute = self.work.compute
        return Compute(mode=compute.mode, pace_s=compute.pace_s.get(self.batch, 0.0))

    @property
    def gst_theory_s(self) -> float:
        """The least time a synchronisation can take at this MTU (s); 0 for a command."""
        return self.network.cost.bound_s(shaper(self.spec.links.mtu))

    @property
    def jct_theory_s(self) -> float | None:
        """The least that all iterations can take (s): each the paced computing time and the least GST, or, where they
        overlap, the longer of the two; None where computing time is not known.

        Of an asynchronous scheme, until all updates are made: each worker is alone with the server, at its average
        pace, or the busiest link never rests.
        """
        if self.command or self.compute.mode == "real":
            return None
        if self.asynchronous:
            alone_s = self._average_pace_s + self.gst_theory_s
            link_s = self.network.cost.round_s() / goodput(self.spec.links.mtu)
            return self.iterations * max(self.network.world / float((1 / alone_s).sum()), link_s)
        together = np.add if self.work.overlap == "none" else np.maximum
        return float(together(self.pace_s, self.gst_theory_s).sum())

    @property
    def pace_s(self) -> NDArray[np.float64]:
        """float64[iterations]: the paced computing time of the slowest worker in each iteration."""
        slow = self.stragglers
        if slow is None:
            return np.full(self.iterations, self.compute.pace_s)
        slowest: NDArray[np.float64] = (slow.factor * self.compute.pace_s + slow.extra_s).max(axis=0)
        return slowest

    @property
    def _average_pace_s(self) -> NDArray[np.float64]:
        """float64[workers]: what an iteration of each computes at its pace."""
        slow = self.stragglers
        if slow is None:
            return np.full(self.network.world, self.compute.pace_s)
        average: NDArray[np.float64] = (slow.factor * self.compute.pace_s + slow.extra_s).mean(axis=1)
        return average

    @cached_property
    def identity(self) -> str:
        """A digest of everything that this trial's result depends on."""
        return identity(self)


def work_of(spec: Spec) -> Train | Profile:
    assert not isinstance(spec.workload, Command)  # whoever asks has looked at ``Trial.command``
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


def _rounding(forest: Forest) -> float:
    """By how much a right sum of a profile's values may be off: not at all, but in fixed point by what that rounds."""
    if forest.fixed is None:
        return 0.0
    world = len(forest.workers)
    return furthest(forest.fixed.scale or (2**31 - 1) / (world * 2 * LARGEST), world, LARGEST)
