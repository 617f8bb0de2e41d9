"""Moments at which something happens to a trial. Times count from the moment at which the first worker starts its first
iteration."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator

from testbed.base import units
from testbed.base.errors import SpecError
from testbed.base.groups import Group, refuse

_ITERATION = re.compile(r"\s*iteration\s+(\d{1,9})\s*")


class Moment(Group):
    """A time after the start of training, or the moment at which rank 0 has finished so many iterations."""

    time_s: float | None = None
    iteration: int | None = None

    def __str__(self) -> str:
        return f"iteration {self.iteration}" if self.time_s is None else units.time_text(self.time_s)


def _moment(value: object) -> object:
    """Read a moment: ``3 s`` or ``iteration 10``."""
    if isinstance(value, Moment):  # a default
        return value
    if isinstance(value, str) and (match := _ITERATION.fullmatch(value)):
        return {"iteration": int(match[1])}
    try:
        return {"time_s": units.time_s(value)}
    except SpecError as error:
        raise refuse(error.problem, f"{error.fix}; or write iteration 10") from None


When = Annotated[Moment, BeforeValidator(_moment)]
START = Moment(time_s=0.0)
NOW = Moment()
"""Moment of an event that no schedule has: a controller of a kind begins it."""
