"""A user's model and data, prepared for trials: facts about them, and the files that workers need.

Files are held open without a name, or in memory, so that the kernel frees them however this process ends.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from testbed.base.errors import MissingToolError, SpecError
from testbed.base.python import module_command
from testbed.topologies.load import check_open
from testbed.workloads.models import Layer
from testbed.workloads.own import is_own_data, is_own_model

LONGEST_S = 600.0
"""Time (s) for which a user's code may load, far above what reading CIFAR-10 takes (4 s)."""
SMALL_BYTES = 1 << 20
"""Size up to which files are held in memory, for a process may have few files open."""
MOST_BATCH = 64
"""Limit on the samples with which a model is tried."""
FACTS = "facts.json"


class OwnError(SpecError):
    """Error about a user's model or data that cannot be used; ``key`` says which of the two."""

    key = "model"


@dataclass(frozen=True, eq=False)
class Prepared:
    """The user's model and data as a trial needs them.

    Attributes:
        layers: as :attr:`testbed.workloads.models.Model.layers`.
        inputs: digests of what it was made from, by name.
        digest: of all of that.
        files: contents by relative name, as bytes or as the descriptor of an open file; the first is :data:`FACTS`.
    """

    layers: tuple[Layer, ...]
    inputs: Mapping[str, str]
    digest: str
    files: Mapping[str, bytes | int]

    def __reduce__(self) -> tuple[Callable[..., Prepared], tuple[Any, ...]]:
        """Pickle the contents of the files that are open."""
        files = {name: one if isinstance(one, bytes) else _content(one) for name, one in self.files.items()}
        return _held, (self.layers, dict(self.inputs), self.digest, files)

    @property
    def nbytes(self) -> int:
        """Bytes of its files."""
        return sum(len(one) if isinstance(one, bytes) else os.fstat(one).st_size for one in self.files.values())

    def sizes(self) -> list[list[int]]:
        """Return the floats of each tensor, by layer, in the order in which gradients become ready."""
        return [[prod(shape) for _, shape in layer] for layer in reversed(self.layers)]

    def names(self, folder: Path) -> tuple[str, ...]:
        """Return paths of its files once they are placed in ``folder``."""
        return tuple(str(folder / name) for name in self.files)

    def place(self, folder: Path) -> None:
        """Write its files into ``folder``, which is made.

        Raises:
            OSError: the system refuses.
        """
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                if isinstance(content, bytes):
                    file.write(content)
                else:
                    _copy(content, file.fileno())


def _held(layers: tuple[Layer, ...], inputs: Mapping[str, str], digest: str, files: Mapping[str, bytes]) -> Prepared:
    """The same in another process: large files without a name."""
    return _closing(Prepared(layers, inputs, digest, {name: _kept(content) for name, content in files.items()}))


def _kept(content: bytes) -> bytes | int:
    if len(content) <= SMALL_BYTES:
        return content
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()
        return os.dup(file.fileno())


def _content(descriptor: int) -> bytes:
    """All bytes of an open file."""
    return Path(f"/proc/self/fd/{descriptor}").read_bytes()  # from its beginning, wherever the descriptor is


def _closing(made: Prepared) -> Prepared:
    """Close its files when nobody has it any more."""
    for content in made.files.values():
        if isinstance(content, int):
            weakref.finalize(made, os.close, content)
    return made


def _copy(source: int, target: int) -> None:
    at, size = 0, os.fstat(source).st_size
    while at < size:
        at += os.sendfile(target, source, at, size - at)


def prepare(folder: Path, model: str, dataset: str | None, seed: int, batch: int = 2) -> Prepared:
    """Run the user's code in a process of its own, see :mod:`testbed.workloads.own.prepare`. Paths start from
    ``folder``.

    Raises:
        OwnError: the user's model or data cannot be used.
        MissingToolError: a package that they need is not installed.
    """
    for name in (model, dataset or ""):
        if is_own_model(name) or is_own_data(name):
            check_open(name, SpecError)
    with tempfile.TemporaryDirectory(prefix="testbed-") as into:
        question = {
            "folder": str(folder.absolute()),
            "into": into,
            "model": model,
            "dataset": dataset,
            "seed": seed,
            "batch": min(batch, MOST_BATCH),
        }
        ask("testbed.workloads.own.prepare", json.dumps(question), f"model {model!r} and its dataset")
        _raise_if_told(Path(into) / "error.json")
        return _read(Path(into))


def ask(module: str, question: str, what: str) -> None:
    """Have a process of its own run a module, which may run a user's code, and wait for its end. It reads ``question``
    on its standard input; ``what`` names its result, for errors.

    Raises:
        OwnError: the process came to no end of its own.
    """
    command = module_command(module, str(os.getpid()))
    # A group of its own, so that Ctrl-C at a terminal reaches only the harness, which ends it and what it has started.
    process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, process_group=0, stdout=2)
    try:
        process.communicate(question, timeout=LONGEST_S)
    except BaseException as error:
        with suppress(ProcessLookupError):  # it has just ended, and left nobody
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        raise OwnError(
            f"{what} were not there after {LONGEST_S:g} s",
            fix="have them load faster: data that is computed belongs in a file",
        ) from None
    if process.returncode:
        raise OwnError(
            f"the process that makes {what} ended with status {process.returncode}",
            fix="see its output above; a status of -9 may mean that memory ran out",
        )


def _raise_if_told(path: Path) -> None:
    """Raise the OwnError or MissingToolError that is told in ``path``, if it is there."""
    if not path.exists():
        return
    told = json.loads(path.read_text())
    if told["missing"]:
        raise MissingToolError(told["problem"], fix=told["fix"])
    error = OwnError(told["problem"], fix=told["fix"])
    error.key = told["key"]
    raise error


def _read(into: Path) -> Prepared:
    facts = json.loads((into / FACTS).read_text())
    paths = sorted(path for path in into.rglob("*") if path.is_file())
    files: dict[str, bytes | int] = {FACTS: (into / FACTS).read_bytes()}
    for path in paths:
        small = path.stat().st_size <= SMALL_BYTES
        files[path.relative_to(into).as_posix()] = (
            path.read_bytes() if small else os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        )
    layers = tuple(tuple((name, tuple(shape)) for name, shape in layer) for layer in facts["layers"])
    return _closing(Prepared(layers, facts["inputs"], facts["digest"], files))
