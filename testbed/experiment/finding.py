"""Search for what arms leave to be found: after all checks, and once for a run, whose directory keeps it.

TopologyFinder and the search for strategies (TopoOpt, sections 3.2 and 4) see what the trial sees: the model and the
rates of links divided by the workload's scale, servers that compute at its pace, and AllReduces that begin when passes
are done.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from testbed.base.errors import SpecError, UsageError
from testbed.experiment.expand import first_trials
from testbed.experiment.fit import fit, fit_pace
from testbed.experiment.placing import memory_bytes
from testbed.spec import Source
from testbed.spec.sought import COURSE, Panels, Sought
from testbed.topologies.call import LONGEST
from testbed.topologies.topoopt.finder import find
from testbed.trial.model import Trial
from testbed.trial.network import lab_rate_bps
from testbed.workloads.kinds.hybrid.program.steps import flop_per_s
from testbed.workloads.parallel.network import Network, of_found
from testbed.workloads.parallel.operators import Model
from testbed.workloads.parallel.prediction import Machine
from testbed.workloads.parallel.search import Effort, Planned, Planner, alternate, search_on
from testbed.workloads.parallel.strategy import check_fits, fitting, given, gradients, read

LEAST_PACE_S = 1e-6
"""Seconds of computing of workers that take no time."""


def settled(source: Source, *, part: tuple[int, int] | None = None, most_steps: int | None = None) -> Source:
    """``source`` with all that is to be found or fitted. ``part`` says which one of how many runs here; the first part
    searches for all. Searches end after ``most_steps``, for those who only want to know about how good they get.

    Raises:
        SpecError: something cannot be, or nothing fits.
        UsageError: another part runs here, or a part and the scale or a pace is to fit.
    """
    if source.sought and part and part[0] > 1:
        number, count = part
        raise UsageError(
            f"--part {number}/{count}: what search and topoopt find is found once, in part 1",
            fix="begin part 1, and give its directory, or a directory with a copy of its resolved.json: --found DIR",
        )
    return fit(found(fit_pace(source, part=part is not None), most_steps), part=part is not None)


def found(source: Source, most_steps: int | None = None) -> Source:
    """``source`` with plain settings of the arms that leave some to be found; else as it is.

    Raises:
        SpecError: something cannot be, or no strategy fits into the servers' memory.
    """
    if not source.sought:
        return source
    _check_one_point(source)
    trials = {cell.number: one for cell, one in zip(source.grid.cells, first_trials(source), strict=True)}
    limited = {}
    for number, one in source.sought.items():  # of all arms, before the first search
        with _in_arm(source, number):
            limited[number] = _effort(one, most_steps)
    made = {}
    for number, one in source.sought.items():
        with _in_arm(source, number):
            made[number] = _found(trials[number], one, limited[number])
    return source.with_found(made)


@contextmanager
def _in_arm(source: Source, number: int) -> Iterator[None]:
    """Errors name the file and the arm.

    Raises:
        SpecError: the one that was raised within.
    """
    try:
        yield
    except SpecError as error:
        raise SpecError(f"{source.name}: arms.{number}: {error.problem}", fix=error.fix) from None


def _check_one_point(source: Source) -> None:
    """
    Raises:
        SpecError: what is found would have to be another thing at each of several points.
    """
    if len(source.grid.cells) > len(source.spec.arms):
        raise SpecError(
            f"{source.name}: search and topoopt take one batch and one point of a sweep, and here are several",
            fix="give one batch and no lists; or write the arm that testbed find prints",
        )
    if source.wants_fit:
        raise SpecError(f"{source.name}: workload.scale: fit does not go with search or topoopt", fix="give a number")


def _effort(wanted: Sought, most_steps: int | None) -> Effort | None:
    """
    Raises:
        SpecError: too many steps, or a seed below 0.
    """
    search = wanted.search
    if search is None:
        return None
    effort = Effort(steps=search.steps, seed=search.seed)
    return effort if most_steps is None else replace(effort, steps=min(effort.steps, most_steps))


def _found(trial: Trial, wanted: Sought, effort: Effort | None) -> dict[str, Any]:
    """The settings that are found for an arm, and the course of the search.

    The same is searched for once in a process: a spec may be checked before it runs, and arms may differ in other ways.

    Raises:
        SpecError: nobody knows how long computing takes, or no strategy fits.
    """
    job, network = trial.job, trial.network
    model = job.work.operators(job.batch, network.arm.parts)
    if job.compute.mode == "real":
        raise SpecError(
            "search and topoopt need to know how long computing takes", fix="give a pace: compute: {pace: ...}"
        )
    memory = memory_bytes(network.arm)
    whole, servers = job.work.whole(job.batch, network.arm.parts), trial.topology.host_count
    if wanted.search is None:
        check_fits(whole, read(whole, servers, wanted.given), memory)
    else:
        fitting(whole, servers, memory)
    computes = flop_per_s(model, max(job.compute.pace_s, LEAST_PACE_S))
    machine = Machine(computes, memory / job.work.scale, overlaps=False)
    links = lab_rate_bps(trial.spec), network.goodput, trial.spec.links.delay_s
    topology = trial.topology
    key = (model, machine, links, effort, repr(wanted), repr((topology.nodes, topology.links, topology.panels)))
    if key not in _KNOWN:
        rate_bps, goodput, delay_s = links
        degree, paths = (wanted.panels.degree, wanted.panels.paths) if wanted.panels else (1, 1)
        of_circuits = partial(of_found, rate_bps=rate_bps, goodput=goodput, delay_s=delay_s)
        planner = Planner(model, partial(find, degree=degree, paths=paths), of_circuits, machine)
        _KNOWN[key] = (
            _on_panels(planner, wanted.panels, wanted.given, effort)
            if wanted.panels
            else _on_network(planner, Network(topology, goodput=goodput), effort)
        )
    return _KNOWN[key]


_KNOWN: dict[Hashable, dict[str, Any]] = {}


def _on_network(planner: Planner, network: Network, effort: Effort | None) -> dict[str, Any]:
    """The best strategy for a network that stays."""
    assert effort is not None  # with a strategy and a network, nothing is left to be found
    walk = search_on(planner, network, effort)
    costs_s = [one for one in walk.costs if one[1] < math.inf]
    return {"strategy": given(planner.model, walk.best), COURSE: {"steps": effort.steps, "costs_s": costs_s}}


def _on_panels(planner: Planner, panels: Panels, written: Any, effort: Effort | None) -> dict[str, Any]:
    """A network for a strategy, which is searched for if one is not written."""
    model = planner.model
    course: dict[str, Any] = {}
    if effort is None:
        planned = planner.plan(read(model, panels.servers, written))
    else:
        searched = alternate(planner, panels.servers, effort)
        planned = searched.best
        costs = [list(one) for one in searched.costs]
        course = {COURSE: {"steps": searched.steps, "costs_s": costs, "rounds_s": list(searched.rounds)}}
    return {
        "topology": _topology(planned),
        "scheme": scheme_of(model, planned),
        "strategy": given(model, planned.strategy),
        **course,
    }


def _topology(planned: Planned) -> str:
    """
    Raises:
        SpecError: its routes are more than an expression may have.
    """
    text = planned.found.topology
    if len(text) > LONGEST:
        raise SpecError(
            f"the network that was found has an expression of {len(text):,} characters", fix="take fewer servers"
        )
    return text


def scheme_of(model: Model, planned: Planned) -> str:
    """``multi_ring`` with the rings of each group; of one without, both directions of one ring by number."""
    groups = gradients(model, planned.strategy)
    orders = [order for members in groups for order in planned.found.orders.get(members) or [members, members[::-1]]]
    rings = ",".join(f"[{','.join(map(str, order))}]" for order in orders)
    return f"multi_ring(permutations=[{rings}])"
