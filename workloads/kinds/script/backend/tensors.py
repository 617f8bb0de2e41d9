"""Tensors as the arrays that the engine moves, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import ref

import torch
import torch.distributed as dist
from numpy.typing import NDArray

from testbed.base.errors import SpecError
from testbed.workloads.kinds.script.collectives.calls import DTYPES, SUMMED

OTHER = "other"
OPS = ("sum", "avg")
"""Operations that the engine does; all others are Gloo's."""
MOST_KNOWN = 256
"""Limit on the arrays that are kept: more than models have buckets."""
LARGEST_BYTES = 2**31
"""Limit on the bytes of one collective."""


Put = Callable[[torch.Tensor, torch.Tensor], None]
"""Puts numbers into a tensor: :func:`write` or :func:`copy`."""


@dataclass(slots=True)
class Array:
    """One or several tensors as one array, which shares the memory of a tensor if it can.

    Attributes:
        dtype: as :data:`.calls.DTYPES` has it.
        numbers: the array, of one dimension.
        memory: the tensor whose memory it is.
        last: the last operation of the engine with it, where it was kept (:class:`Arrays`).
    """

    dtype: str
    numbers: NDArray[Any]
    memory: torch.Tensor
    _sources: tuple[torch.Tensor, ...]
    last: Any = None

    @property
    def is_copy(self) -> bool:
        """Whether its memory is not that of a tensor."""
        return bool(self._sources)

    def copy_back(self, put: Put | None = None) -> None:
        """Copy the array into the tensors that it was made of; as Gloo does, unless ``put`` says otherwise.

        Raises:
            RuntimeError: it was made of several, and one of these has one place for several numbers.
        """
        put = put or (write if len(self._sources) == 1 else copy)
        at = 0
        for source in self._sources:
            put(source, self.memory[at : at + source.numel()])
            at += source.numel()


def write(target: torch.Tensor, numbers: torch.Tensor) -> None:
    """Put numbers into a tensor wherever its memory is. Where one place in memory stands for several elements, as in a
    tensor that ``expand`` gives, the first element's number is written: after a sum, all of them have that one."""
    where, values = target, numbers.view(target.shape)
    for dim, (size, stride) in enumerate(zip(where.shape, where.stride(), strict=True)):
        if stride == 0 and size > 1:
            where, values = where.narrow(dim, 0, 1), values.narrow(dim, 0, 1)
    copy(where, values)


def copy(target: torch.Tensor, numbers: torch.Tensor) -> None:
    """Put numbers into a tensor, as Gloo does with those that it has gathered or scattered.

    Raises:
        RuntimeError: a place stands for several elements.
    """
    with torch.inference_mode():  # in which tensors may be written to that were made in it
        target.data.copy_(numbers.view(target.shape))  # autograd does not see it, as what Gloo writes


def name_of(dtype: torch.dtype) -> str:
    """Return the name of a type, such as ``float32``."""
    return str(dtype).removeprefix("torch.")


_NAMES = {getattr(torch, name): name for name, _ in DTYPES if name != OTHER}


def dtype_name(tensor: torch.Tensor) -> str:
    """Return the name that calls have for a tensor's type, such as ``float32``."""
    return _NAMES.get(tensor.dtype, OTHER)


def op_of(opts: Any) -> str:
    """Return ``sum`` or ``avg``; empty for an operation that the engine does not do."""
    if opts is None or (asked := opts.reduceOp) == dist.ReduceOp.SUM:
        return "sum"
    return "avg" if asked == dist.ReduceOp.AVG else ""


def is_summed(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether the engine can add these tensors."""
    return all(each.layout == torch.strided and dtype_name(each) in SUMMED for each in tensors)


def array_of(tensors: Sequence[torch.Tensor]) -> Array:
    """Make an array of tensors of one type, one after the other. A single one that lies in one piece is not copied."""
    first = tensors[0].detach()
    if len(tensors) == 1 and first.is_contiguous() and not (first.is_neg() or first.is_conj()):
        flat, sources = first.view(-1), tuple[torch.Tensor, ...]()
    else:
        sources = tuple(one.detach() for one in tensors)
        flat = torch.cat([one.reshape(-1) for one in sources]).resolve_neg().resolve_conj()
    return _array(flat, sources)


class Arrays:
    """Arrays of tensors that are added again and again, as DDP's buckets are: to check a tensor, to view its memory and
    to plan with it takes a third of a call. An array is kept as long as its tensor."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[ref[torch.Tensor], int, Array]] = {}

    def of(self, tensors: Sequence[torch.Tensor]) -> Array | None:
        """Return the array of a tensor that is as it was when its array was kept; else None."""
        tensor = tensors[0]
        known = self._known.get(id(tensor))
        if known is None or len(tensors) > 1 or known[0]() is not tensor:
            return None
        _, address, array = known
        is_same = tensor.data_ptr() == address and tensor.numel() == array.numbers.size
        return array if is_same and tensor.is_contiguous() and dtype_name(tensor) == array.dtype else None

    def keep(self, tensors: Sequence[torch.Tensor], array: Array) -> None:
        """Keep the array of a single tensor whose memory it shares."""
        if len(tensors) == 1 and not array.is_copy and len(self._known) < MOST_KNOWN:
            tensor, known, key = tensors[0], self._known, id(tensors[0])
            known[key] = ref(tensor, lambda _: known.pop(key, None)), tensor.data_ptr(), array


def empty_array(like: torch.Tensor, count: int) -> Array:
    """Make an array of so many numbers of that type, for results that go to several places."""
    flat = torch.empty(count, dtype=like.dtype)
    return _array(flat, ())


def _array(flat: torch.Tensor, sources: tuple[torch.Tensor, ...]) -> Array:
    name = dtype_name(flat)
    if name == "bfloat16":
        import ml_dtypes

        numbers = flat.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    else:
        numbers = flat.view(torch.uint8).numpy() if name == OTHER else flat.numpy()
    return Array(name, numbers, flat, sources)


def check(tensors: Sequence[torch.Tensor], whole: Sequence[torch.Tensor]) -> None:
    """Check tensors of a collective; ``whole`` are those of the ``tensors`` whose numbers move.

    Raises:
        SpecError: they are not on the CPU, of several types, or too large.
    """
    for each in tensors:
        if not each.is_cpu:
            raise SpecError(
                f"a tensor on {each.device} in a collective, and ranks here compute on CPUs",
                fix="keep the model and its data on the CPU: remove .cuda() and .to('cuda')",
            )
    if len(tensors) > 1 and len({each.dtype for each in tensors}) > 1:
        raise SpecError("tensors of different types in one collective", fix="give it tensors of one type")
    nbytes = sum((each._values() if each.is_sparse else each).nbytes for each in whole)
    if nbytes > LARGEST_BYTES:
        raise SpecError(
            f"a collective of {nbytes:,} bytes, and one may have {LARGEST_BYTES:,}",
            fix="split it, as DDP does with bucket_cap_mb=25",
        )


def check_parts(parts: Sequence[torch.Tensor], like: torch.Tensor, of: str) -> None:
    """
    Raises:
        SpecError: not all of an array's parts, one for each rank, have as many numbers as one of them.
    """
    for one in parts:
        if one.numel() != like.numel():
            raise _uneven(one.numel(), like.numel(), of)


def check_whole(whole: torch.Tensor, part: torch.Tensor, size: int, of: str) -> None:
    """
    Raises:
        SpecError: an array has not as many numbers as so many parts.
    """
    if whole.numel() != size * part.numel():
        raise _uneven(whole.numel(), size * part.numel(), of)


def _uneven(found: int, wanted: int, of: str) -> SpecError:
    return SpecError(
        f"{of} with an array of {found:,} numbers where the group's ranks need {wanted:,}",
        fix="give each rank a part of the same size",
    )


def divide(numbers: torch.Tensor, by: int) -> None:
    """Divide in place; whole numbers as integers, as NCCL does."""
    numbers.div_(by, rounding_mode=None if numbers.is_floating_point() or numbers.is_complex() else "trunc")
