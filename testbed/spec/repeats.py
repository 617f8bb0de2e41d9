"""The key ``repeats``: a number of rounds, or rounds until a number is known well enough."""

from __future__ import annotations

from typing import Annotated

from pydantic import Discriminator, Field, Tag, model_validator

from testbed.base.groups import Group, Share, Whole, refuse, tag

MOST_REPEATS = 1000
TOPPED_UP = 2
"""Ratio of the repeats that run at most, where too few are VALID, to those that a spec asks for. Of 10 with half of
them INVALID, 10 more give the 10 that were wanted; a machine on which more are INVALID is none for a gate."""


class Until(Group):
    """Rounds go on until the medians are known well enough."""

    until: Share = Field(gt=0, lt=1, examples=["3 %"])
    """Rounds go on until the 95 % confidence interval of each cell's median GST is within this share of the median."""
    most: Whole = Field(20, ge=2, le=MOST_REPEATS)
    """The largest number of rounds."""
    least: Whole = Field(3, ge=2, le=MOST_REPEATS)
    """The smallest number of rounds."""

    @model_validator(mode="after")
    def _in_order(self) -> Until:
        if self.least > self.most:
            raise refuse(f"at least {self.least} repeats are more than at most {self.most}", "give a larger most")
        return self


_TIMES, _UNTIL = tag("times"), tag("until")
Repeats = Annotated[
    Annotated[Whole, Field(ge=1, le=MOST_REPEATS), Tag(_TIMES)] | Annotated[Until, Tag(_UNTIL)],
    Discriminator(lambda value: _UNTIL if isinstance(value, dict | Until) else _TIMES),
]
REPEATS: dict[str, type[Group]] = {"times": Group, "until": Until}
"""The ways to say how often a trial is repeated: a number, or :class:`Until`."""
