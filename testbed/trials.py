"""From a spec to its trials, with everything that can be checked before anything is built."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import prod
from pathlib import Path
from typing import TypeVar

import numpy as np

from testbed.errors import SpecError
from testbed.lab.base import check_rate, check_size
from testbed.perturb.check import check as check_perturbations
from testbed.program import check as check_command
from testbed.spec import Arm, Source, Spec
from testbed.spec.model import Command, Profile, Train
from testbed.trial import Network, Trial, work_of
from testbed.units import time_text
from topologies.build import build as build_topology
from topologies.call import parse
from topologies.load import is_in_file
from topologies.model import Topology
from workloads.buckets import Gradient, gradient
from workloads.datasets import DATASETS
from workloads.models import model
from workloads.profiles import profile
from workloads.registry import lookup
from workloads.sync.chunks import cut
from workloads.sync.cost import Cost, cost, goodput
from workloads.sync.forest import Forest
from workloads.sync.schemes import build as build_forest
from workloads.sync.schemes import survives
from workloads.sync.schemes.reference import one_nic
from workloads.sync.verify import verify

_T = TypeVar("_T")
MOST_SAMPLES = 4_000_000
"""A thousand hosts and four thousand iterations; all are held in memory at once."""
_SHORT = 60
"""Characters of a scheme or topology in a trial's id, which names files: groups of many hosts would be too long."""


def trials(source: Source) -> list[Trial]:
    """Every trial of an experiment in the order they run: arms side by side, so that a slow hour of the machine
    touches all of them.

    Raises:
        SpecError: an arm cannot be; every arm's mistake is listed.
    """
    networks = _networks(source)
    spec = source.spec
    found = []
    for repeat in range(spec.repeats):
        for batch in [0] if isinstance(spec.workload, Command) else spec.workload.batch:
            for network in networks:
                end = (f"-b{batch}" if batch else "") + (f"-r{repeat + 1}" if spec.repeats > 1 else "")
                found.append(Trial(f"{_slug(network)}{end}", network, spec, batch, repeat, source.folder))
    return _distinct(found)


def lab_rate_bps(spec: Spec) -> int:
    """Rate of the hosts' links in the lab: as the spec says, divided by the workload's scale."""
    scale = 1.0 if isinstance(spec.workload, Command) else spec.workload.scale
    return round(spec.links.rate_bps / scale)


def gradient_of(work: Train | Profile) -> Gradient:
    """What is synchronised: the tensors and buckets of a workload's model.

    Raises:
        SpecError: no such model.
    """
    if isinstance(work, Train):
        layers = [[prod(shape) for _, shape in layer] for layer in reversed(model(work.model).layers)]
    else:
        built = reversed(profile(work.model).layers)
        layers = [[prod(shape) for _, shape in layer.tensors] for layer in built]
    return gradient(layers, work.scale, work.overlap != "none", work.bucket_bytes)


def _topology(arm: Arm, spec: Spec, folder: Path) -> tuple[str, Topology]:
    """An arm's network, and the expression that builds it from the working directory."""
    text = locate(arm.topology, folder)
    topology = build_topology(text, rate_bps=lab_rate_bps(spec), delay_s=spec.links.delay_s)
    check_size(topology)
    for rate_bps in {link.rate_bps for link in topology.links}:
        _check_rate(arm, rate_bps)
    return text, topology


def bare_network(arm: Arm, spec: Spec, folder: Path) -> Network:
    """One arm whose ranks synchronise by themselves: a forest without classes, which costs nothing.

    Raises:
        SpecError: the topology cannot be, or a host has several NICs, of which the ranks would not know.
    """
    text, topology = _topology(arm, spec, folder)
    one_nic("a command", topology)
    none = np.empty((0, len(topology.nodes)), np.int32)
    names = tuple(node.name for node in topology.nodes)
    forest = Forest("command", names, tuple(topology.hosts), np.empty(0, np.int64), none, none)
    rates = np.repeat([float(link.rate_bps) for link in topology.links], 2)
    check_perturbations(arm, spec, topology, forest, folder)
    free = Cost(0, 0.0, 0.0, np.zeros_like(rates), rates)
    return Network(arm, text, "command", topology, forest, free, Gradient((), (), ()))


def network(arm: Arm, spec: Spec, gradient: Gradient, folder: Path) -> Network:
    """Build and check one arm.

    Raises:
        SpecError: the topology cannot be, the scheme cannot use it, or its forest is wrong.
    """
    scheme_text = locate(arm.scheme, folder)
    topology_text, topology = _topology(arm, spec, folder)
    _check_samples(arm, topology, work_of(spec).iterations)
    forest = build_forest(scheme_text, topology, gradient.tensors)
    verify(forest, topology)
    if len(forest.workers) == 1:
        raise SpecError(f"{arm.topology} has one worker, which has nobody to synchronise with", fix="give it two hosts")
    _check_order(forest, work_of(spec))
    cut(forest, gradient.floats, gradient.buckets, work_of(spec).chunk_bytes)
    least = cost(forest, topology, 4 * gradient.floats)
    found = Network(arm, topology_text, scheme_text, topology, forest, least, gradient)
    check_perturbations(arm, spec, topology, forest, folder)
    _check_timeout(found, spec)
    return found


def _check_samples(arm: Arm, topology: Topology, iterations: int) -> None:
    samples = topology.host_count * iterations
    if samples > MOST_SAMPLES:
        raise SpecError(
            f"{arm.topology}: {topology.host_count:,} hosts and {iterations:,} iterations give {samples:,} samples",
            fix=f"give fewer iterations: a trial has at most {MOST_SAMPLES:,} samples, one a host and iteration",
        )


def _check_order(forest: Forest, work: Train | Profile) -> None:
    """Priority and a forward pass that begins early need an engine that is free to order chunks, and floats."""
    bound = "a library sends" if forest.library else "switches add" if forest.fixed else ""
    wanted = "overlap: both" if work.overlap == "both" and forest.library else ""
    wanted = "priority: layer" if work.priority == "layer" else wanted
    if bound and wanted:
        raise SpecError(
            f"scheme {forest.scheme} takes no {wanted}: {bound} its chunks, in an order of their own",
            fix=f"remove {wanted}, or compare it with other schemes in an experiment of its own",
        )


def _check_rate(arm: Arm, rate_bps: int) -> None:
    try:
        check_rate(rate_bps)
    except SpecError as error:
        raise SpecError(f"{arm.topology}: a link of {error.problem}", fix=error.fix) from None


def _check_timeout(network: Network, spec: Spec) -> None:
    """A worker writes something at the end of each iteration, which must come before it is taken for one that hangs."""
    slowest = max((getattr(one, "slowdown", 1.0) for one in (*spec.perturb, *network.arm.perturb)), default=1.0)
    pace_s = max(work_of(spec).compute.pace_s.values(), default=0.0)
    least_s = network.cost.bound_s(goodput(spec.links.mtu)) + slowest * pace_s
    if least_s >= spec.timeout_s:
        raise SpecError(
            f"the timeout of {time_text(spec.timeout_s)} would end an iteration, which takes {time_text(least_s)} at "
            "least",
            fix="give a longer timeout, or faster links",
        )
    if survives(network.scheme_text) and least_s >= spec.silence_s:
        raise SpecError(
            f"the failover time of {time_text(spec.silence_s)} would take a node for dead in an iteration, which takes "
            f"{time_text(least_s)} at least",
            fix="give a longer failover, or faster links",
        )


def locate(expression: str, folder: Path) -> str:
    """``expression`` with the path of a user's own file, if it names one, taken from ``folder``."""
    call = parse(expression, "ring")
    if not is_in_file(call.name) or Path(call.name).is_absolute():
        return expression
    path = folder / call.name
    return str(replace(call, name=str(path) if path.is_absolute() else f"./{path}"))


def _networks(source: Source) -> list[Network]:
    spec = source.spec
    problems: list[SpecError] = []
    work = spec.workload
    _said(f"{source.name}: links.rate", partial(check_rate, lab_rate_bps(spec)), problems)
    if spec.failover_s is not None and not any(arm.scheme and survives(arm.scheme) for arm in spec.arms):
        problem = f"{source.name}: failover: no arm has a scheme that goes on when a node dies"
        problems.append(SpecError(problem, fix="remove it, or add an arm with scheme: rina"))
    if isinstance(work, Command):
        _said(f"{source.name}: workload.command", partial(check_command, work.command, source.folder), problems)
        made = [
            _said(f"{source.name}: arms.{i}", partial(bare_network, arm, spec, source.folder), problems)
            for i, arm in enumerate(spec.arms)
        ]
        return _or_raise([one for one in made if one], problems)
    sent = None if problems else _said(f"{source.name}: workload.model", partial(gradient_of, work), problems)
    if isinstance(work, Train):
        _said(f"{source.name}: workload.dataset", partial(lookup, "dataset", work.dataset, DATASETS), problems)
    found: list[Network] = []
    if sent is None:
        return _or_raise(found, problems)
    for i, arm in enumerate(spec.arms):
        built = _said(f"{source.name}: arms.{i}", partial(network, arm, spec, sent, source.folder), problems)
        found += [built] if built else []
    return _or_raise(found, problems)


def _or_raise(found: list[Network], problems: list[SpecError]) -> list[Network]:
    if problems:
        raise problems[0] if len(problems) == 1 else SpecError("\n".join(map(str, problems)))
    return found


def _said(where: str, make: Callable[[], _T], problems: list[SpecError]) -> _T | None:
    """What ``make`` returns; its error is noted with the place in the spec that it is about."""
    try:
        return make()
    except SpecError as error:
        problems.append(SpecError(f"{where}: {error.problem}", fix=error.fix))
        return None


def _slug(network: Network) -> str:
    """``ring-star9`` for ring on star(hosts=9)."""
    return f"{_short(network.arm.scheme or network.scheme_text)}-{_short(network.arm.topology)}"


def _short(expression: str) -> str:
    call = parse(expression, "ring")
    name = "-".join(dict.fromkeys(Path(call.name).name.split(".py:"))) if is_in_file(call.name) else call.name
    words = name + "-".join(str(value) for value in call.arguments.values())
    return re.sub(r"[^A-Za-z0-9]+", "-", words)[:_SHORT].strip("-")


def _distinct(found: list[Trial]) -> list[Trial]:
    """The trials with ids that all differ: arms that shorten to the same words get a piece of their digest."""
    count: dict[str, int] = {}
    for trial in found:
        count[trial.id] = count.get(trial.id, 0) + 1
    return [replace(t, id=f"{t.id}-{t.identity[:6]}") if count[t.id] > 1 else t for t in found]
