"""The kind of workload ``command``."""

from __future__ import annotations

import shlex
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from testbed.base.groups import listed, refuse
from testbed.spec.workload.base import Program, Workload

MOST_INPUTS = 50
"""Each may be a pattern that is held against every file in the spec's directory."""


def words(value: object) -> object:
    """A command as its words."""
    try:
        found = shlex.split(value) if isinstance(value, str) else value
    except ValueError as error:  # a quotation that does not end
        raise refuse(f"cannot read {value!r}: {str(error).lower()}", "write it as python train.py --epochs 2") from None
    if isinstance(value, str) and not found:
        raise refuse("an empty command", "write it as python train.py --epochs 2")
    return found


class Command(Workload):
    """A script of yours runs on each host as one rank, as torchrun would start it. It synchronises by itself."""

    brings: ClassVar[str] = "command"
    kind: Literal["command"]
    command: Annotated[list[Annotated[str, Field(strict=True)]], BeforeValidator(words)] = Field(
        examples=["python train.py --epochs 2"]
    )
    """The command that each host runs, in the spec's directory. It is split into words as a shell would split it, but
    no shell runs it. ``python`` is the Python that testbed runs with."""
    inputs: Annotated[list[Annotated[str, Field(strict=True, min_length=1)]], BeforeValidator(listed)] | None = Field(
        None, max_length=MOST_INPUTS, examples=["[train.py, 'model/*.py']"]
    )
    """Files in the spec's directory on which the result depends, as names or patterns. ``--resume`` refuses to go on if
    one was changed. The default is all Python files there. Scripts that the command names always count."""

    @property
    def program(self) -> Program:
        return Program(tuple(self.command), None if self.inputs is None else tuple(self.inputs))

    @property
    def batch(self) -> list[int]:
        """One, of which nothing is known."""
        return [0]

    @property
    def scale(self) -> float:
        """Rates are as the spec has them."""
        return 1.0
