"""A parallelisation strategy: the servers that hold each operator, and the bytes that servers send because of it.

An operator on all servers is data parallel, one on a single server is placed. Server s's samples go to holder
s |H| // n of an operator's holders H, in rising order. So an edge between two operators moves each server's samples
from a holder of the first to a holder of the second, and gradients back: MP transfers. Operators with the same two or
more holders sum their gradients among them: an AllReduce group. There is no pipelining: TopoOpt gives none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import SpecError
from testbed.topologies.parameters import did_you_mean
from testbed.topologies.topoopt.demand import Demand, Group, check_servers, demand
from testbed.workloads.parallel.operators import REST, Model

Holders = tuple[int, ...]
"""Servers that hold an operator, rising."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """A parallelisation strategy; ``holders`` are those of each operator, in the model's order."""

    servers: int
    holders: tuple[Holders, ...]

    def moved(self, place: int, holders: Holders) -> Strategy:
        """Return the strategy with other holders of one operator."""
        return replace(self, holders=(*self.holders[:place], holders, *self.holders[place + 1 :]))


def data_parallel(model: Model, servers: int) -> Strategy:
    """Put all operators on all servers."""
    return Strategy(servers, (tuple(range(servers)),) * len(model.operators))


def read(model: Model, servers: int, given: object) -> Strategy:
    """Read the strategy that a user writes: ``data``, or holders by operator, ``{e0: [0], e1: all, rest: [2, 3]}``.

    Raises:
        SpecError: an operator is unknown or left out, a server does not exist or is named twice, or there is no holder.
    """
    check_servers(servers)
    if given == "data":
        return data_parallel(model, servers)
    if not isinstance(given, Mapping):
        raise SpecError(
            f"the strategy is {given!r}", fix=f"write data, or holders by operator: {{{_example(model)}, {REST}: all}}"
        )
    known = [*model.index, REST]
    for name in given:
        if name not in known:
            raise SpecError(
                f"strategy.{name}: {model.name} has no such operator{did_you_mean(str(name), known)}",
                fix=f"name operators of {_names(model)}, or {REST}",
            )
    found = {str(name): _holders(f"strategy.{name}", servers, one) for name, one in given.items()}
    missing = [name for name in model.index if name not in found and REST not in found]
    if missing:
        raise SpecError(f"strategy: {missing[0]} has no holder", fix=f"add {missing[0]}: [0], or {REST}: all")
    return Strategy(servers, tuple(found.get(name) or found[REST] for name in model.index))


def _holders(where: str, servers: int, given: object) -> Holders:
    if given == "all":
        return tuple(range(servers))
    if not isinstance(given, list):
        raise SpecError(f"{where} is {given!r}", fix="write a list of servers, such as [0], or all")
    if not given:
        raise SpecError(f"{where} has no holder", fix="name at least one server, or all")
    for one in given:
        if type(one) is not int or not 0 <= one < servers:
            raise SpecError(f"{where} names server {one!r}", fix=f"name servers 0 to {servers - 1}, or all")
        if given.count(one) > 1:
            raise SpecError(f"{where} names server {one} twice", fix="name each server once")
    return tuple(sorted(given))


def _example(model: Model) -> str:
    return f"{model.operators[0].name}: [0]"


def _names(model: Model) -> str:
    """Return the first names, and how many more there are."""
    names = list(model.index)
    return ", ".join(names[:6]) + f" and {len(names) - 6} more" * (len(names) > 6)


def text(model: Model, strategy: Strategy) -> str:
    """Write a strategy as :func:`read` reads it, the most frequent holders as ``rest``."""
    if strategy == data_parallel(model, strategy.servers):
        return "data"
    count = Counter(strategy.holders)
    rest = max(count, key=lambda holders: (count[holders], len(holders)))
    named = {
        operator.name: holders
        for operator, holders in zip(model.operators, strategy.holders, strict=True)
        if holders != rest
    }
    return "{" + ", ".join(f"{name}: {_shown(strategy, one)}" for name, one in {**named, REST: rest}.items()) + "}"


def given(model: Model, strategy: Strategy) -> str | dict[str, str | list[int]]:
    """Return a strategy as :func:`read` reads it, with each operator named: ``data``, or holders by operator."""
    if strategy == data_parallel(model, strategy.servers):
        return "data"
    everyone = strategy.servers
    return {
        operator.name: "all" if len(holders) == everyone else list(holders)
        for operator, holders in zip(model.operators, strategy.holders, strict=True)
    }


def _shown(strategy: Strategy, holders: Holders) -> str:
    return "all" if len(holders) == strategy.servers else f"[{', '.join(map(str, holders))}]"


@cache
def holder_of(servers: int, holders: Holders) -> Holders:
    """Return for each server the holder to which its samples go."""
    return tuple(holders[server * len(holders) // servers] for server in range(servers))


@cache
def served(servers: int, holders: Holders) -> Mapping[int, int]:
    """Return for each holder the number of servers whose samples go there: at least one."""
    return Counter(holder_of(servers, holders))


@lru_cache(maxsize=2**14)
def exchanged(servers: int, one: Holders, other: Holders) -> tuple[tuple[int, int, int], ...]:
    """List the transfers between two operators' holders: from, to, and of how many servers the samples are."""
    pairs = Counter(zip(holder_of(servers, one), holder_of(servers, other), strict=True))
    return tuple((a, b, count) for (a, b), count in pairs.items())


def mp_bytes(model: Model, strategy: Strategy) -> NDArray[np.int64]:
    """Compute T_MP: int64[n, n], activations forward and gradients back, by source and destination."""
    found = np.zeros((strategy.servers, strategy.servers), dtype=np.int64)
    for place, inputs in enumerate(model.inputs):
        for one in inputs:
            each = model.samples * model.operators[one].output_bytes
            for a, b, count in exchanged(strategy.servers, strategy.holders[one], strategy.holders[place]):
                if a != b:
                    found[a, b] += count * each
                    found[b, a] += count * each
    return found


def gradients(model: Model, strategy: Strategy) -> dict[Holders, int]:
    """Return the bytes of the gradient that each AllReduce group sums, by its members."""
    found: Counter[Holders] = Counter()
    for operator, holders in zip(model.operators, strategy.holders, strict=True):
        if len(holders) > 1 and operator.weight_bytes:
            found[holders] += operator.weight_bytes
    return dict(found)


def is_silent(model: Model, strategy: Strategy) -> bool:
    """Whether nothing is sent: one server holds all, or the operators on others have neither inputs nor weights."""
    return not gradients(model, strategy) and not mp_bytes(model, strategy).any()


def demand_of(model: Model, strategy: Strategy) -> Demand:
    """Compute the transfers that the strategy makes servers send in an iteration: the input of TopologyFinder.

    Raises:
        SpecError: nothing is sent, or it is too much.
    """
    if is_silent(model, strategy):
        raise SpecError(
            f"{model.name}: under strategy {text(model, strategy)} servers send each other nothing",
            fix="let another server hold an operator, or train on one server",
        )
    groups = [Group.of_gradient(members, size) for members, size in gradients(model, strategy).items()]
    return demand(strategy.servers, groups, mp_bytes(model, strategy))


def held_bytes(model: Model, strategy: Strategy) -> list[int]:
    """Compute the memory that each server needs: for the weights that it holds, and outputs of the samples that it
    serves.

    Gradients and an optimiser's state are not counted: the gradient of a table is the rows that a batch looks up.
    """
    found = [0] * strategy.servers
    for operator, holders in zip(model.operators, strategy.holders, strict=True):
        weights, each = operator.weight_bytes, model.samples * operator.output_bytes
        for holder, count in served(strategy.servers, holders).items():
            found[holder] += weights + count * each
    return found


def check_fits(model: Model, strategy: Strategy, memory_bytes: float) -> None:
    """Raise SpecError if a server has too little memory for what it holds."""
    held = held_bytes(model, strategy)
    most = max(range(strategy.servers), key=lambda server: held[server])
    if held[most] > memory_bytes:
        raise SpecError(
            f"{model.name}: server {most} would hold {held[most] / 1e9:.3g} GB, and has {memory_bytes / 1e9:.3g} GB",
            fix=f"place large operators on single servers, such as {{{_example(model)}, rest: all}}, "
            "cut a profile's tables, or give more servers or memory",
        )


def fitting(model: Model, servers: int, memory_bytes: float, *, place_tables: bool = False) -> Strategy:
    """Return data parallelism, changed until it fits: the largest operators go to single servers, each to the one that
    holds least, until all servers have enough memory. If asked, all embedding tables do so first.

    Raises:
        SpecError: even then it does not fit.
    """
    found = data_parallel(model, servers)
    tables = [place_tables and operator.columns > 0 for operator in model.operators]
    sizes = [operator.weight_bytes for operator in model.operators]
    held = held_bytes(model, found)
    for place in sorted(range(len(sizes)), key=lambda place: (not tables[place], -sizes[place], place)):
        if tables[place] or max(held) > memory_bytes:
            found = found.moved(place, (held.index(min(held)),))
            held = held_bytes(model, found)
    check_fits(model, found, memory_bytes)
    return found
