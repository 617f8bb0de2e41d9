"""MNIST and CIFAR-10 from the files in which they are published.

MNIST: four IDX files (LeCun et al.), also gzipped; Fashion-MNIST and KMNIST have the same form. CIFAR-10: Krizhevsky's
binary version, or the one for Python. That one holds pickles, which can name any code: here they are read without
running any, by stand-ins for the four names of NumPy that the published files have.
"""

from __future__ import annotations

import gzip
import io
import pickle
import pickletools
import struct
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import SpecError

Bytes = NDArray[np.uint8]
Four = tuple[Bytes, Bytes, Bytes, Bytes]
"""Images and labels for training, then for the test."""

IDX = ("train-images", "train-labels", "t10k-images", "t10k-labels")
CIFAR10_TRAIN, CIFAR10_TEST = tuple(f"data_batch_{i}" for i in range(1, 6)), "test_batch"
CIFAR10_SHAPE = (3, 32, 32)
MOST_BYTES = 1 << 30
"""Limit on the bytes of one file, unpacked: the largest of these data sets has 47 MB in one."""


def mnist(path: str) -> Four:
    """Read the images (uint8[n, 1, 28, 28]) and labels (uint8[n]) in a folder of IDX files.

    Raises:
        SpecError: a file is missing, or is none.
    """
    images, labels, test_images, test_labels = (_idx(_idx_file(Path(path), part), part) for part in IDX)
    return images[:, None], labels, test_images[:, None], test_labels


def _idx_file(folder: Path, part: str) -> Path:
    dimensions = 3 if part.endswith("images") else 1
    names = [f"{part}{mark}idx{dimensions}-ubyte{end}" for mark in "-." for end in ("", ".gz")]
    return _one_of(folder, names, "the four files of MNIST")


def _idx(path: Path, part: str) -> Bytes:
    content = _content(path)
    dimensions = 3 if part.endswith("images") else 1
    header = struct.Struct(f">{1 + dimensions}I")
    if len(content) < header.size:
        raise _unfit(path, f"has {len(content):,} bytes")
    magic, *shape = header.unpack_from(content)
    if magic != 0x800 + dimensions:
        raise _unfit(path, f"does not begin as an IDX file of {dimensions} dimension{'s' * (dimensions > 1)}")
    if len(content) != header.size + prod(shape):
        raise _unfit(path, f"has {len(content) - header.size:,} bytes of the {prod(shape):,} that it announces")
    return np.frombuffer(content, np.uint8, offset=header.size).reshape(shape)


def cifar10(path: str) -> Four:
    """Read the images (uint8[n, 3, 32, 32]) and labels (uint8[n]) in ``cifar-10-batches-bin`` or
    ``cifar-10-batches-py``.

    Raises:
        SpecError: a file is missing, or is none.
    """
    parts = [_cifar10_batch(_cifar10_file(Path(path), name)) for name in (*CIFAR10_TRAIN, CIFAR10_TEST)]
    images, labels = (np.concatenate([part[i] for part in parts[:-1]]) for i in (0, 1))
    return images, labels, *parts[-1]


def _cifar10_file(folder: Path, name: str) -> Path:
    return _one_of(folder, [f"{name}.bin", name], "the five training batches and the test batch of CIFAR-10")


def _cifar10_batch(path: Path) -> tuple[Bytes, Bytes]:
    content, size = _content(path), prod(CIFAR10_SHAPE)
    if path.suffix == ".bin":
        if len(content) % (1 + size):
            raise _unfit(path, f"has {len(content):,} bytes, which is no multiple of {1 + size:,}")
        rows = np.frombuffer(content, np.uint8).reshape(-1, 1 + size)
        return rows[:, 1:].reshape(-1, *CIFAR10_SHAPE), rows[:, 0]
    images, labels = _unpickled(path, content)
    if images.shape != (len(labels), size):
        raise _unfit(path, f"has {len(labels):,} labels, and data of the shape {images.shape}")
    return images.reshape(-1, *CIFAR10_SHAPE), labels


def _unpickled(path: Path, content: bytes) -> tuple[Bytes, Bytes]:
    """Read ``data`` and ``labels`` of a pickled batch."""
    try:
        _check_memo(content)
        batch = _Reader(io.BytesIO(content), encoding="bytes").load()
        return batch[b"data"].array(), np.array(batch[b"labels"], np.uint8)
    except SpecError as error:
        raise _unfit(path, error.problem) from None
    except Exception as error:  # whatever a broken pickle leads to
        raise _unfit(path, f"is not as the published ones are ({type(error).__name__}: {error!s:.100})") from None


def _check_memo(content: bytes) -> None:
    """Raise SpecError if it wants a place in the memo that would take gigabytes."""
    for opcode, argument, _ in pickletools.genops(content):
        if "PUT" in opcode.name and isinstance(argument, int) and argument > len(content):
            raise SpecError(f"it names place {argument} of a memo that cannot have as many")


class _Array:
    """Stand-in for an array of NumPy's in a pickle."""

    def __init__(self, *_arguments: object) -> None:
        self._state: Sequence[Any] = ()

    def __setstate__(self, state: Sequence[Any]) -> None:
        self._state = state

    def array(self) -> Bytes:
        _version, shape, kind, by_columns, content = self._state
        if not isinstance(kind, _Kind) or kind.code != b"u1":
            raise SpecError("its data is not bytes")
        array = np.frombuffer(content, np.uint8)
        return array.reshape(shape, order="F" if by_columns else "C")


class _Kind:
    """Stand-in for a type of NumPy's in a pickle."""

    def __init__(self, code: object, *_arguments: object) -> None:
        self.code = code.encode() if isinstance(code, str) else code

    def __setstate__(self, _state: object) -> None:
        """Ignore the order of bytes, which single bytes do not have."""


class _Reader(pickle.Unpickler):
    """Reader that knows the names that the published files have, and finds no code under them but ours."""

    STAND_INS = {  # noqa: RUF012
        ("numpy.core.multiarray", "_reconstruct"): _Array,
        ("numpy._core.multiarray", "_reconstruct"): _Array,
        ("numpy", "ndarray"): _Array,
        ("numpy", "dtype"): _Kind,
    }

    def find_class(self, module: str, name: str) -> type:
        if (module, name) not in self.STAND_INS:
            raise SpecError(f"names {module}.{name}, which the published files do not have")
        return self.STAND_INS[module, name]

    def persistent_load(self, _pid: object) -> NoReturn:
        raise SpecError("refers to another object")


def _one_of(folder: Path, names: Sequence[str], wanted: str) -> Path:
    if not folder.is_dir():
        raise SpecError(f"there is no folder {str(folder)!r} (looked in {Path.cwd()})", fix="correct the path")
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise SpecError(f"{folder} has no file {' or '.join(names)}", fix=f"put {wanted} there")


def _content(path: Path) -> bytes:
    try:
        if not path.stat().st_size:  # as the kernel's own files have it, of which some wait for ever
            raise _unfit(path, "is empty")
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except (OSError, EOFError) as error:
        raise _unfit(path, f"cannot be read: {error}") from None
    if len(content) > MOST_BYTES:
        raise _unfit(path, f"has more than {MOST_BYTES:,} bytes")
    return bytes(content)


def _unfit(path: Path, problem: str) -> SpecError:
    return SpecError(f"{path} {problem}", fix="get the file anew")
