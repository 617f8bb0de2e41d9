"""Orders of ranks in a spec: hosts by name, or an expression such as ``random(3)``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import BeforeValidator

from testbed.base.errors import SpecError
from testbed.base.groups import refuse
from testbed.topologies.call import parse
from testbed.topologies.parameters import bind, did_you_mean, parameters_of

EXAMPLE = "[h3, h0, ..] or random(3)"
_FIRST = re.compile(r"(\w+)\(\s*([^,=()\s]+)\s*([,)].*)", re.DOTALL)
"""Pattern of an expression whose first value has no name."""


@dataclass(frozen=True)
class Random:
    """Order by chance. The same ``draw`` gives the same order of as many hosts."""

    draw: int


KINDS = {"random": Random}


def read(text: str) -> Random:
    """Read an expression.

    Raises:
        SpecError: it is none, or lacks a number.
    """
    name = text.split("(", maxsplit=1)[0].strip()
    if name not in KINDS:
        raise SpecError(f"{name!r:.60} is no order{did_you_mean(name, KINDS)}", fix=f"write {EXAMPLE}")
    first = _FIRST.fullmatch(text.strip())
    call = parse(_with_name(first) if first else text, EXAMPLE)
    made = KINDS[call.name]
    found = made(**bind(call.name, parameters_of(made, 0), call.arguments, SpecError))  # type: ignore[arg-type]
    if isinstance(found, Random) and found.draw < 0:
        raise SpecError(f"random({found.draw})", fix="give it 0 or more")
    return found


def _with_name(first: re.Match[str]) -> str:
    name, value, rest = first.groups()
    return f"{name}({parameters_of(KINDS[name], 0)[0].name}={value}{rest}"


def _order(value: object) -> object:
    """Check an order as far as that is possible without knowing the hosts."""
    if isinstance(value, list) and value and all(isinstance(name, str) for name in value):
        return value
    if not isinstance(value, str):
        raise refuse(f"{value!r:.60} is no order", f"write {EXAMPLE}")
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
