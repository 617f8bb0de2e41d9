"""The process that runs a user's model and data once, checks them and whether they fit each other, and leaves files of
them.

Usage: ``python -P -m testbed.workloads.own.prepare PARENT``, with a question (:class:`Question`) on its standard input.
It writes into the folder that the question names: ``facts.json``, or ``error.json`` after a mistake of the user's.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parameter import UninitializedParameter

from testbed.base.errors import MissingToolError, SpecError
from testbed.topologies.call import parse
from testbed.topologies.load import users_code
from testbed.workloads import models
from testbed.workloads.data import datasets
from testbed.workloads.data.datasets import Dataset
from testbed.workloads.models import Layer
from testbed.workloads.own import is_own_data, is_own_model
from testbed.workloads.own.data import Samples, form, loaded
from testbed.workloads.own.modules import EXAMPLE, built, seeded, trained_tensors
from testbed.workloads.process.lifeline import end_with

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
    """Count the classes that the model tells apart. Raises SpecError: it takes no such samples, or gives no scores."""
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
    """Return the lowest and the highest label; our own data sets mark positions without one as below 0."""
    known = labels if is_own_data(dataset) else labels[labels >= 0]
    return int(known.min()), int(known.max())


def _gradient(name: str, model: nn.Module, batch: tuple[Tensor, Tensor], seed: int) -> Tensor:
    """Compute the gradient of the mean loss, flat. Raises SpecError: a parameter has none, or it is no number."""
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


DIGITS = 16
"""Hexadecimal digits of each digest, as of other files that a trial depends on."""


@dataclass(frozen=True)
class Question:
    """Description of the model and data that are to be prepared.

    Attributes:
        folder: the spec's, from which the user's paths start.
        into: where the files are to be, absolute.
        model, dataset: as the spec has them; without a ``dataset`` only the model's layers are found.
        seed: from which chance is drawn.
        batch: samples that the model must take at once.
    """

    folder: str
    into: str
    model: str
    dataset: str | None
    seed: int
    batch: int


def main(parent: int) -> None:
    """Answer the question, and end."""
    if not end_with(parent):
        return
    question = Question(**json.load(sys.stdin))
    torch.set_num_threads(1)  # as workers do: whether a gradient is the same twice must not depend on threads
    os.chdir(question.folder)
    answer(question)


def answer(question: Question) -> None:
    """Write the facts about the model and data, or the user's mistake in them, and which key of the workload it is
    about."""
    into = Path(question.into)
    inputs: dict[str, str] = {}
    outputs, random = 0, False
    shape: tuple[int, ...] = ()
    key = "model"
    try:
        model, layers = _model(question, into, inputs)
        if question.dataset is not None:
            key = "dataset"
            samples = _samples(question, into, inputs)
            key = "model"
            outputs, random = tried(question.model, model, question.dataset, samples, question.batch)
            shape = tuple(samples.inputs.shape[1:])
    except (SpecError, MissingToolError) as error:
        told = {"key": key, "problem": error.problem, "fix": error.fix, "missing": isinstance(error, MissingToolError)}
        (into / "error.json").write_text(json.dumps(told))
        return
    digest = hashlib.sha256(json.dumps([question.model, question.dataset, question.seed, inputs]).encode()).hexdigest()
    facts = {
        "model": question.model,
        "layers": layers,
        "outputs": outputs,
        "input_shape": shape,
        "random": random,
        "inputs": inputs,
        "digest": digest,
    }
    (into / "facts.json").write_text(json.dumps(facts))


def _model(question: Question, into: Path, inputs: dict[str, str]) -> tuple[nn.Module, tuple[Layer, ...]]:
    """Load the module and its layers; for a user's own, write its files."""
    text = question.model
    if not is_own_model(text):
        known = models.model(text)
        seeded(question.seed)
        return known.build(), known.layers
    call = parse(text, EXAMPLE)
    module, files = built(call, question.seed)
    name = call.name
    layers = layers_of(name, module)
    weights = [tensor.detach().flatten() for tensor in trained_tensors(module, layers).values()]
    _save(into, "weights.npy", torch.cat(weights))
    state = {key: one for key, one in module.state_dict().items() if isinstance(one, Tensor)}
    kept = {key: one for key, one in state.items() if key not in trained_tensors(module, layers)}
    torch.save(kept, into / "state.pt")
    inputs[f"{text}, initial weights"] = _digest([*weights, *kept.values()])
    folder = Path(name.rpartition(":")[0]).parent
    for file in sorted(files):
        content = (folder / file).read_bytes()
        (into / "code" / file).parent.mkdir(parents=True, exist_ok=True)
        (into / "code" / file).write_bytes(content)
        inputs[os.path.normpath(folder / file)] = hashlib.sha256(content).hexdigest()[:DIGITS]
    return module, layers


def layers_of(name: str, module: nn.Module) -> tuple[Layer, ...]:
    """Return the layers of a module: the tensors that are trained, by the part that holds them, in the order of
    registration.

    A tensor that several parts share belongs to the first. PyTorch's DDP takes this order for that of the forward pass
    as well.

    Raises:
        SpecError: nothing is trained, or something that cannot be sent as float32.
    """
    found: dict[str, list[tuple[str, tuple[int, ...]]]] = {}
    for key, parameter in module.named_parameters():
        if isinstance(parameter, UninitializedParameter):
            raise SpecError(
                f"{name} has a parameter {key} without a shape", fix="give its layer all sizes: no lazy modules"
            )
        if not parameter.requires_grad:
            continue
        if parameter.dtype != torch.float32 or parameter.device.type != "cpu":
            raise SpecError(
                f"{name} has a parameter {key} of {parameter.dtype} on {parameter.device}",
                fix="leave parameters at float32 and on the CPU; workers move them to a GPU where there is one",
            )
        found.setdefault(key.rpartition(".")[0], []).append((key, tuple(parameter.shape)))
    if not found:
        raise SpecError(f"{name} has no parameters to train", fix="name a module that has some which require gradients")
    return tuple(tuple(layer) for layer in found.values())


def _samples(question: Question, into: Path, inputs: dict[str, str]) -> Samples:
    """Load the samples; for a user's own, write their files."""
    assert question.dataset is not None
    if not is_own_data(question.dataset):
        known = datasets.load(question.dataset, question.seed)
        return Samples(known.images, known.labels, known.train, known.test)
    samples = loaded(question.dataset, question.seed)
    for name in ("inputs", "labels", "train", "test"):
        _save(into, f"{name}.npy", getattr(samples, name))
    train, test = torch.from_numpy(samples.train), torch.from_numpy(samples.test)
    inputs[f"{question.dataset}, samples"] = _digest([samples.inputs, samples.labels, train, test])
    return samples


def _digest(tensors: Iterable[Tensor]) -> str:
    """Compute the digest of types, shapes and values."""
    digest = hashlib.sha256()
    for one in tensors:
        digest.update(form(one).encode())
        digest.update(one.detach().flatten().contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()[:DIGITS]


def _save(into: Path, name: str, values: Tensor | NDArray[np.int64]) -> None:
    """Save values. Raises SpecError: there is no room for them."""
    try:
        np.save(into / name, values.numpy() if isinstance(values, Tensor) else values)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SpecError(
            f"{name} cannot be written to {into.parent}: {reason}",
            fix="free some space there, or set TMPDIR to a larger folder",
        ) from None


if __name__ == "__main__":
    main(int(sys.argv[1]))
