"""Models and data as users write them, in files; data sets in the form in which they are published."""

from __future__ import annotations

import gzip
import json
import struct
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from testbed.workloads.own import prepare, prepared

NET = """\
import torch
from torch import nn

class Net(nn.Module):
    '''Batch normalisation, dropout, a part that is not trained, and one matrix that two parts share.'''
    def __init__(self, classes: int = 3, width: int = 8):
        super().__init__()
        self.fixed = nn.Linear(6, width).requires_grad_(False)
        self.norm = nn.BatchNorm1d(width)
        self.first = nn.Linear(width, width)
        self.drop = nn.Dropout(0.3)
        self.second = nn.Linear(width, width)
        self.second.weight = self.first.weight
        self.out = nn.Linear(width, classes)

    def forward(self, x):
        x = torch.relu(self.norm(self.fixed(x.flatten(1))))
        return self.out(self.second(self.drop(torch.relu(self.first(x)))))

class Nothing(nn.Flatten):
    pass

class Double(nn.Linear):
    def __init__(self):
        super().__init__(6, 3, dtype=torch.float64)

class Bytes(Net):
    def forward(self, x):
        return super().forward(x)[:, 0]

class Unused(Net):
    def __init__(self):
        super().__init__()
        self.spare = nn.Linear(2, 2)

class Remembers(Net):
    def __init__(self):
        super().__init__()
        self.seen = 0

    def forward(self, x):
        self.seen += 1
        return super().forward(x) * self.seen

class Fails(Net):
    def forward(self, x):
        return super().forward(x) + self.absent

number = 7

def count():
    return number
"""
DATA = """\
import torch

def load(count: int = 60, classes: int = 3):
    labels = torch.arange(count) % classes
    return torch.randn(count, 2, 3) + labels[:, None, None], labels

def apart():
    return (*load(40), *load(20))

def empty():
    return load(0)

def no_numbers():
    inputs, labels = load()
    inputs[3, 1] = float("nan")
    return inputs, labels

def one():
    return load()[0]

def uneven():
    inputs, labels = load()
    return inputs, labels[1:]

def fails():
    return open("absent.csv")
"""
FILES = {
    "net.py": NET,
    "data.py": DATA,
    "imports.py": "import torch\n\nimport absent_package\n",
    "syntax.py": "class Net(:\n",
}


def write(folder: Path) -> None:
    """Put the files of a user's own there."""
    for name, text in FILES.items():
        (folder / name).write_text(text)


def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prepare models and data in the test's own process, whose working directory is the spec's: a process of its own
    would import PyTorch each time."""

    def ask(_module: str, question: str, _what: str) -> None:
        wanted = prepare.Question(**json.loads(question))
        with monkeypatch.context() as patch:
            patch.chdir(wanted.folder)
            prepare.answer(wanted)

    monkeypatch.setattr(prepared, "ask", ask)


def idx(values: NDArray[np.uint8]) -> bytes:
    """An IDX file of bytes."""
    return struct.pack(f">{1 + values.ndim}I", 0x800 + values.ndim, *values.shape) + values.tobytes()


def write_mnist(folder: Path, *, packed: bool = False) -> NDArray[np.uint8]:
    """MNIST's four files; the images of both sets."""
    folder.mkdir()
    random = np.random.default_rng(1)
    images = random.integers(0, 256, (60, 28, 28), np.uint8)
    labels = (np.arange(60) % 10).astype(np.uint8)
    parts = {"train-images-idx3": images[:40], "train-labels-idx1": labels[:40]}
    parts |= {"t10k-images-idx3": images[40:], "t10k-labels-idx1": labels[40:]}
    for name, values in parts.items():
        content = idx(values)
        path = folder / f"{name}-ubyte{'.gz' * packed}"
        path.write_bytes(gzip.compress(content) if packed else content)
    return images


def write_cifar10(folder: Path, *, pickled: bool = False) -> NDArray[np.uint8]:
    """CIFAR-10's six files, with ten images each; all images."""
    folder.mkdir()
    random = np.random.default_rng(1)
    rows = random.integers(0, 256, (60, 3 * 32 * 32), np.uint8)
    labels = np.arange(60) % 10
    for i, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        part = slice(10 * i, 10 * i + 10)
        if pickled:
            (folder / name).write_bytes(cifar10_pickle(rows[part], list(labels[part])))
        else:
            table = np.concatenate([labels[part, None].astype(np.uint8), rows[part]], axis=1)
            (folder / f"{name}.bin").write_bytes(table.tobytes())
    return rows.reshape(-1, 3, 32, 32)


def cifar10_pickle(rows: NDArray[np.uint8], labels: list[int]) -> bytes:
    """A batch as Python 2 pickled those that are published: protocol 2, with strings of bytes."""

    def text(word: bytes) -> bytes:
        return b"U" + bytes([len(word)]) + word

    count, size = (struct.pack("<H", length) for length in rows.shape)
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text(b"b") + b"\x87R"
    kind = b"cnumpy\ndtype\n" + text(b"u1") + b"K\x00K\x01\x87R(K\x03" + text(b"|") + b"NNN"
    kind += b"J\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    state = b"(K\x01M" + count + b"M" + size + b"\x86" + kind + b"\x89"
    state += b"T" + struct.pack("<I", rows.nbytes) + rows.tobytes() + b"tb"
    pairs = text(b"batch_label") + text(b"training batch 1 of 5")
    pairs += text(b"labels") + b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    pairs += text(b"data") + array + state
    pairs += text(b"filenames") + b"](" + text(b"leptodactylus_pentadactylus_s_000004.png") + b"e"
    return b"\x80\x02}(" + pairs + b"u."
