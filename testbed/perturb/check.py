"""Whether perturbations make sense for a trial, before anything is built."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from testbed.base.errors import SpecError
from testbed.lab.base import LinkSettings
from testbed.perturb import circuits
from testbed.perturb.schedule import background_pairs, schedule
from testbed.perturb.stragglers import draw
from testbed.spec import Arm, Spec
from testbed.spec.model import Synchronised
from testbed.spec.perturb import Circuits, Jitter, Moment, Perturbation, Slow, Straggle, Trace
from topologies.model import Topology
from workloads import kinds
from workloads.sync.forest import Forest


def check(arm: Arm, spec: Spec, topology: Topology, forest: Forest, folder: Path) -> None:
    """
    Raises:
        SpecError: one names what there is not, cannot happen to this workload or scheme, or would come too late.
    """
    now = topology
    for where, one in _placed(arm, spec):
        try:
            if isinstance(one, Circuits):
                now = circuits.moved(now, one)
                kinds.cost(forest, now, 1.0)  # a worker that cannot be reached
            _check_fit(one, spec, forest)
            background_pairs([one], topology)
            schedule([one], topology, spec.seed, spec.workload.scale, LinkSettings())
            if isinstance(spec.workload, Synchronised):
                draw([one], topology, forest.workers, spec.workload.iterations, spec.seed, folder)
        except SpecError as error:
            raise SpecError(f"{where}: {error.problem}", fix=error.fix) from None


def _placed(arm: Arm, spec: Spec) -> Iterator[tuple[str, Perturbation]]:
    for owner, perturbations in (("the experiment's", spec.perturb), ("its", arm.perturb)):
        for number, one in enumerate(perturbations):
            yield f"{owner} perturb.{number} ({one.title})", one


def _check_fit(one: Perturbation, spec: Spec, forest: Forest) -> None:
    work, moments = spec.workload, _moments(one)
    cannot = kinds.of(forest).cannot(forest)
    for effect in sorted(_effects(one)):
        if effect in cannot:
            raise cannot[effect].error()
    if "iterations" in cannot and any(moment.iteration is not None for moment in moments):
        raise cannot["iterations"].error()
    if not isinstance(work, Synchronised):
        return
    if "pace" in _effects(one) and work.compute.mode == "none":
        fix = "give a pace: compute: {mode: paced, ...}"
        raise SpecError("compute none takes no time, so nobody can be slow", fix=fix)
    late = [moment for moment in moments if (moment.iteration or 0) > work.iterations]
    if late:
        raise SpecError(f"{late[0]} never comes: there are {work.iterations}", fix="give an earlier one")


def _effects(one: Perturbation) -> frozenset[str]:
    """What it does that a kind of trial may refuse."""
    if isinstance(one, Circuits):
        return frozenset({"circuits"})
    if isinstance(one, Jitter):
        return frozenset({"steps" if one.of == "step" else "computing"})
    return frozenset({"computing", "pace"} if isinstance(one, Straggle | Slow | Trace) else set())


def _moments(one: Perturbation) -> Sequence[Moment]:
    return [moment for moment in (getattr(one, "at", None), getattr(one, "until", None)) if moment is not None]
