"""A user's model and data where they are trained: workers load the files that :mod:`testbed.workloads.own.prepare`
left."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from testbed.topologies.call import parse
from testbed.workloads.job import Training
from testbed.workloads.models import Model

if TYPE_CHECKING:
    from torch import nn

    from testbed.workloads.data.datasets import Dataset


def _folder(training: Training) -> Path:
    return Path(training.own[0]).parent


def facts(training: Training) -> dict[str, Any]:
    """Load the facts that are known of the model and data."""
    found: dict[str, Any] = json.loads(Path(training.own[0]).read_text())
    return found


def network(training: Training) -> Model:
    """Load the user's model; its ``build`` makes the module with everything that is not trained in place."""
    known = facts(training)
    layers = tuple(tuple((name, tuple(shape)) for name, shape in layer) for layer in known["layers"])
    shape = tuple(known["input_shape"])
    return Model(training.model, "", shape, known["outputs"], layers, lambda: _built(training))


def _built(training: Training) -> nn.Module:
    import torch

    from testbed.workloads.own.modules import EXAMPLE, built

    folder, call = _folder(training), parse(training.model, EXAMPLE)
    path, colon, name = call.name.rpartition(":")
    if colon:
        call = replace(call, name=f"{folder / 'code' / Path(path).name}:{name}")
    module, _ = built(call, training.seed)
    module.load_state_dict(torch.load(folder / "state.pt", weights_only=True), strict=False)
    return module


def weights(training: Training) -> NDArray[np.float32]:
    """Load the initial weights of the user's model, float32[parameters] in gradient order."""
    found: NDArray[np.float32] = np.load(_folder(training) / "weights.npy")
    return found


def dataset(training: Training) -> Dataset:
    """Load the user's samples; all processes of a machine that use the same file share its memory."""
    import torch

    from testbed.workloads.data.datasets import Dataset

    folder = _folder(training)
    # Copied where it is written to: nobody does so, but PyTorch has no tensors that are read-only.
    inputs, labels = (torch.from_numpy(np.load(folder / f"{name}.npy", "c")) for name in ("inputs", "labels"))
    train, test = (np.load(folder / f"{name}.npy") for name in ("train", "test"))
    return Dataset(training.dataset, inputs, labels, facts(training)["outputs"], train, test)
