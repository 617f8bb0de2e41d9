"""Every model that an experiment can name: those that can be trained, and those that are played back."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path

from testbed.base.errors import SpecError
from testbed.workloads.data.datasets import DATASETS
from testbed.workloads.models import MODELS, Layer
from testbed.workloads.own import is_own_model
from testbed.workloads.own.prepared import prepare
from testbed.workloads.played import played
from testbed.workloads.registry import lookup

TRAINED_ON = {
    "lenet5": ("digits",),
    "resnet8": ("digits",),
    "bert_tiny": ("python_reference",),
    "dlrm_tiny": ("clicks",),
    "candle_tiny": ("responses",),
}
"""The data sets on which each model can be trained."""


@dataclass(frozen=True)
class Entry:
    """A model as ``testbed models`` lists it; ``bytes`` are those of its gradient, in float32."""

    name: str
    doc: str
    parameters: int
    bytes: int
    layers: int
    tensors: int
    datasets: tuple[str, ...]
    """Data sets on which it can be trained; empty for a model that cannot."""
    can_be_played: bool
    times_s: dict[int, float]
    """Published times of a forward and backward pass, by batch."""


def models() -> list[Entry]:
    """List all models: those that can be trained first."""
    known = played()
    names = dict.fromkeys([*MODELS, *known])
    return [entry(name) for name in names]


def check_dataset(dataset: str, model: str) -> None:
    """Raise SpecError if there is no such data set, or the model cannot be trained on it."""
    lookup("dataset", dataset, DATASETS)
    if dataset not in TRAINED_ON.get(model, (dataset,)):
        others = [name for name in MODELS if dataset in TRAINED_ON[name]]
        raise SpecError(
            f"model {model!r} cannot be trained on {dataset!r}",
            fix=f"take dataset {' or '.join(TRAINED_ON[model])}, or model {' or '.join(others)}",
        )


def tensor_sizes(name: str) -> list[tuple[str, int]]:
    """Return name and number of floats of each tensor of a model, in gradient order; a user's own is built.

    Raises:
        SpecError: no such model.
    """
    return [(tensor, prod(shape)) for layer in reversed(_layers(name)) for tensor, shape in layer]


def _layers(name: str) -> list[Layer]:
    if is_own_model(name):
        return list(prepare(Path(), name, None, seed=1).layers)
    lookup("model", name, dict.fromkeys([*MODELS, *played()]))
    if name in MODELS:
        return list(MODELS[name].layers)
    return [layer.tensors for layer in played()[name].layers]


def entry(name: str) -> Entry:
    """Return the entry of a model, or of a user's own, which is :func:`built <testbed.workloads.own.prepared.prepare>`.

    Raises:
        SpecError: no such model.
    """
    layers, found = _layers(name), played().get(name)
    sizes = [prod(shape) for layer in layers for _, shape in layer]
    doc = "your own" if is_own_model(name) else MODELS[name].doc if found is None else found.doc
    times_s = found.times_s if found else {}
    datasets = TRAINED_ON.get(name, ())
    return Entry(name, doc, sum(sizes), 4 * sum(sizes), len(layers), len(sizes), datasets, found is not None, times_s)
