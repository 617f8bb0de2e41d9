"""Orders of ranks in a spec: hosts by name, or an expression such as ``random(3)``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from testbed.base.errors import SpecError
from testbed.base.groups import refuse
from testbed.base.units import value_text
from testbed.topologies.call import parse
from testbed.topologies.parameters import bind, did_you_mean, parameters_of

EXAMPLE = "[h3, h0, ..], random(3), best, worst or percentile(30)"
_FIRST = re.compile(r"(\w+)\(\s*([^,=()\s]+)\s*([,)].*)", re.DOTALL)
"""Pattern of an expression whose first value has no name."""


@dataclass(frozen=True)
class Random:
    """Order by chance. The same ``draw`` gives the same order of as many hosts."""

    draw: int


@dataclass(frozen=True)
class Sought:
    """Order that is found in each trial, by what it costs.

    Attributes:
        percentile: place of its cost between the best order's, 0, and the worst one's, 100.
        cost: cost model of the collective; empty for the scheme's.
        model: cost of a transfer: ``latency``, or ``linear``, which is latency plus bytes over bandwidth.
        bytes: number of bytes that are reduced, for ``linear``; 0 for those of the gradient.
        base: base of the cost model ``bcube``.
    """

    percentile: float
    cost: str = ""
    model: Literal["latency", "linear"] = "latency"
    bytes: int = 0
    base: int = 2

    @property
    def name(self) -> str:
        """Its name in a spec."""
        return next((name for name, at in ENDS.items() if at == self.percentile), "percentile")

    @property
    def first(self) -> str:
        """Text of the value that its expression begins with, and a comma; empty for an end."""
        return "" if self.name in ENDS else f"{self.percentile:g},"


ENDS = {"best": 0.0, "worst": 100.0}
KINDS = {
    "random": parameters_of(Random, 0),
    "percentile": parameters_of(Sought, 0),
    **dict.fromkeys(ENDS, parameters_of(Sought, 1)),
}


def read(text: str) -> Random | Sought:
    """Read an expression.

    Raises:
        SpecError: the text is no order, or a number is missing or out of bounds.
    """
    name = text.split("(", maxsplit=1)[0].strip()
    if name not in KINDS:
        raise SpecError(f"{name!r:.60} is no order{did_you_mean(name, KINDS)}", fix=f"write {EXAMPLE}")
    first = _FIRST.fullmatch(text.strip())
    if first and name not in ENDS:
        text = f"{name}({KINDS[name][0].name}={first[2]}{first[3]}"
    call = parse(text, EXAMPLE)
    values: dict[str, Any] = bind(call.name, KINDS[call.name], call.arguments, SpecError)
    for key in ("draw", "bytes"):
        if values.get(key, 0) < 0:
            raise SpecError(f"{call.name}: {key} is {values[key]}", fix="give it 0 or more")
    if call.name == "random":
        return Random(**values)
    sought = Sought(**{"percentile": ENDS.get(call.name), **values})
    if not 0 <= sought.percentile <= 100:
        raise SpecError(f"percentile is {sought.percentile:g}", fix="give it 0, the best, to 100, the worst")
    return sought


def _order(value: object) -> object:
    """Check an order as far as that is possible without knowing the hosts. A list may be text, as in expressions."""
    if isinstance(value, str) and value.startswith("[") and value.endswith("]"):
        value = [name.strip() for name in value[1:-1].split(",")]
    if isinstance(value, list) and value and all(isinstance(name, str) for name in value):
        return value
    if not isinstance(value, str):
        raise refuse(f"{value_text(value)} is no order", f"write {EXAMPLE}")
    try:
        read(value)
    except SpecError as error:
        raise refuse(error.problem, error.fix or "") from None
    return value.strip()


Given = str | list[str]
RankOrder = Annotated[Given, BeforeValidator(_order)]


def shown(order: Given | None) -> str:
    """Write an order for people; empty where there is none."""
    if order is None or isinstance(order, str):
        return order or ""
    return ", ".join(order[:4] + [f"and {len(order) - 4} more"] * (len(order) > 4))
