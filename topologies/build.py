"""Topologies from expressions such as ``bcube(n=3,k=2)`` or ``./mine.py:my_net(racks=2)``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from testbed.base.errors import TopologyError
from testbed.topologies import formats, mininet_topo
from testbed.topologies.bcube import bcube
from testbed.topologies.call import Call, parse
from testbed.topologies.check import check, check_paths
from testbed.topologies.cloud import cloud
from testbed.topologies.dragonfly import dragonfly
from testbed.topologies.expander import expander
from testbed.topologies.fat_tree import fat_tree
from testbed.topologies.ina import mark
from testbed.topologies.load import DATA, is_data, is_in_file, load_function, users_code
from testbed.topologies.model import Topology
from testbed.topologies.parameters import Parameter, bind, did_you_mean, parameters_of
from testbed.topologies.patch_panel import patch_panel
from testbed.topologies.spine_leaf import spine_leaf
from testbed.topologies.star import star

EXAMPLE = "bcube(n=3,k=2)"
_BUILDERS: tuple[Callable[..., Topology], ...] = (
    *(star, bcube, fat_tree, spine_leaf, dragonfly),
    *(patch_panel, expander, cloud),
)
_FIXED = 2  # every builder takes rate_bps and delay_s first; the parameters after them are its own


@dataclass(frozen=True)
class Family:
    """A kind of network: its name in expressions, one line about it, and its parameters."""

    name: str
    doc: str
    parameters: tuple[Parameter, ...]
    builder: Callable[..., Topology]


def families() -> dict[str, Family]:
    """Return the families that come with us, by name."""
    return {builder.__name__: _family(builder) for builder in _BUILDERS}


@cache
def _family(builder: Callable[..., Topology]) -> Family:
    doc = (inspect.getdoc(builder) or "").splitlines()[0]
    return Family(builder.__name__, doc, parameters_of(builder, _FIXED), builder)


def names_of(family: str) -> list[str]:
    """Return the names of a family's parameters, for one of :func:`families`; for any other name, none."""
    return [parameter.name for parameter in families()[family].parameters] if family in families() else []


def comes_with_us(expression: str) -> bool:
    """Whether an expression names one of :func:`families`, so that to build it runs no code but ours.

    Raises:
        SpecError: the expression cannot be read.
    """
    return parse(expression, EXAMPLE).name in families()


def parameters_named(name: str) -> tuple[Parameter, ...]:
    """Return the parameters of a family, of a file, or of a user's own builder.

    Raises:
        TopologyError: there is none of that name, or its signature cannot be used.
    """
    if is_data(name):
        return formats.PARAMETERS
    if not is_in_file(name):
        return families()[name].parameters if name in families() else ()
    function = load_function(name, TopologyError)
    if mininet_topo.is_topo(function):
        return mininet_topo.parameters_of_topo(name, function)
    return _parameters_in_file(name, function)


def build(expression: str, *, rate_bps: int, delay_s: float = 0.0) -> Topology:
    """Build the network that an expression describes.

    Args:
        expression: a family of :func:`families`, a file of :mod:`testbed.topologies.formats`, or a function in a
            file, with its arguments; each may have ``ina`` beside them, which says which switches aggregate
            (:mod:`testbed.topologies.ina`).
        rate_bps: rate of each host's link in bit/s, each direction.
        delay_s: one-way delay of every link in seconds.

    Raises:
        SpecError: the expression cannot be read.
        TopologyError: the family, a parameter, the rate or the delay is unknown or impossible.
    """
    if rate_bps < 1:
        raise TopologyError(f"the link rate is {rate_bps} bit/s", fix="give links a rate above 0")
    if not 0 <= delay_s < float("inf"):
        raise TopologyError(f"the link delay is {delay_s} s", fix="give links a delay of 0 or more")
    call = parse(expression, EXAMPLE, names_of)
    arguments = {name: value for name, value in call.arguments.items() if name != "ina"}
    topology = _build(Call(call.name, arguments), rate_bps, delay_s)
    return mark(topology, call.arguments["ina"]) if "ina" in call.arguments else topology


def _build(call: Call, rate_bps: int, delay_s: float) -> Topology:
    if is_data(call.name):
        return replace(formats.read(call.name, call.arguments, rate_bps, delay_s), params=dict(call.arguments))
    if is_in_file(call.name):
        function = load_function(call.name, TopologyError)
        if mininet_topo.is_topo(function):
            parameters = mininet_topo.parameters_of_topo(call.name, function)
            given = bind(call.name, parameters, call.arguments, TopologyError)
            with users_code(f"{call.name} failed", TopologyError):
                made = function(**given)
                network = mininet_topo.read(call.name, made, rate_bps, delay_s)
            check(call.name, network)
            return replace(network, params=dict(call.arguments))
        arguments = bind(call.name, _parameters_in_file(call.name, function), call.arguments, TopologyError)
        with users_code(f"{call.name} failed", TopologyError):
            topology = function(rate_bps, delay_s, **arguments)
        if not isinstance(topology, Topology):
            raise TopologyError(
                f"{call.name} returned {type(topology).__name__}, not a Topology",
                fix="end the function with: return testbed.topologies.model.Topology(...)",
            )
        check(call.name, topology)
        with users_code(f"{call.name}: its router failed", TopologyError):
            check_paths(call.name, topology)
        return replace(topology, family=call.name, params=dict(call.arguments))
    known = families()
    if call.name not in known:
        raise TopologyError(
            f"there is no topology {call.name!r}{did_you_mean(call.name, known)}",
            fix=f"use one of {', '.join(known)}, ./FILE.py:FUNCTION for your own, or a file: {', '.join(DATA)}",
        )
    family = known[call.name]
    return family.builder(rate_bps, delay_s, **bind(call.name, family.parameters, call.arguments, TopologyError))


def _parameters_in_file(name: str, function: Callable[..., object]) -> tuple[Parameter, ...]:
    try:
        inspect.signature(function).bind_partial(0, 0.0)
        return parameters_of(function, _FIXED)
    except (TypeError, ValueError, NameError) as problem:
        raise TopologyError(
            f"the signature of {name} cannot be used: {problem}",
            fix="write it as: def my_net(rate_bps, delay_s, racks=2)",
        ) from problem
