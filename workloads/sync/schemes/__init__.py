"""Plans from expressions such as ``ps(place=tensor)`` or ``./mine.py:my_scheme(depth=2)``.

A scheme is a function ``(topology, tensor_sizes, *, parameters) -> Plan``. Most plans are forests, and their schemes
have a file each in this package. Schemes whose plans are of another type are with their kind of trial.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from testbed.base.errors import SchemeError
from testbed.topologies.call import Call, parse
from testbed.topologies.load import is_in_file, load_function, users_code
from testbed.topologies.model import Topology
from testbed.topologies.parameters import Parameter, bind, did_you_mean, parameters_of
from testbed.workloads.finding import Finding
from testbed.workloads.plan import Plan
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.rotation import MOST_HOSTS, MOST_OF_TREES, Rotation, check
from testbed.workloads.sync.schemes.registry import BY_LOT, CLASS_A_HOST, DECIDES, REPAIRS, ROTATIONS, SCHEMES, Scheme

EXAMPLE = "ps(place=chunk)"
_Integer = TypeVar("_Integer", np.int32, np.int64)
_FIXED = 2  # every scheme takes topology and tensor_sizes first; the parameters after them are its own


@dataclass(frozen=True)
class SchemeInfo:
    """A scheme that comes with us: its name in expressions, one line about it, where it is from, its parameters."""

    name: str
    doc: str
    source: str
    parameters: tuple[Parameter, ...]
    function: Scheme


def schemes() -> dict[str, SchemeInfo]:
    """Return the schemes that come with us, by name."""
    return {scheme.__name__: _info(scheme) for scheme in SCHEMES}


def parameters_named(name: str) -> tuple[Parameter, ...]:
    """Return the parameters of a scheme that comes with us, or of a user's own.

    Raises:
        SchemeError: its file or function is not there, or its signature cannot be used.
    """
    if is_in_file(name):
        return _parameters_in_file(name, load_function(name, SchemeError))
    return schemes()[name].parameters if name in schemes() else ()


def names_of(scheme: str) -> list[str]:
    """Return the names of a scheme's parameters, if it comes with us; none for any other."""
    return [one.name for one in schemes()[scheme].parameters] if scheme in schemes() else []


def build(expression: str, topology: Topology, tensor_sizes: Sequence[int]) -> Forest:
    """Build the plan of a scheme whose plans are forests, as :func:`build_plan`.

    Raises:
        SpecError, SchemeError: as :func:`build_plan`; or the scheme's plans are no forests.
    """
    plan = build_plan(expression, topology, tensor_sizes)
    if not isinstance(plan, Forest):
        raise SchemeError(
            f"scheme {expression} has no forest", fix="use a scheme whose sums go along trees, such as ring"
        )
    return plan


def build_plan(expression: str, topology: Topology, tensor_sizes: Sequence[int]) -> Plan:
    """Build the plan of a scheme on a topology; ``tensor_sizes`` are in floats, in the model's order.

    The plan is as its function made it: :func:`testbed.workloads.kinds.verify` says whether it is right.

    Raises:
        SpecError: the expression cannot be read.
        SchemeError: the scheme or a parameter is unknown, or the scheme cannot use this topology.
    """
    call = parse(expression, EXAMPLE, names_of)
    if is_in_file(call.name):
        return _build_from_file(call, topology, tensor_sizes)
    known = schemes()
    if call.name not in known:
        raise SchemeError(
            f"there is no scheme {call.name!r}{did_you_mean(call.name, known)}",
            fix=f"use one of {', '.join(known)}, or ./FILE.py:FUNCTION for your own",
        )
    info = known[call.name]
    arguments = bind(call.name, info.parameters, call.arguments, SchemeError)
    if topology.host_count > MOST_HOSTS:
        turned = _turned(call, topology)
        if turned is not None:
            return turned
    return info.function(topology, tensor_sizes, **arguments).built_by(str(call))


def _turned(call: Call, topology: Topology) -> Rotation | None:
    """Return the plan of one class, if the scheme gives one and all looks alike on this network; None where the trees
    of all classes have to be made.

    Raises:
        SchemeError: these trees are too many.
    """
    count, text = topology.host_count, str(call)
    if not call.arguments and (gives := ROTATIONS.get(call.name)):
        plan = gives(topology).built_by(text)
        try:
            check(plan, topology)
        except SchemeError:
            if count > MOST_OF_TREES:
                raise
            return None
        return plan
    if count > MOST_OF_TREES and (why := CLASS_A_HOST.get(call.name)):
        raise SchemeError(
            f"scheme {text} on {count:,} hosts: the trees of its classes would take {8 * count * count / 1e9:.0f} GB, "
            f"and no rotation stands for them: {why}",
            fix=f"take at most {MOST_OF_TREES:,} hosts, or ring on a star, of which one class is played",
        )
    return None


def begins_by_lot(expression: str) -> bool:
    """Whether workers of a simulated trial under this scheme begin by lot."""
    return expression.partition("(")[0].strip() in BY_LOT


def repairable(expression: str) -> bool:
    """Whether the scheme goes on when one of its nodes dies."""
    return parse(expression, EXAMPLE).name in REPAIRS


def repair(expression: str, topology: Topology, tensor_sizes: Sequence[int], dead: Collection[int]) -> Forest:
    """Make the forest with which a scheme that is :func:`repairable` goes on without the ``dead`` nodes.

    Raises:
        SchemeError: nobody is left.
    """
    if not set(topology.hosts) - set(dead):
        raise SchemeError(f"scheme {expression}: no worker is left", fix="see why they died")
    call = parse(expression, EXAMPLE)
    arguments = bind(call.name, schemes()[call.name].parameters, call.arguments, SchemeError)
    return REPAIRS[call.name](dead, topology, tensor_sizes, **arguments).built_by(str(call))


def finding(expression: str) -> Finding | None:
    """Return what the scheme leaves to be found in each trial; None if all is written. Until it is found, the plan of
    the expression stands for it."""
    call = parse(expression, EXAMPLE)
    if is_in_file(call.name):
        decides = getattr(load_function(call.name, SchemeError), "decides", None)
    else:
        decides = DECIDES.get(call.name)
    if decides is None:
        return None
    with users_code(f"{call.name}: decides failed", SchemeError):
        wanted = decides(**bind(call.name, parameters_named(call.name), call.arguments, SchemeError))
    if not isinstance(wanted, Finding | None):
        raise SchemeError(f"{call.name}: decides returned {type(wanted).__name__}", fix="return a Finding, or None")
    return wanted


@cache
def _info(scheme: Scheme) -> SchemeInfo:
    text = inspect.getdoc(scheme) or ""
    source = text.partition("Source:")[2].split("\n\n")[0]
    return SchemeInfo(
        scheme.__name__, text.splitlines()[0], " ".join(source.split()), parameters_of(scheme, _FIXED), scheme
    )


def _build_from_file(call: Call, topology: Topology, tensor_sizes: Sequence[int]) -> Forest:
    """Build a forest by a user's own scheme: ``def my_scheme(topology, tensor_sizes, depth=2) -> Forest``."""
    function = load_function(call.name, SchemeError)
    arguments = bind(call.name, _parameters_in_file(call.name, function), call.arguments, SchemeError)
    with users_code(f"{call.name} failed", SchemeError):
        forest = function(topology, tensor_sizes, **arguments)
    if not isinstance(forest, Forest):
        raise SchemeError(
            f"{call.name} returned {type(forest).__name__}, not a Forest",
            fix="end the function with: return testbed.workloads.sync.forest.Forest(...)",
        )
    return _in_our_types(replace(forest, scheme=str(call)))


def _in_our_types(forest: Forest) -> Forest:
    """Convert a forest of whatever array-likes a user's function took: lists, numpy's integers.

    Raises:
        SchemeError: they hold something else than whole numbers, or have another shape.
    """
    try:
        return replace(
            forest,
            nodes=tuple(forest.nodes),
            workers=tuple(map(operator.index, forest.workers)),
            share=_whole("share", forest.share, np.int64),
            reduce=_whole("reduce", forest.reduce, np.int32),
            broadcast=_whole("broadcast", forest.broadcast, np.int32),
        )
    except (TypeError, ValueError) as problem:
        raise SchemeError(
            f"{forest.scheme} returned a forest whose workers, shares or parents are not whole numbers: {problem}",
            fix="give workers=tuple(topology.hosts), share=np.ones(classes, np.int64), and parents of type np.int32",
        ) from problem


def _whole(name: str, values: ArrayLike, kind: type[_Integer]) -> NDArray[_Integer]:
    array = np.asarray(values)
    if not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"{name} is an array of {array.dtype}")
    whole = array.astype(kind)
    if not np.array_equal(whole, array):
        raise ValueError(f"{name} has a number that is too large for {np.dtype(kind)}")
    return whole


def _parameters_in_file(name: str, function: Callable[..., object]) -> tuple[Parameter, ...]:
    try:
        inspect.signature(function).bind_partial(None, ())
        return parameters_of(function, _FIXED)
    except (TypeError, ValueError, NameError) as problem:
        raise SchemeError(
            f"the signature of {name} cannot be used: {problem}",
            fix="write it as: def my_scheme(topology, tensor_sizes, depth=2)",
        ) from problem
