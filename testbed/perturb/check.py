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
from testbed.spec.model import Command
from testbed.spec.perturb import Circuits, Jitter, Moment, Perturbation, Slow, Straggle, Trace
from testbed.trial.processes import processes
from topologies.model import Topology
from workloads.sync.cost import cost
from workloads.sync.forest import Forest


def check(arm: Arm, spec: Spec, topology: Topology, forest: Forest, folder: Path) -> None:
    """
    Raises:
        SpecError: one names what there is not, cannot happen to this workload or scheme, or would come too late.
    """
    now, known = topology, processes(forest)
    for where, one in _placed(arm, spec):
        try:
            if isinstance(one, Circuits):
                now = circuits.moved(now, one)
                cost(forest, now, 1.0)  # a worker that cannot be reached
            _check_fit(one, spec, forest)
            background_pairs([one], topology)
            scale = 1.0 if isinstance(spec.workload, Command) else spec.workload.scale
            schedule([one], topology, spec.seed, scale, LinkSettings(), known)
            if not isinstance(spec.workload, Command):
                draw([one], topology, forest.workers, spec.workload.iterations, spec.seed, folder)
        except SpecError as error:
            raise SpecError(f"{where}: {error.problem}", fix=error.fix) from None


def _placed(arm: Arm, spec: Spec) -> Iterator[tuple[str, Perturbation]]:
    for owner, perturbations in (("the experiment's", spec.perturb), ("its", arm.perturb)):
        for number, one in enumerate(perturbations):
            yield f"{owner} perturb.{number} ({one.title})", one


def _check_fit(one: Perturbation, spec: Spec, forest: Forest) -> None:
    work, moments = spec.workload, _moments(one)
    if isinstance(work, Command):
        if isinstance(one, Straggle | Slow | Jitter | Trace):
            raise SpecError("a command computes by itself", fix="slow its host down with kind: hog")
        if any(moment.iteration is not None for moment in moments):
            raise SpecError("a command's iterations are not known", fix="write a time, such as at: 3 s")
        return
    if isinstance(one, Straggle | Slow | Trace) and work.compute.mode == "none":
        fix = "give a pace: compute: {mode: paced, ...}"
        raise SpecError("compute none takes no time, so nobody can be slow", fix=fix)
    if isinstance(one, Jitter) and one.of == "step" and forest.library:
        fix = "leave the scheme out of this experiment, or write of: iteration"
        raise SpecError(f"{forest.library.name} makes its steps by itself", fix=fix)
    if forest.asynchronous is not None:
        _check_asynchronous(one)
    late = [moment for moment in moments if (moment.iteration or 0) > work.iterations]
    if late:
        raise SpecError(f"{late[0]} never comes: there are {work.iterations}", fix="give an earlier one")


def _check_asynchronous(one: Perturbation) -> None:
    fix = "leave the scheme out of this experiment"
    if isinstance(one, Jitter) and one.of == "step":
        problem = "nobody waits for a sum, so a synchronisation has no steps"
        raise SpecError(problem, fix=f"{fix}, or write of: iteration")
    if isinstance(one, Circuits):
        raise SpecError("nobody waits for a sum, so which updates meet which circuits cannot be told", fix=fix)


def _moments(one: Perturbation) -> Sequence[Moment]:
    return [moment for moment in (getattr(one, "at", None), getattr(one, "until", None)) if moment is not None]
