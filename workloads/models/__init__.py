"""The models that can be trained, by name. Shapes are plain data, so that planning a run does not import torch.

A model's parameters live in one flat float32 buffer in *gradient order*: layers from the last to the first, which is
the order in which the backward pass completes them, and within a layer the tensors as declared (weight, bias).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from testbed.workloads.models import bert_tiny, candle_tiny, dlrm_tiny, lenet5, resnet8
from testbed.workloads.registry import lookup

if TYPE_CHECKING:
    from torch import nn

Layer = tuple[tuple[str, tuple[int, ...]], ...]
"""The tensors of one layer: name as in the module's ``state_dict`` and shape."""


@dataclass(frozen=True)
class Model:
    """A network and the shapes of its tensors, ``layers`` in the order of the forward pass."""

    name: str
    doc: str
    input_shape: tuple[int, ...]
    outputs: int
    layers: tuple[Layer, ...]
    build: Callable[[], nn.Module]

    def tensors(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return name and shape of each tensor in gradient order."""
        return [tensor for layer in reversed(self.layers) for tensor in layer]

    def buckets(self) -> list[tuple[int, int]]:
        """Return for each layer the span (start, stop) of floats in the flat buffer, in the order they become ready."""
        spans, start = [], 0
        for layer in reversed(self.layers):
            stop = start + sum(prod(shape) for _, shape in layer)
            spans.append((start, stop))
            start = stop
        return spans

    def floats(self) -> int:
        """Count the parameters."""
        return self.buckets()[-1][1]


def _model(module: Any, doc: str) -> Model:
    name = module.__name__.rpartition(".")[2]
    return Model(name, doc, module.INPUT_SHAPE, module.OUTPUTS, module.LAYERS, module.build)


_MODELS = (
    _model(
        lenet5,
        "LeNet-5 as BML trained it: two convolutions, two fully connected layers, 3,274,634 parameters (12.5 MiB)",
    ),
    _model(resnet8, "ResNet-8 with group normalisation (He et al. 2016, section 4.2, n = 1), 77,562 parameters"),
    _model(bert_tiny, "BERT-Tiny that predicts masked words (Turc et al. 2019), 664,064 parameters"),
    _model(
        dlrm_tiny,
        "DLRM of eight embedding tables that predicts clicks (TopoOpt 2023, section 2.2), 2,909,282 parameters",
    ),
    _model(
        candle_tiny,
        "CANDLE of two towers that predicts responses to drugs (TopoOpt 2023, section 2.2), 280,322 parameters",
    ),
)
MODELS: dict[str, Model] = {model.name: model for model in _MODELS}


def model(name: str) -> Model:
    """Return the model called ``name``.

    Raises:
        SpecError: no such model.
    """
    return lookup("model", name, MODELS)
