"""The kind of workload ``profile``."""

from __future__ import annotations

from math import prod
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from testbed.base.errors import SpecError
from testbed.base.groups import Number, refuse
from testbed.spec.workload.base import PlayedTime, Synchronised, mode_alone, no_pace
from testbed.workloads.job import Replay, Task
from testbed.workloads.learning.buckets import Gradient, shares
from testbed.workloads.models import MODELS
from testbed.workloads.parallel.prediction import FLOP_OF_AN_ITERATION
from testbed.workloads.played import play, played
from testbed.workloads.profiles import TABLE_6_1


def _profile_name(name: str) -> str:
    if name in MODELS and name not in played():
        raise refuse(f"{name!r} is trained, and not played back", "remove kind: profile, and give a dataset")
    try:
        return play(name).name
    except SpecError as error:
        raise refuse(error.problem, error.fix or "") from None


class Profile(Synchronised):
    """Each worker sends random values in the layer sizes of a published model, at its published times. All sums are
    checked."""

    takes_scale: ClassVar[bool] = True

    kind: Literal["profile"]
    model: Annotated[str, AfterValidator(_profile_name)] = Field(examples=["vgg19"])
    scale: Number = Field(1.0, ge=1, le=1e6, examples=["200"], json_schema_extra={"also": ["fit"]})
    """The size of the gradient and the rates of all links are divided by this number, so that all times stay the same.
    ``fit`` chooses the smallest scale at which this machine can carry every arm."""
    compute: Annotated[PlayedTime, BeforeValidator(mode_alone)] = PlayedTime()
    overlap: Literal["none", "layer", "both"] = "none"
    """``none`` and ``layer`` as for ``train``. ``both``: like ``layer``, and the next forward pass
    computes each layer as soon as its sum is there."""

    def layers(self) -> list[list[int]]:
        return [[prod(shape) for _, shape in layer.tensors] for layer in reversed(play(self.model).layers)]

    def task(self, batch: int, seed: int, gradient: Gradient, rounding: float) -> Task:  # noqa: ARG002
        macs = [layer.macs for layer in reversed(play(self.model).layers)]
        return Replay(self.iterations, seed, shares(macs, gradient.layers), rounding)

    def _computed_s(self) -> dict[int, float]:
        """Time of each batch at the pace that is given in operations (s); empty without such a pace."""
        flop_per_s = self.compute.flop_per_s
        if flop_per_s is None:
            return {}
        macs = sum(layer.macs for layer in play(self.model).layers)
        return {batch: FLOP_OF_AN_ITERATION * macs * batch / flop_per_s for batch in self.batch}

    @model_validator(mode="after")
    def _times_known(self) -> Self:
        """Fill in times that are not given: they are the published ones, and then part of the resolved spec."""
        if self.compute.mode == "none":
            return self
        known = self._computed_s() or play(self.model).times_s
        pace_s = {batch: s for batch, s in known.items() if batch in self.batch} | self.compute.pace_s
        missing = [batch for batch in self.batch if batch not in pace_s]
        if missing:
            published = f"; {TABLE_6_1}, has one for batch {', '.join(map(str, known))}" if known else ""
            raise no_pace(missing, published)
        return self.model_copy(update={"compute": self.compute.model_copy(update={"pace_s": pace_s})})
