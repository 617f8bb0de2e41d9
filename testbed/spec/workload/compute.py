"""The keys of ``compute``: how long a worker takes to compute a gradient."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from testbed.base.groups import Group, Pace, Time, Whole, refuse


class ComputeTime(Group):
    """The time that a worker takes to compute a gradient. ``compute: none`` is short for ``compute: {mode: none}``."""

    mode: Literal["real", "paced", "none"] = "real"
    """``real``: the processor's own time. ``paced``: the time that ``pace`` gives. ``none``: no time."""
    pace_s: dict[Whole, Time] = Field(default={}, alias="pace", examples=["{8: 100 ms}"])
    """The time to compute a gradient, for each batch size. It includes the optimizer's step."""

    @model_validator(mode="after")
    def _pace_only_when_paced(self) -> ComputeTime:
        if self.mode != "paced" and self.pace_s:
            raise refuse(f"mode {self.mode!r} takes no pace", "remove the pace, or write mode: paced")
        return self


class TrainedTime(ComputeTime):
    """The time that a worker takes to compute the gradient of a model that is trained. ``compute: none`` is short for
    ``compute: {mode: none}``."""

    pace_s: dict[Whole, Time] = Field(
        default={}, alias="pace", examples=["{8: 100 ms}", "fit"], json_schema_extra={"also": ["fit"]}
    )
    """The time to compute a gradient, for each batch size. It includes the optimizer's step. ``fit`` takes twice the
    time in which this machine computes the gradients of all workers of the largest arm, rounded up."""


class PlayedTime(ComputeTime):
    """The time that a profile's worker takes to compute a gradient. Without a pace this is the published time."""

    mode: Literal["paced", "none"] = "paced"
    """``paced``: the time that ``pace`` gives, or else ``flops``, or else the published one. ``none``: no time."""
    flop_per_s: Pace | None = Field(default=None, alias="flops", exclude=True, examples=["10 TFLOP/s"])
    """The operations that a worker computes in a second. They give the time of each batch that ``pace`` does not have.
    A forward pass has two operations for each multiply-add, and a backward pass has twice as many."""

    @model_validator(mode="after")
    def _flops_only_when_paced(self) -> PlayedTime:
        if self.mode != "paced" and self.flop_per_s:
            raise refuse(f"mode {self.mode!r} takes no flops", "remove flops, or write mode: paced")
        return self


def mode_alone(value: object) -> object:
    return {"mode": value} if isinstance(value, str) else value


def no_pace(missing: list[int], known: str = "") -> PydanticCustomError:
    return refuse(
        f"compute.pace has no time for batch {', '.join(map(str, missing))}",
        f"add it, such as pace: {{{missing[0]}: 0.3 s}}{known}",
    )
