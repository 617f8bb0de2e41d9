"""Every model that can be played back: profiles of layers (:mod:`testbed.workloads.profiles`), and models of operators
(:mod:`testbed.workloads.parallel.models`), each operator a layer."""

from __future__ import annotations

from functools import cache, partial

from testbed.workloads.parallel.models import NAMES, operators_of
from testbed.workloads.parallel.operators import FLOAT_BYTES
from testbed.workloads.profiles import Profile, profiles
from testbed.workloads.profiles.layers import Layer
from testbed.workloads.registry import lookup


@cache
def played() -> dict[str, Profile]:
    """Return all of them, by name. Models of operators have no published times."""
    placed = (Profile(name, _doc(name), partial(_layers, name)) for name in NAMES)
    return {**profiles(), **{one.name: one for one in placed}}


def play(name: str) -> Profile:
    """Return the one called ``name``.

    Raises:
        SpecError: there is none of that name.
    """
    return lookup("model", name, played())


def _doc(name: str) -> str:
    return f"TopoOpt, {operators_of(name).source}; its operators can be placed on hosts"


def _layers(name: str) -> list[Layer]:
    return [Layer(one.name, _tensors(one.name, one.tensors), one.multiply_adds) for one in operators_of(name).operators]


def _tensors(name: str, sizes: tuple[int, ...]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple((f"{name}.{place}", (size // FLOAT_BYTES,)) for place, size in enumerate(sizes))
