"""The process that runs a user's model and data once, checks them, and leaves files of them.

Usage: ``python -m workloads.own.prepare PARENT``, with a question (:class:`Question`) on its standard input. It writes
into the folder that the question names: ``facts.json``, or ``error.json`` after a mistake of the user's.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parameter import UninitializedParameter

from testbed.base.errors import MissingToolError, SpecError
from topologies.call import parse
from workloads import datasets, models
from workloads.models import Layer
from workloads.own import is_own_data, is_own_model
from workloads.own.code import running
from workloads.own.data import Samples, loaded
from workloads.own.modules import EXAMPLE, built, seeded, trained_tensors

_PR_SET_PDEATHSIG = 1
DIGITS = 16
"""Of each digest, in hexadecimal, as of other files that a trial depends on."""
SEEDS = (1, 2)


@dataclass(frozen=True)
class Question:
    """What is to be prepared.

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
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return  # it died before the line above could tie us to it
    question = Question(**json.load(sys.stdin))
    torch.set_num_threads(1)  # as workers do: whether a gradient is the same twice must not depend on threads
    os.chdir(question.folder)
    answer(question)


class _Told(Exception):  # noqa: N818 - what is wrong is in a file
    """A mistake of the user's was written down."""


class _About:
    """Writes down a mistake of the user's, and which key of the workload it is about."""

    def __init__(self, question: Question, key: str) -> None:
        self._path, self._key = Path(question.into) / "error.json", key

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, SpecError | MissingToolError):
            missing = isinstance(error, MissingToolError)
            told = {"key": self._key, "problem": error.problem, "fix": error.fix, "missing": missing}
            self._path.write_text(json.dumps(told))
            raise _Told from error


def answer(question: Question) -> None:
    """Write what is known of the model and data, or what is wrong with them. Paths start from the working directory."""
    with suppress(_Told):
        _prepare(question)


def _prepare(question: Question) -> None:
    into = Path(question.into)
    inputs: dict[str, str] = {}
    with _About(question, "model"):
        model, layers = _model(question, into, inputs)
    outputs, random = 0, False
    shape: tuple[int, ...] = ()
    if question.dataset is not None:
        with _About(question, "dataset"):
            samples = _samples(question, into, inputs)
        with _About(question, "model"):
            outputs, random = _checked(question, model, samples)
        shape = tuple(samples.inputs.shape[1:])
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
    """The module and its layers; of one of the user's, its files are written."""
    text = question.model
    if not is_own_model(text):
        known = models.model(text)
        seeded(question.seed)
        return known.build(), known.layers
    module, files = built(text, question.seed)
    name = parse(text, EXAMPLE).name
    layers = layers_of(name, module)
    weights = [tensor.detach().flatten() for tensor in trained_tensors(module, layers).values()]
    _save(into, "weights.npy", torch.cat(weights))
    kept = {key: one for key, one in module.state_dict().items() if key not in trained_tensors(module, layers)}
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
    """The layers of a module: the tensors that are trained, by the part that holds them, in the order of registration.

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
    """The samples; of the user's own, files are written."""
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


def _checked(question: Question, model: nn.Module, samples: Samples) -> tuple[int, bool]:
    """How many classes the model tells apart, and whether chance is in its gradient.

    Raises:
        SpecError: model and samples do not fit each other, or gradients are not such as can be repeated.
    """
    name = parse(question.model, EXAMPLE).name
    data = datasets.Dataset("", samples.inputs, samples.labels, 0, samples.train, samples.test)
    size = min(question.batch, len(samples.train))
    batch, others = data.select(samples.train[:size]), data.select(samples.train[-size:])
    model.train()
    outputs = _outputs(question, model, *batch)
    lowest, highest = _range(samples.labels, question)
    if lowest < 0 or highest >= outputs:
        raise SpecError(
            f"labels of {question.dataset} are {lowest} to {highest}, and {name} has {outputs} outputs",
            fix="number classes from 0 on, or give the model as many outputs as there are classes",
        )
    first = _gradient(name, model, batch, SEEDS[0])
    _gradient(name, model, others, SEEDS[0])
    if not torch.equal(first, _gradient(name, model, batch, SEEDS[0])):
        raise SpecError(
            f"{name} has another gradient when the same samples come again, with the same weights",
            fix="draw chance with PyTorch's own generator, and keep nothing that changes the next forward pass",
        )
    return outputs, not torch.equal(first, _gradient(name, model, batch, SEEDS[1]))


def _outputs(question: Question, model: nn.Module, inputs: Tensor, labels: Tensor) -> int:
    """Classes that the model tells apart.

    Raises:
        SpecError: it cannot take the samples, or gives something else than scores.
    """
    name = parse(question.model, EXAMPLE).name
    problem = f"{name} fails on samples of {question.dataset}, {_form(inputs)}"
    with running(problem, fix="name a model and a dataset that fit each other, or mend that line"):
        scores = model(inputs)
    if isinstance(scores, Tensor) and scores.dtype == torch.float32 and scores.ndim == labels.ndim + 1:
        size, outputs, *places = scores.shape
        if outputs and (size, *places) == labels.shape:
            return outputs
    wanted = ", ".join(map(str, [len(labels), "classes", *labels.shape[1:]]))
    raise SpecError(
        f"{name} gives {_form(scores)} for labels {_form(labels)} of {question.dataset}",
        fix=f"have it return scores, float32[{wanted}]",
    )


def _range(labels: Tensor, question: Question) -> tuple[int, int]:
    """The lowest and the highest label; ours also mark what has none."""
    assert question.dataset is not None
    known = labels if is_own_data(question.dataset) else labels[labels >= 0]
    return int(known.min()), int(known.max())


def _gradient(name: str, model: nn.Module, batch: tuple[Tensor, Tensor], seed: int) -> Tensor:
    """Of the mean loss, in one dimension.

    Raises:
        SpecError: a parameter has none, or it is no number.
    """
    model.zero_grad()
    torch.manual_seed(seed)
    with running(f"{name} fails"):
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


def _form(one: object) -> str:
    """``float32[16, 3, 32, 32]``."""
    if not isinstance(one, Tensor):
        return type(one).__name__
    return f"{str(one.dtype).removeprefix('torch.')}{list(one.shape)}"


def _digest(tensors: Iterable[Tensor]) -> str:
    """Of types, shapes and values."""
    digest = hashlib.sha256()
    for one in tensors:
        digest.update(_form(one).encode())
        digest.update(np.ascontiguousarray(one.detach().numpy()).data)
    return digest.hexdigest()[:DIGITS]


def _save(into: Path, name: str, values: Tensor | NDArray[np.int64]) -> None:
    np.save(into / name, values.numpy() if isinstance(values, Tensor) else values)


if __name__ == "__main__":
    main(int(sys.argv[1]))
