"""Trial of a model with samples: whether they fit each other, and whether a process can repeat what workers compute."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from testbed.base.errors import SpecError
from testbed.topologies.call import parse
from testbed.topologies.load import users_code
from testbed.workloads.data.datasets import Dataset
from testbed.workloads.own import is_own_data
from testbed.workloads.own.data import Samples, form
from testbed.workloads.own.modules import EXAMPLE

SEEDS = (1, 2)


def tried(text: str, model: nn.Module, dataset: str, samples: Samples, size: int) -> tuple[int, bool]:
    """Return how many classes a model tells apart, and whether chance is in its gradient. ``text`` and ``dataset`` are
    as the spec has them, and ``size`` is how many samples the model must take at once.

    Raises:
        SpecError: model and samples do not fit each other, or gradients are not such as can be repeated.
    """
    name = parse(text, EXAMPLE).name
    data = Dataset("", samples.inputs, samples.labels, 0, samples.train, samples.test)
    batch, others = data.select(samples.train[:size]), data.select(samples.train[-size:])
    model.train()
    outputs = _outputs(name, model, dataset, *batch)
    lowest, highest = _range(samples.labels, dataset)
    if lowest < 0 or highest >= outputs:
        raise SpecError(
            f"labels of {dataset} are {lowest} to {highest}, and {name} has {outputs} outputs",
            fix="number classes from 0 on, or give the model as many outputs as there are classes",
        )
    first = _gradient(name, model, batch, SEEDS[0])
    _gradient(name, model, others, SEEDS[0])
    if not torch.equal(first, _gradient(name, model, batch, SEEDS[0])):
        raise SpecError(
            f"{name} gives different gradients for the same samples and the same weights",
            fix="draw random numbers with PyTorch's generator, and keep no state that changes the next forward pass",
        )
    return outputs, not torch.equal(first, _gradient(name, model, batch, SEEDS[1]))


def _outputs(name: str, model: nn.Module, dataset: str, inputs: Tensor, labels: Tensor) -> int:
    """Count the classes that the model tells apart.

    Raises:
        SpecError: it cannot take the samples, or gives something else than scores.
    """
    problem = f"{name} fails on samples of {dataset}, {form(inputs)}"
    with users_code(problem, SpecError, fix="name a model and a dataset that fit each other, or mend that line"):
        scores = model(inputs)
    if isinstance(scores, Tensor) and scores.dtype == torch.float32 and scores.ndim == labels.ndim + 1:
        size, outputs, *places = scores.shape
        if outputs and (size, *places) == labels.shape:
            return outputs
    wanted = ", ".join(map(str, [len(labels), "classes", *labels.shape[1:]]))
    raise SpecError(
        f"{name} gives {form(scores)} for labels {form(labels)} of {dataset}",
        fix=f"have it return scores, float32[{wanted}]",
    )


def _range(labels: Tensor, dataset: str) -> tuple[int, int]:
    """Return the lowest and the highest label, without those with which our own data sets mark positions that have
    none."""
    known = labels if is_own_data(dataset) else labels[labels >= 0]
    return int(known.min()), int(known.max())


def _gradient(name: str, model: nn.Module, batch: tuple[Tensor, Tensor], seed: int) -> Tensor:
    """Compute the gradient of the mean loss, in one dimension.

    Raises:
        SpecError: a parameter has none, or it is no number.
    """
    model.zero_grad()
    torch.manual_seed(seed)
    with users_code(f"{name} fails", SpecError):
        cross_entropy(model(batch[0]), batch[1]).backward()  # type: ignore[no-untyped-call]
    trained = {key: one for key, one in model.named_parameters() if one.requires_grad}
    unused = [key for key, one in trained.items() if one.grad is None]
    if unused:
        raise SpecError(
            f"{name} does not use its parameter {unused[0]}, so that it gets no gradient",
            fix="use it in forward, remove it, or set its requires_grad to False",
        )
    gradient = torch.cat([one.grad.flatten().clone() for one in trained.values() if one.grad is not None])
    if not torch.isfinite(gradient).all():
        raise SpecError(
            f"the first gradient of {name} is not all finite numbers", fix="see its initial weights and its loss"
        )
    return gradient
