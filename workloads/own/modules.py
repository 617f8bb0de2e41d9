"""Calls into a user's own files, a user's own module, and those of its tensors that are trained."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import numpy as np
import torch
from torch import nn

from testbed.base.errors import MissingToolError, SpecError
from testbed.base.extras import install
from testbed.topologies.call import Call
from testbed.topologies.load import is_in_file, is_users, load_function, users_code
from testbed.topologies.parameters import bind, did_you_mean, parameters_of
from testbed.workloads.models import Layer
from testbed.workloads.own import TORCHVISION


def called(call: Call, function: Callable[..., object]) -> object:
    """Call ``function`` with the arguments of an expression, and return its result.

    Raises:
        SpecError: it takes others, or fails.
    """
    try:
        parameters = parameters_of(function, 0)
    except (TypeError, ValueError, NameError) as problem:
        raise SpecError(
            f"the signature of {call.name} cannot be used: {problem}", fix="give it named parameters"
        ) from None
    arguments = bind(call.name, parameters, call.arguments, SpecError)
    with users_code(f"{call.name} fails", SpecError):
        return function(**arguments)


@contextmanager
def siblings(call: Call) -> Iterator[set[Path]]:
    """Let a user's file import files beside it, gather their paths, and forget them afterwards, for files of other
    folders may have the same names."""
    files: set[Path] = set()
    if not is_in_file(call.name):
        yield files
        return
    path = Path(call.name.rpartition(":")[0])
    folder = path.absolute().parent
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        yield files
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if file and Path(file).is_relative_to(folder) and is_users(file):
                files.add(Path(file).relative_to(folder))
                del sys.modules[name]
        files.add(Path(path.name))


EXAMPLE = "./net.py:Net or ./net.py:Net(classes=10)"


def seeded(seed: int) -> None:
    """Have everything that draws by chance draw the same again."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def built(call: Call, seed: int) -> tuple[nn.Module, set[Path]]:
    """Make the module of a call, and list the Python files that it is made from, relative to the folder of the first.
    Chance in its initial weights is drawn from ``seed``.

    Raises:
        SpecError: it cannot be made, or is no module.
        MissingToolError: it is torchvision's, which is not installed, or not for this PyTorch.
    """
    seeded(seed)
    with siblings(call) as files:
        made = called(call, load_function(call.name, SpecError)) if is_in_file(call.name) else _of_torchvision(call)
    if not isinstance(made, nn.Module):
        raise SpecError(
            f"{call.name} gives {type(made).__name__}, not a torch.nn.Module",
            fix="name a class that is a torch.nn.Module, or a function that returns one",
        )
    return made, files


def _of_torchvision(call: Call) -> object:
    try:
        models = import_module("torchvision.models")
    except ImportError:
        raise MissingToolError(
            f"model {call.name!r} is part of torchvision, which is not installed", fix=install("vision")
        ) from None
    except RuntimeError as error:  # its compiled part was made for another PyTorch
        raise MissingToolError(
            f"torchvision cannot be imported beside torch {torch.__version__}: {error}",
            fix="install the build of torchvision that was made for this version and build of torch",
        ) from None
    name = call.name.removeprefix(TORCHVISION)
    known = list(models.list_models())
    if name not in known:
        raise SpecError(
            f"torchvision has no model {name!r}{did_you_mean(name, known)}", fix="see torchvision.models.list_models()"
        )
    if {"weights", "weights_backbone"} & call.arguments.keys():
        raise SpecError(
            f"{call} takes trained weights, which workers would download, and they have no network",
            fix="leave the weights out: training begins with the model's own initial weights",
        )
    with users_code(f"{call} fails", SpecError, fix="give it arguments that torchvision's function of that name takes"):
        return models.get_model(name, weights=None, **call.arguments)


def trained_tensors(module: nn.Module, layers: tuple[Layer, ...]) -> dict[str, nn.Parameter]:
    """Return the parameters that are trained, by name, in gradient order."""
    known = dict(module.named_parameters())
    return {name: known[name] for layer in reversed(layers) for name, _ in layer}
