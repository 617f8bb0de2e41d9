"""The kind of workload ``train``."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import prod
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from testbed.base.groups import Number, refuse
from testbed.spec.workload.base import Synchronised, TrainedTime, mode_alone, no_pace
from testbed.workloads.catalogue import check_dataset
from testbed.workloads.job import Optimiser, Task, Training
from testbed.workloads.learning.buckets import Gradient
from testbed.workloads.models import MODELS, model
from testbed.workloads.own import is_own_data, is_own_model
from testbed.workloads.own.prepared import Prepared, prepare
from testbed.workloads.parallel.models import NAMES
from testbed.workloads.played import played


def _trained_name(name: str) -> str:
    if name in played() and name not in MODELS:
        raise refuse(
            f"{name!r} is played back, and not trained", "write kind: profile, without dataset and learning_rate"
        )
    return name


class Train(Synchronised):
    """Each worker trains a real model on real data and sends its real gradient."""

    kind: Literal["train"] = "train"
    model: Annotated[str, AfterValidator(_trained_name)] = Field(examples=["lenet5"])
    """The model to train: one of ``testbed models`` that has a data set, your own ``./net.py:Net(classes=10)``, or
    ``torchvision.resnet18(num_classes=10)`` and the like."""
    dataset: str = Field(examples=["digits"])
    """The data set to train on: one that ``testbed models`` lists for the model, your own ``./data.py:load``, or files
    of MNIST or CIFAR-10: ``mnist(path=./mnist)``, ``cifar10(path=./cifar-10-batches-py)``."""
    learning_rate: Number = Field(0.05, gt=0)
    """The learning rate of the optimiser."""
    momentum: Number = Field(0.9, ge=0, lt=1)
    """The momentum of the optimiser."""
    optimiser: Optimiser = "sgd"
    """The step that follows from a sum: ``sgd`` with momentum, or ``nesterov``, with Nesterov's momentum."""
    compute: Annotated[TrainedTime, BeforeValidator(mode_alone)] = TrainedTime()
    overlap: Literal["none", "layer"] = "none"
    is_trained: ClassVar[bool] = True
    uses_torch: ClassVar[bool] = True
    placeable: ClassVar[Sequence[str]] = tuple(name for name in NAMES if name in MODELS)

    @property
    def scale(self) -> float:
        """Scale 1: a model that is trained has its own size."""
        return 1.0

    def layers(self) -> list[list[int]]:
        return [[prod(shape) for _, shape in layer] for layer in reversed(model(self.model).layers)]

    def check(self) -> None:
        if not self._is_own:
            check_dataset(self.dataset, self.model)

    @property
    def _is_own(self) -> bool:
        """Whether model or data set is the user's own (:mod:`testbed.workloads.own`)."""
        return is_own_model(self.model) or is_own_data(self.dataset)

    def needs(self, seed: int) -> Hashable:
        """Key of the files. The same files do for all batches that a model takes at once."""
        return (self.model, self.dataset, seed, min(self.batch)) if self._is_own else None

    def prepare(self, folder: Path, seed: int) -> Prepared:
        return prepare(folder, self.model, self.dataset, seed, min(self.batch))

    def task(self, batch: int, seed: int, gradient: Gradient, rounding: float) -> Task:  # noqa: ARG002
        rate, momentum = self.learning_rate, self.momentum
        names = self.model, self.dataset
        return Training(*names, batch, self.iterations, rate, momentum, seed, optimiser=self.optimiser)

    @model_serializer(mode="wrap")
    def _without_what_is_not_asked(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave ``optimiser`` out where it is ``sgd``: trials that ran before there was such a key stay the same."""
        found: dict[str, Any] = dump(self)
        return {key: value for key, value in found.items() if (key, value) != ("optimiser", "sgd")}

    @model_validator(mode="after")
    def _momentum_known(self) -> Self:
        if self.optimiser == "nesterov" and not self.momentum:
            raise refuse("optimiser: nesterov needs a momentum above 0", "give momentum: 0.9, or take sgd")
        return self

    @model_validator(mode="after")
    def _pace_known(self) -> Self:
        missing = [batch for batch in self.batch if batch not in self.compute.pace_s]
        if self.compute.mode == "paced" and missing:
            raise no_pace(missing)
        return self
