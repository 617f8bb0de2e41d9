"""Texts and times that several groups of keys have: names of networks and schemes, names for files, and 0 seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

from pydantic import BeforeValidator, Field

from testbed.base.errors import SpecError
from testbed.base.groups import one_line, refuse
from testbed.base.units import value_text
from testbed.topologies import build as topologies
from testbed.topologies.call import parse
from testbed.workloads.sync import schemes

NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
"""Pattern of names for directories and files."""
LONGEST_JOB = 30
"""The most characters of a job's name, which is a part of the names of its processes and of their files."""


def _call(value: object, example: str, parameters: Callable[[str], Sequence[str]]) -> str:
    if not isinstance(value, str):
        raise refuse(f"{value_text(value)} is not text", f"write it as {example}")
    try:
        return one_line(str(parse(value, example, parameters)))  # it is an arm's label where none is given
    except SpecError as error:
        raise refuse(error.problem, error.fix or "") from None


def nothing(value: object) -> object:
    """Convert 0 without a unit, which is a time as well."""
    return "0 s" if not isinstance(value, bool) and value in (0, "0") else value


TopologyText = Annotated[str, BeforeValidator(lambda value: _call(value, "bcube(n=3,k=2)", topologies.names_of))]
SchemeText = Annotated[str, BeforeValidator(lambda value: _call(value, "ring or ps(place=tensor)", schemes.names_of))]
Name = Annotated[str, Field(pattern=f"^{NAME}$", max_length=LONGEST_JOB)]
