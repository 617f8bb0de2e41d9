"""Tensors that a script gives to a collective: what is refused, with its fix, and nothing is allocated for it."""

from __future__ import annotations

from collections.abc import Callable
from weakref import ref

import pytest
import torch

from testbed.base.errors import SpecError
from testbed.workloads.kinds.script.backend.tensors import (
    MOST_KNOWN,
    Arrays,
    array_of,
    check,
    check_parts,
    check_whole,
    divide,
)

ONE = torch.ones(1)
HUGE = ONE.expand(2**29 + 1)
GOLDEN: dict[str, tuple[Callable[[], object], str]] = {
    "on a device": (
        lambda: check([ONE, torch.empty(2, device="meta")], [ONE]),
        "a tensor on meta in a collective, and ranks here compute on CPUs\n"
        "  fix: keep the model and its data on the CPU: remove .cuda() and .to('cuda')",
    ),
    "of two types": (
        lambda: check([ONE, ONE.double()], []),
        "tensors of different types in one collective\n  fix: give it tensors of one type",
    ),
    "over 2 GiB": (
        lambda: check([HUGE], [HUGE]),
        "a collective of 2,147,483,652 bytes, and one may have 2,147,483,648\n"
        "  fix: split it, as DDP does with bucket_cap_mb=25",
    ),
    "over 2 GiB together": (
        lambda: check([HUGE[1:], ONE], [HUGE[1:], ONE]),
        "a collective of 2,147,483,652 bytes, and one may have 2,147,483,648\n"
        "  fix: split it, as DDP does with bucket_cap_mb=25",
    ),
    "uneven parts": (
        lambda: check_parts([torch.ones(3), torch.ones(0)], torch.ones(3), "all_gather"),
        "all_gather with an array of 0 numbers where the group's ranks need 3\n"
        "  fix: give each rank a part of the same size",
    ),
    "an uneven whole": (
        lambda: check_whole(torch.ones(7), torch.ones(2), 3, "reduce_scatter"),
        "reduce_scatter with an array of 7 numbers where the group's ranks need 6\n"
        "  fix: give each rank a part of the same size",
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_what_cannot_be_moved_is_refused_with_its_fix(name: str) -> None:
    make, says = GOLDEN[name]
    with pytest.raises(SpecError) as caught:
        make()
    assert str(caught.value) == says


def test_as_much_as_may_be_moved_is_taken() -> None:
    check([HUGE[1:]], [HUGE[1:]])
    check([HUGE, HUGE], [ONE])  # what moves counts
    check_parts([torch.ones(2, 3), torch.ones(6)], torch.ones(3, 2), "all_gather")
    check_whole(torch.ones(0), torch.ones(0), 3, "all_gather")


def test_of_sparse_tensors_what_they_hold_counts() -> None:
    sparse = torch.sparse_coo_tensor(torch.tensor([[2**40]]), torch.ones(1), (2**41,), check_invariants=True)
    check([sparse], [sparse])


@pytest.mark.parametrize(
    "tensor",
    [torch.arange(12.0).view(3, 4).t(), torch.arange(12)[::3], torch.tensor(5.0), torch.empty(0), torch.ones(2, 0)],
    ids=["turned", "every third", "one", "none", "none in two rows"],
)
def test_numbers_go_into_an_array_and_back_whatever_their_shape(tensor: torch.Tensor) -> None:
    wanted = tensor.clone() + 1
    array = array_of([tensor])
    array.numbers[:] += 1
    array.copy_back()
    assert torch.equal(tensor, wanted)
    assert (array.memory.data_ptr() == tensor.data_ptr()) == tensor.is_contiguous()


@pytest.mark.parametrize(
    ("dtype", "expected"), [(torch.float32, [-1.75, 1.75]), (torch.int64, [-1, 1]), (torch.int32, [-1, 1])]
)
def test_whole_numbers_are_divided_as_integers(dtype: torch.dtype, expected: list[float]) -> None:
    numbers = torch.tensor([-7, 7], dtype=dtype)
    divide(numbers, 4)
    assert numbers.tolist() == expected


def test_the_array_of_a_tensor_is_kept_as_long_as_the_tensor_is_as_it_was() -> None:
    arrays, tensor = Arrays(), torch.ones(6)
    array = array_of([tensor])
    assert arrays.of([tensor]) is None
    arrays.keep([tensor], array)
    assert arrays.of([tensor]) is array
    assert arrays.of([tensor, tensor]) is None
    assert arrays.of([tensor[:]]) is None, "another tensor with the same memory"
    tensor.data = torch.ones(6)
    assert arrays.of([tensor]) is None, "it has other memory"
    tensor.data = array.memory[:3]
    assert arrays.of([tensor]) is None, "it has fewer numbers"
    tensor.data = array.memory.view(torch.int32)
    assert arrays.of([tensor]) is None, "its numbers are of another type"


def test_an_array_goes_with_its_tensor() -> None:
    arrays, tensor = Arrays(), torch.ones(6)
    arrays.keep([tensor], array := array_of([tensor]))
    gone, key = ref(array.memory), id(tensor)
    del array, tensor
    assert gone() is None
    assert key not in arrays._known


def test_copies_and_too_many_arrays_are_not_kept() -> None:
    arrays, across = Arrays(), torch.ones(2, 3).T
    arrays.keep([across], array_of([across]))
    assert arrays.of([across]) is None
    tensors = [torch.ones(1) for _ in range(MOST_KNOWN + 1)]
    for tensor in tensors:
        arrays.keep([tensor], array_of([tensor]))
    assert [arrays.of([tensor]) is not None for tensor in tensors] == [True] * MOST_KNOWN + [False]
