"""MNIST and CIFAR-10 are read from files in the published forms, and files that are not so are refused."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from testbed.base.errors import SpecError
from testbed.workloads.own.formats import cifar10, mnist
from tests import own

TRAIN_IMAGES = "train-images-idx3-ubyte"


@pytest.mark.parametrize("packed", [False, True])
def test_mnist(tmp_path: Path, packed: bool) -> None:
    images = own.write_mnist(tmp_path / "mnist", packed=packed)
    found, labels, test, test_labels = mnist(str(tmp_path / "mnist"))
    assert np.array_equal(np.concatenate([found, test]), images[:, None])
    assert [*labels, *test_labels] == [i % 10 for i in range(60)]


@pytest.mark.parametrize("pickled", [False, True])
def test_cifar10(tmp_path: Path, pickled: bool) -> None:
    images = own.write_cifar10(tmp_path / "cifar", pickled=pickled)
    found, labels, test, test_labels = cifar10(str(tmp_path / "cifar"))
    assert found.shape == (50, 3, 32, 32)
    assert np.array_equal(np.concatenate([found, test]), images)
    assert [*labels, *test_labels] == [i % 10 for i in range(60)]


def test_a_pickle_that_numpy_of_today_writes_is_read_too(tmp_path: Path) -> None:
    own.write_cifar10(tmp_path / "cifar", pickled=True)
    rows = np.arange(2 * 3072, dtype=np.uint8).reshape(2, 3072)
    (tmp_path / "cifar" / "test_batch").write_bytes(pickle.dumps({b"data": rows, b"labels": [3, 4]}, protocol=4))
    assert np.array_equal(cifar10(str(tmp_path / "cifar"))[2], rows.reshape(2, 3, 32, 32))


class _Code:
    """Pickled, a call of any function."""

    def __init__(self, call: Callable[..., object], *arguments: object) -> None:
        self._call = call, arguments

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self._call


def test_code_in_a_pickle_does_not_run(tmp_path: Path) -> None:
    own.write_cifar10(tmp_path / "cifar", pickled=True)
    made = tmp_path / "made"
    for code in (_Code(os.mkdir, str(made)), _Code(eval, f"__import__('os').mkdir({str(made)!r})")):
        (tmp_path / "cifar" / "data_batch_2").write_bytes(pickle.dumps({b"data": code, b"labels": [1]}, protocol=2))
        with pytest.raises(SpecError, match=r"data_batch_2 names .*, which the published files do not have"):
            cifar10(str(tmp_path / "cifar"))
    assert not made.exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (own.idx(np.zeros((2, 28, 28), np.uint8))[:-1], "has 1,567 bytes of the 1,568 that it announces"),
        (own.idx(np.zeros(2, np.uint8)) + bytes(20), "does not begin as an IDX file of 3 dimensions"),
        (b"\0\0", "has 2 bytes"),
    ],
)
def test_an_idx_file_that_is_none(tmp_path: Path, content: bytes, said: str) -> None:
    own.write_mnist(tmp_path / "mnist")
    (tmp_path / "mnist" / TRAIN_IMAGES).write_bytes(content)
    with pytest.raises(SpecError, match=said):
        mnist(str(tmp_path / "mnist"))


def test_a_packed_file_that_is_cut(tmp_path: Path) -> None:
    own.write_mnist(tmp_path / "mnist", packed=True)
    path = tmp_path / "mnist" / f"{TRAIN_IMAGES}.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(SpecError, match="cannot be read"):
        mnist(str(tmp_path / "mnist"))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("data_batch_1.bin", bytes(3072), "no multiple of 3,073"),
        ("data_batch_1", b"\x80\x02}.", "not as the published ones are"),
        ("data_batch_1", b"junk", "not as the published ones are"),
        ("data_batch_1", own.cifar10_pickle(np.zeros((2, 3072), np.uint8), [1]), "1 labels, and data of the shape"),
    ],
)
def test_a_batch_that_is_none(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    own.write_cifar10(tmp_path / "cifar", pickled=not name.endswith(".bin"))
    (tmp_path / "cifar" / name).write_bytes(content)
    with pytest.raises(SpecError, match=said):
        cifar10(str(tmp_path / "cifar"))


def test_a_pickle_with_a_far_place_in_its_memo_takes_no_room(tmp_path: Path) -> None:
    own.write_cifar10(tmp_path / "cifar", pickled=True)
    (tmp_path / "cifar" / "data_batch_2").write_bytes(b"\x80\x02Nr\xff\xff\xff\x0f.")
    with pytest.raises(SpecError, match="place 268435455 of a memo"):
        cifar10(str(tmp_path / "cifar"))


@pytest.mark.parametrize("name", ["/proc/kmsg", "/proc/self/status"])
def test_files_of_the_kernels_are_not_read(name: str, tmp_path: Path) -> None:
    """Some wait for ever, and what is read of the kernel's log is gone."""
    own.write_mnist(tmp_path / "mnist")
    (tmp_path / "mnist" / TRAIN_IMAGES).unlink()
    (tmp_path / "mnist" / TRAIN_IMAGES).symlink_to(name)
    with pytest.raises(SpecError, match=r"train-images-idx3-ubyte is empty"):
        mnist(str(tmp_path / "mnist"))
