"""Hybrid training: which servers hold which parts of a model, and how long an iteration takes (TopoOpt, sections 3.2
and 5.1)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from testbed.base.errors import SpecError
from testbed.base.units import flop_per_s, rate_bps, size_bytes
from testbed.experiment.finding import scheme_of
from testbed.spec.yaml import parse as parse_yaml
from testbed.spec.yaml import read_text
from testbed.topologies.call import parse
from testbed.topologies.parameters import bind, parameters_of
from testbed.topologies.topoopt.finder import find
from testbed.topologies.topoopt.selection import Select
from testbed.workloads.parallel.models import operators_of
from testbed.workloads.parallel.network import Network, of_found
from testbed.workloads.parallel.operators import Model, cut
from testbed.workloads.parallel.prediction import Machine, predict, stages
from testbed.workloads.parallel.search import Effort, Planned, Planner, Searched, alternate, search_on
from testbed.workloads.parallel.strategy import check_fits, data_parallel, read, text

MOST_SERVERS = 1024
"""The most servers. A group's forest has a row for each server and ring, of a number for each server."""
_SEARCH = "search(steps=2000)"


@dataclass(frozen=True, slots=True)
class Hybrid:
    """Settings by which a model is trained in parallel.

    Attributes:
        strategy: ``data``; ``search(steps=2000,seed=0)``; holders by operator, ``{e0: [0], rest: all}``, as text or as
            a mapping; or the path of a YAML file of those.
        cut: cut each embedding table by columns into so many parts.
        rate: of each circuit.
        pace: of each server.
        memory: of each server.
    """

    strategy: str | os.PathLike[str] | Mapping[str, Any] = "data"
    cut: int = 1
    rate: str = "25 Gbit/s"
    pace: str = "10 TFLOP/s"
    memory: str = "40 GB"


@dataclass(frozen=True, eq=False)
class Plan:
    """A strategy that was given or searched for, and its network."""

    planner: Planner
    asked: Hybrid
    planned: Planned
    searched: Searched | None

    @property
    def model(self) -> Model:
        return self.planner.model

    @property
    def is_data(self) -> bool:
        """Whether all operators are on all servers."""
        strategy = self.planned.strategy
        return strategy == data_parallel(self.model, strategy.servers)

    @property
    def scheme(self) -> str:
        """The rings of each AllReduce group."""
        return scheme_of(self.model, self.planned)

    def iteration_s(self, network: Network) -> float:
        """Seconds of an iteration on another network: of a strategy that was given; else of the one that a search of as
        many steps finds."""
        if self.searched is None:
            return predict(self.model, self.planned.strategy, network, self.planner.machine).iteration_s
        return search_on(self.planner, network, _effort(str(self.asked.strategy))).best_s

    @property
    def facts(self) -> dict[str, Any]:
        """Facts ready for JSON; bytes and times are of one iteration."""
        prediction, network = self.planned.prediction, self.planned.network
        sent = {network.name(link): prediction.link_bytes[link] for link in network.links_that_decide}
        return {
            "model": self.model.name,
            "samples": self.model.samples,
            "source": self.model.source,
            "assumed": list(self.model.assumed),
            "rate": self.asked.rate,
            "pace": self.asked.pace,
            "memory": self.asked.memory,
            "strategy": text(self.model, self.planned.strategy),
            "iteration_s": prediction.iteration_s,
            "pair_bytes": prediction.pair_bytes.tolist(),
            "link_bytes": {name: float(count) for name, count in sent.items() if count},
            "critical_path": [
                {"what": step.what, "where": step.where, "start_s": step.start_s, "end_s": step.end_s}
                for step in prediction.critical_path
            ],
            "search": self._search(),
        }

    def _search(self) -> dict[str, Any] | None:
        if self.searched is None:
            return None
        return {
            "steps": self.searched.steps,
            "costs_s": [[step, seconds] for step, seconds in self.searched.costs],
            "rounds_s": list(self.searched.rounds),
        }

    @property
    def stages(self) -> list[tuple[str, str, float, float]]:
        """Stages of the critical path, steps of one sort in one place together: what, where, start and end (s)."""
        path = stages(self.planned.prediction.critical_path)
        return [(one.what, one.where, one.start_s, one.end_s) for one in path]


def plan(job: str, servers: int, degree: int, select: Select, hybrid: Hybrid, paths: int = 1) -> Plan:
    """
    Raises:
        SpecError: the model, the strategy or a setting makes no sense, the model does not fit into memory, or the
            strategy's file cannot be read.
    """
    if servers > MOST_SERVERS:
        raise SpecError(f"a strategy for {servers:,} servers", fix=f"give at most {MOST_SERVERS:,}")
    model = cut(operators_of(job), hybrid.cut) if hybrid.cut != 1 else operators_of(job)
    machine = Machine(flop_per_s(hybrid.pace), size_bytes(hybrid.memory))
    finder = partial(find, degree=degree, how=select, paths=paths)
    planner = Planner(model, finder, partial(of_found, rate_bps=rate_bps(hybrid.rate)), machine)
    if isinstance(hybrid.strategy, str) and hybrid.strategy.split("(")[0].strip() == "search":
        searched = alternate(planner, servers, _effort(hybrid.strategy))
        return Plan(planner, hybrid, searched.best, searched)
    strategy = read(model, servers, _written(hybrid.strategy))
    check_fits(model, strategy, machine.memory_bytes)
    return Plan(planner, hybrid, planner.plan(strategy), None)


def _effort(expression: str) -> Effort:
    parameters = parameters_of(Effort, 0)
    call = parse(expression, _SEARCH, lambda _: [one.name for one in parameters])
    return Effort(
        **{key: int(str(value)) for key, value in bind("search", parameters, call.arguments, SpecError).items()}
    )


def _written(strategy: str | os.PathLike[str] | Mapping[str, Any]) -> object:
    if isinstance(strategy, Mapping) or strategy == "data":
        return strategy
    if isinstance(strategy, str) and strategy.lstrip().startswith("{"):
        return parse_yaml(strategy, "strategy")
    path = Path(strategy)
    if isinstance(strategy, str) and os.sep not in strategy and path.suffix not in (".yaml", ".yml"):
        raise SpecError(
            f"the strategy is {strategy!r}",
            fix=f"use data, {_SEARCH}, holders by operator such as {{e0: [0], rest: all}}, or a file, ./strategy.yaml",
        )
    return parse_yaml(read_text(path, wanted="give a file of holders by operator, such as e0: [0]"), path.name)
