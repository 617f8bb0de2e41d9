"""Rows around PyTorch's own Gloo, which moves the bytes as ever: for arms beside which those of schemes stand."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from testbed.workloads.kinds.ranks import SUMS
from testbed.workloads.kinds.script.backend import futures
from testbed.workloads.kinds.script.backend.caught import caught
from testbed.workloads.kinds.script.backend.named import Named, Place, telling
from testbed.workloads.kinds.script.backend.rows import Row, Rows
from testbed.workloads.kinds.script.backend.tensors import is_summed
from testbed.workloads.kinds.script.backend.untraced import untraced

CAUSE_S = 0.5
"""How long (s) Gloo's error about a lost connection waits for the engine to know whose connection it was."""
LOOK_S = 0.05
"""Time (s) between looks at whether the engine has ended."""
Cause = Callable[[], BaseException | None]
Failed = Callable[[Row, BaseException], None]
"""Callback for a collective that failed."""
Sized = Callable[[tuple[Any, ...], int], Sequence[torch.Tensor]]
"""Finds, from a call's arguments and the group's size, tensors that have as many bytes as the whole array."""


@untraced
class Told(dist.Work):
    """A collective of Gloo's, with its row."""

    def __init__(self, work: dist.Work, row: Row, cause: Cause, failed: Failed) -> None:
        super().__init__()
        self._work, self._row, self._cause, self._failed = work, row, cause, failed
        try:
            work.get_future().add_done_callback(self._over)
        except RuntimeError:  # sends and receives have none
            self._has_future = False
        else:
            self._has_future = True

    def _over(self, future: torch.futures.Future[Any]) -> None:
        try:
            future.value()
        except RuntimeError as error:
            self._failed(self._row, error)
        self._row.done()

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        asked_s = time.monotonic()
        try:
            found = self._work.wait(timeout) if timeout else self._work.wait()
        except RuntimeError as error:
            self._failed(self._row, error)
            if (cause := self._known()) is not None:
                raise caught(cause) from None
            raise
        if not futures.is_chained():
            self._row.waited(asked_s)
        self._row.done()
        return bool(found)

    def _known(self) -> BaseException | None:
        """Return why the engine ended, if it did: Gloo names an address, and the engine the rank."""
        end_s = time.monotonic() + CAUSE_S
        while (found := self._cause()) is None and time.monotonic() < end_s:
            time.sleep(0.01)
        return found

    def get_future(self) -> Any:
        return futures.given(self._work.get_future(), self._row)

    def is_completed(self) -> bool:
        found = bool(self._work.is_completed())
        if found and not self._has_future:
            self._row.done()
        return found

    def synchronize(self) -> None:
        self._work.synchronize()

    def is_success(self) -> bool:
        return bool(self._work.is_success())

    def exception(self) -> Any:
        return self._work.exception()

    def result(self) -> list[torch.Tensor]:
        return list(self._work.result())

    def _source_rank(self) -> int:
        return int(self._work._source_rank())

    source_rank = _source_rank


class Gloo(Named):
    """A group whose collectives are Gloo's."""

    def __init__(
        self,
        place: Place,
        rows: Rows,
        group: int,
        carries: frozenset[str] = frozenset({"allreduce"}),
        cause: Cause = lambda: None,
    ) -> None:
        """Set up; the rows of collectives that it ``carries`` say that the scheme carries them: what Gloo's allreduce
        moves is known. ``cause`` says why our engine beside it has ended, if there is one that has."""
        super().__init__(place[1], place[2], rows, group)
        self._gloo: Any = _connected(lambda: _plain(place), cause)
        self._carries, self._cause = carries, cause

    def shutdown(self) -> None:
        """Leave the group; its threads end."""
        self._gloo = None

    def abort(self) -> None:
        """Leave the group, as :meth:`shutdown` does."""
        self._gloo = None

    def _failed(self, row: Row, error: BaseException) -> None:
        """Report a failed collective, unless the script has left the group: nobody waits then for what is on its
        way."""
        if self._gloo is not None:
            self._rows.failed(row, error)

    def _told(self, op: str, tensors: Sequence[torch.Tensor], root: int | None, *, is_other: bool) -> Row:
        nbytes = sum(one.numel() * one.element_size() for one in tensors)
        dtype = str(tensors[0].dtype).removeprefix("torch.") if tensors else "other"
        more = {**({} if root is None else {"root": root}), **({"other": True} if is_other else {})}
        by = "scheme" if op in self._carries else "gloo"
        return self._rows.call(op, dtype, nbytes, self.size(), group=self._number, by=by, **more)


def _plain(place: Place) -> dist.ProcessGroup:
    """Make a group as ``init_process_group("gloo")`` makes it. A ``ProcessGroupGloo`` alone would not do: it
    has some of the calls only in C++."""
    store, rank, size, timeout = place
    group, kind = dist.ProcessGroup(store, rank, size), dist.ProcessGroup.BackendType.GLOO
    group._set_default_backend(kind)
    group._register_backend(torch.device("cpu"), kind, dist.ProcessGroupGloo(store, rank, size, timeout))
    return group


def _connected(make: Callable[[], Any], cause: Cause) -> Any:
    """Call ``make`` on a thread of its own, and return its result: Gloo's ranks wait for each other, until the timeout
    if one has died meanwhile.

    Raises:
        TestbedError: our engine has ended.
    """
    made: Future[Any] = Future()

    def run() -> None:
        try:
            made.set_result(make())
        except BaseException as error:
            made.set_exception(error)

    threading.Thread(target=run, name="testbed-gloo", daemon=True).start()
    while True:
        with suppress(TimeoutError):
            return made.result(LOOK_S)
        if (why := cause()) is not None:
            raise why


def _around(name: str, op: str, sized: Sized) -> Callable[..., Any]:
    def ask(self: Gloo, *arguments: Any, **named: Any) -> Any:
        options = named.get("opts", arguments[-1] if arguments else None)
        root = getattr(options, "rootRank", None)
        reduces = options if hasattr(options, "reduceOp") else None  # without options it is a sum
        tensors = sized(arguments, self.size())
        row = self._told(
            op, tensors, root if op in ROOTED else None, is_other=op in SUMS and not is_summed(tensors, reduces)
        )
        try:
            work = getattr(self._gloo, name)(*arguments, **named)
        except Exception as error:
            self._failed(row, error)
            raise
        if isinstance(work, dist.Work):
            return Told(work, row, self._cause, self._failed)
        row.done()
        return work

    return telling(ask, op)


def _first(arguments: tuple[Any, ...], _: int) -> Sequence[torch.Tensor]:
    one = arguments[0]
    return [one] if isinstance(one, torch.Tensor) else list(one)


def _second(arguments: tuple[Any, ...], _: int) -> Sequence[torch.Tensor]:
    return _first(arguments[1:], 0)


def _each_of_second(arguments: tuple[Any, ...], size: int) -> Sequence[torch.Tensor]:
    return list(_second(arguments, size)) * size


def _lists_of_second(arguments: tuple[Any, ...], _: int) -> Sequence[torch.Tensor]:
    return [tensor for one in arguments[1] for tensor in one]


def _nothing(arguments: tuple[Any, ...], _: int) -> Sequence[torch.Tensor]:  # noqa: ARG001
    return []


ROOTED = frozenset({"broadcast", "reduce", "gather", "scatter"})
CALLS: dict[str, tuple[str, Sized]] = {
    "allreduce": ("allreduce", _first),
    "allreduce_coalesced": ("allreduce", _first),
    "broadcast": ("broadcast", _first),
    "reduce": ("reduce", _first),
    "allgather": ("all_gather", _each_of_second),
    "allgather_coalesced": ("all_gather", _each_of_second),
    "_allgather_base": ("all_gather", _first),
    "allgather_into_tensor_coalesced": ("all_gather", _first),
    "reduce_scatter": ("reduce_scatter", _lists_of_second),
    "_reduce_scatter_base": ("reduce_scatter", _second),
    "reduce_scatter_tensor_coalesced": ("reduce_scatter", _second),
    "alltoall": ("all_to_all", _second),
    "alltoall_base": ("all_to_all", _second),
    "gather": ("gather", _each_of_second),
    "scatter": ("scatter", _first),
    "send": ("send", _first),
    "recv": ("recv", _first),
    "recv_anysource": ("recv", _first),
    "barrier": ("barrier", _nothing),
    "monitored_barrier": ("barrier", _nothing),
}
"""The kind of collective that each method asks for, and the function that finds its size."""
SAME = {
    "all_gather_single": "_allgather_base",
    "all_gather_single_coalesced": "allgather_into_tensor_coalesced",
    "reduce_scatter_single": "_reduce_scatter_base",
    "reduce_scatter_single_coalesced": "reduce_scatter_tensor_coalesced",
    "all_to_all_single": "alltoall_base",
}
"""Newer names of methods, with the older ones."""
for _name, (_op, _sized) in CALLS.items():
    setattr(Gloo, _name, _around(_name, _op, _sized))
for _newer, _name in SAME.items():
    setattr(Gloo, _newer, _around(_name, *CALLS[_name]))
untraced(Gloo)
