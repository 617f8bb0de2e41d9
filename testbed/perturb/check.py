"""Whether perturbations make sense for a trial, before anything is built."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from testbed.base.errors import SpecError
from testbed.lab.base import LinkSettings
from testbed.perturb.kinds.base import CIRCUITS, COMPUTING, STEPS, Perturbation
from testbed.perturb.schedule import background_pairs, schedule
from testbed.perturb.stragglers import draw
from testbed.spec import Arm, Spec
from testbed.spec.model import Command
from topologies.model import Topology
from workloads.sync.cost import cost
from workloads.sync.forest import Forest


def check(arm: Arm, spec: Spec, topology: Topology, forest: Forest, folder: Path) -> None:
    """
    Raises:
        SpecError: one names what there is not, cannot happen to this workload or scheme, or would come too late.
    """
    now = topology
    for where, one in _placed(arm, spec):
        try:
            if one.moves_circuits:
                now = one.moved(now)
                cost(forest, now, 1.0)  # a worker that cannot be reached
            _check_fit(one, spec, forest)
            background_pairs([one], topology)
            one.step_sigma_s(topology)
            scale = 1.0 if isinstance(spec.workload, Command) else spec.workload.scale
            schedule([one], topology, spec.seed, scale, LinkSettings())
            if not isinstance(spec.workload, Command):
                draw([one], topology, forest.workers, spec.workload.iterations, spec.seed, folder)
        except SpecError as error:
            raise SpecError(f"{where}: {error.problem}", fix=error.fix) from None


def _placed(arm: Arm, spec: Spec) -> Iterator[tuple[str, Perturbation]]:
    for owner, perturbations in (("the experiment's", spec.perturb), ("its", arm.perturb)):
        for number, one in enumerate(perturbations):
            yield f"{owner} perturb.{number} ({one.title})", one


def _check_fit(one: Perturbation, spec: Spec, forest: Forest) -> None:
    work = spec.workload
    if isinstance(work, Command):
        _check_command(one)
        return
    if one.multiplies_computing and work.compute.mode == "none":
        fix = "give a pace: compute: {mode: paced, ...}"
        raise SpecError("compute none takes no time, so nobody can be slow", fix=fix)
    if forest.library:
        _check_library(one, forest.library.name)
    if forest.asynchronous is not None:
        _check_asynchronous(one)
    _check_moments(one, work.iterations)


def _check_command(one: Perturbation) -> None:
    if one.effects & {COMPUTING, STEPS}:
        raise SpecError("a command computes by itself", fix="slow its host down with kind: hog")
    if any(moment.iteration is not None for moment in one.moments):
        raise SpecError("a command's iterations are not known", fix="write a time, such as at: 3 s")


def _check_library(one: Perturbation, name: str) -> None:
    if STEPS in one.effects:
        fix = "leave the scheme out of this experiment, or write of: iteration"
        raise SpecError(f"{name} makes its steps by itself", fix=fix)


def _check_asynchronous(one: Perturbation) -> None:
    fix = "leave the scheme out of this experiment"
    if STEPS in one.effects:
        problem = "nobody waits for a sum, so a synchronisation has no steps"
        raise SpecError(problem, fix=f"{fix}, or write of: iteration")
    if CIRCUITS in one.effects:
        raise SpecError("nobody waits for a sum, so which updates meet which circuits cannot be told", fix=fix)


def _check_moments(one: Perturbation, iterations: int) -> None:
    late = [moment for moment in one.moments if (moment.iteration or 0) > iterations]
    if late:
        raise SpecError(f"{late[0]} never comes: there are {iterations}", fix="give an earlier one")
