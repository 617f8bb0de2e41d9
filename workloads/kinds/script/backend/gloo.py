"""Rows of what PyTorch's own Gloo moves: for arms beside which those of schemes stand, and for what no engine does.

Problem: the script's group is PyTorch's own object. Python calls its methods, and so does C++, as DDP and functional
collectives do. Nothing may stand in its place, since scripts and PyTorch look into it.

Chosen: both ways meet at PyTorch's dispatcher, whose operators ``c10d::*`` lead to Gloo. A kernel in front of each one
makes the row. Methods of ``ProcessGroup`` and ``Work`` are wrapped for what only Python does: an error of a wrong
argument, and waits for a work. Waits in C++ are timed around the functions in which they happen: ``wait_tensor``, and
DDP's that set up and broadcast. For DDP's gradients, which wait for futures in C++, a wait is not seen. Their sums are
asked for in C++, where a kernel in Python takes 1 to 2 % of a step, so one in C++ makes their rows (``watcher.cpp``).
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import torch
import torch.distributed as dist

from testbed.workloads.kinds.ranks import SUMS
from testbed.workloads.kinds.script.backend import futures, watcher
from testbed.workloads.kinds.script.backend.caught import caught
from testbed.workloads.kinds.script.backend.named import Place, forked
from testbed.workloads.kinds.script.backend.rows import COMPILED, LONGEST, Row, Rows
from testbed.workloads.kinds.script.backend.tensors import OPS, is_summed, name_of, op_of
from testbed.workloads.kinds.script.backend.untraced import skip, untraced

CAUSE_S = 0.5
"""How long (s) Gloo's error about a lost connection waits for the engine to know whose connection it was."""
LOOK_S = 0.05
"""Time (s) between looks at whether the engine has ended."""
Cause = Callable[[], BaseException | None]
Sized = Callable[[Sequence[Any], int], Sequence[torch.Tensor]]
"""Finds, from a call's arguments and the group's size, tensors that have as many bytes as the whole array."""
_BELOW = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.BackendSelect)
"""Keys of kernels behind ours: those that hand a call to the group's backend."""


@dataclass(frozen=True)
class Watched:
    """A group of PyTorch's that is watched.

    Attributes:
        number: that of its rows.
        has_left: whether the script has left it: nobody waits then for what is on its way.
        carries: the collectives whose rows say that the scheme carries them: what Gloo's allreduce moves is known.
        cause: why our engine beside it has ended, if it has; None without an engine.
    """

    rows: Rows
    number: int
    has_left: Callable[[], bool]
    carries: frozenset[str] = frozenset({"allreduce"})
    cause: Cause | None = None
    pid: int = field(default_factory=os.getpid)

    def check(self) -> None:
        """
        Raises:
            SpecError: the script has forked this process from the rank.
        """
        if os.getpid() != self.pid:
            raise caught(forked())

    def failed(self, row: Row, error: BaseException) -> None:
        """Report a failed collective."""
        if not self.has_left():
            self.rows.failed(row, error)

    def failed_in_cpp(self, group: int, number: int, why: str) -> None:
        """Report a failed sum whose row is C++'s."""
        if not self.has_left():
            self.rows.say("failed", op=COMPILED, group=group, seq=number, time=time.monotonic(), error=why[:LONGEST])

    def known(self) -> BaseException | None:
        """Return why the engine ended, if it did: Gloo names an address, and the engine the rank."""
        if self.cause is None:
            return None
        end_s = time.monotonic() + CAUSE_S
        while (found := self.cause()) is None and time.monotonic() < end_s:
            time.sleep(0.01)
        return found


class _Here(threading.local):
    """State of a thread."""

    method: str | None = None
    """The method of a group that Python calls now."""
    sums: bool | None = None
    """Whether that, or a functional collective, adds up."""
    is_functional = False
    """Whether C++ asks for a functional collective."""
    row: Row | None = None
    """The row of that method's collective."""
    waiting: tuple[Row, float] | None = None
    """In a function of C++ that waits for the collectives that it asks for: the last one, and since when it waits."""
    waits = False
    """Whether it is in such a function."""


_here = _Here()
_groups: WeakKeyDictionary[dist.ProcessGroup, Watched] = WeakKeyDictionary()
_works: WeakKeyDictionary[dist.Work, tuple[Watched, Row]] = WeakKeyDictionary()
_by_memory: WeakValueDictionary[int, Row] = WeakValueDictionary()
"""Rows of collectives of C++'s, by the memory of their results, for which functional collectives wait."""
_theirs_get_future = dist.Work.get_future


def watch(group: dist.ProcessGroup, watched: Watched) -> dist.ProcessGroup:
    """Make rows of the collectives of a group; return it."""
    _wrap()
    _groups[group] = watched
    # A pace has to hold the thread that asks, and an engine to say why a collective failed.
    if watched.cause is None and watched.rows.asks is None and (compiled := watcher.load()) is not None:
        watched.rows.join(compiled, watched.number, compiled.watch(group, watched.number, watched.failed_in_cpp))
    return group


def beside(place: Place, watched: Watched) -> dist.ProcessGroup:
    """Make a group of PyTorch's that is watched, beside one of ours, as ``init_process_group("gloo")`` makes it.

    Raises:
        TestbedError: our engine has ended.
    """
    return watch(_connected(lambda: _plain(place), watched.cause or (lambda: None)), watched)


def _plain(place: Place) -> dist.ProcessGroup:
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


# Rows


def _kernel(name: str, op: str, sized: Sized) -> Callable[..., Any]:
    """Make the kernel in front of an operator of ``c10d``."""
    operator = getattr(torch.ops.c10d, name).default
    places = {argument.name: place for place, argument in enumerate(operator._schema.arguments)}
    at_group, at_root = places["process_group"], places.get("root_rank")
    unbox = dist.ProcessGroup.unbox

    def ask(keys: Any, *arguments: Any) -> Any:
        group = unbox(arguments[at_group])
        if (watched := _groups.get(group)) is None:
            return operator.redispatch(keys & _BELOW, *arguments)
        watched.check()
        with watched.rows.asking():
            tensors = sized(arguments, group.size())
            root = arguments[at_root] if at_root is not None and at_root < len(arguments) else None
            _here.row = row = _row(watched, op, tensors, group.size(), root)
            try:
                given = operator.redispatch(keys & _BELOW, *arguments)
            except Exception as error:
                watched.failed(row, error)
                raise
            _follow(watched, row, given)
        _asked_in_cpp(row, tensors)
        return given

    skip(ask)
    return ask


def _row(watched: Watched, op: str, tensors: Sequence[torch.Tensor], size: int, root: int | None) -> Row:
    """Begin a row, once the last one of a function that waits for its collectives is over."""
    _no_longer_waiting()
    nbytes = sum([one.numel() * one.element_size() for one in tensors])
    dtype = name_of(tensors[0].dtype) if tensors else "other"
    more: dict[str, Any] = {} if root is None else {"root": root}
    if op in SUMS and not (_here.sums in (None, True) and is_summed(tensors)):
        more["other"] = True
    by = "scheme" if op in watched.carries else "gloo"
    return watched.rows.call(op, dtype, nbytes, size, group=watched.number, by=by, **more)


def _follow(watched: Watched, row: Row, given: Any) -> None:
    """Have a row end with its collective; ``given`` is what the operator returns, whose last part is the work."""
    if given is None:  # a barrier that is over
        row.done()
        return
    work = dist.Work.unbox(given[-1] if isinstance(given, tuple) else given)
    try:
        future = _theirs_get_future(work)
    except RuntimeError:  # sends and receives have none
        return
    futures.call_back(future, _Over(watched, row))


@untraced
class _Over:
    """Callback at the end of a collective."""

    __slots__ = ("__weakref__", "_row", "_watched")

    def __init__(self, watched: Watched, row: Row) -> None:
        self._watched, self._row = watched, row

    def __call__(self, future: torch.futures.Future[Any]) -> None:
        try:
            future.value()
        except RuntimeError as error:
            self._watched.failed(self._row, error)
        self._row.done()


def _asked_in_cpp(row: Row, tensors: Sequence[torch.Tensor]) -> None:
    """Note whose wait may be seen later: not that of a future within DDP."""
    if _here.method is not None:
        return
    if _here.waits:
        _here.waiting = row, time.monotonic()
        return
    row.unseen()
    if _here.is_functional:
        for one in tensors:
            if one.layout == torch.strided:
                _by_memory[one.untyped_storage()._cdata] = row


def _no_longer_waiting() -> None:
    if _here.waiting is not None:
        row, since_s = _here.waiting
        row.waited(since_s, for_it=False)
        _here.waiting = None


# Calls and waits of Python


def _method(name: str, op: str) -> Callable[..., Any]:
    """Wrap a method of groups, by which Python asks for a collective."""
    theirs = getattr(dist.ProcessGroup, name)

    @functools.wraps(theirs)
    def ask(self: dist.ProcessGroup, *arguments: Any, **named: Any) -> Any:
        watched = _groups.get(self)
        if watched is None or _here.method is not None:
            return theirs(self, *arguments, **named)
        watched.check()
        options = named.get("opts", arguments[-1] if arguments else None)
        _here.method, _here.row = name, None
        _here.sums = bool(op_of(options if hasattr(options, "reduceOp") else None))
        try:
            with watched.rows.asking(), watcher.in_python():
                work = theirs(self, *arguments, **named)
            if isinstance(work, dist.Work) and _here.row is not None:
                _works[work] = watched, _here.row
            return work
        except Exception as error:
            if _here.row is None:
                watched.rows.refused(op, watched.number, error)
            raise
        finally:
            _here.method = _here.sums = _here.row = None

    return _named(ask, name)


def _named(function: Any, name: str) -> Callable[..., Any]:
    """Give a wrapper's code the name of the method. So pybind11 sees where a class made in Python calls the method of
    its base, and does not call it again. The compiler leaves the wrapper alone."""
    function.__code__ = function.__code__.replace(co_name=name)
    skip(function)
    return function  # type: ignore[no-any-return]


def _wrap_works() -> None:
    theirs_wait, theirs_is_completed = dist.Work.wait, dist.Work.is_completed

    @functools.wraps(theirs_wait)
    def wait(self: dist.Work, *arguments: Any, **named: Any) -> bool:
        watched, row = _works.get(self, (None, None))
        if watched is None or row is None:
            return theirs_wait(self, *arguments, **named)
        asked_s = time.monotonic()
        try:
            found = theirs_wait(self, *arguments, **named)
        except RuntimeError as error:
            watched.failed(row, error)
            if (cause := watched.known()) is not None:
                raise caught(cause) from None
            raise
        if not futures.is_chained():
            row.waited(asked_s)
        row.done()
        return found

    @functools.wraps(_theirs_get_future)
    def get_future(self: dist.Work) -> Any:
        _, row = _works.get(self, (None, None))
        return futures.given(_theirs_get_future(self), row)

    @functools.wraps(theirs_is_completed)
    def is_completed(self: dist.Work) -> bool:
        found = theirs_is_completed(self)
        _, row = _works.get(self, (None, None))
        if found and row is not None:
            row.done()
        return found

    for function in (wait, get_future, is_completed):
        setattr(dist.Work, function.__name__, _named(function, function.__name__))


# Waits of C++


@contextmanager
def _waiting() -> Iterator[None]:
    before, _here.waits = _here.waits, True
    try:
        with watcher.in_python():
            yield
    finally:
        _no_longer_waiting()
        _here.waits = before


def _waits(theirs: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function of C++ that waits for the collectives that it asks for."""

    @functools.wraps(theirs)
    def call(*arguments: Any, **named: Any) -> Any:
        with _waiting():
            return theirs(*arguments, **named)

    return call


def _wait_tensor(keys: Any, tensor: torch.Tensor) -> torch.Tensor:
    row = _by_memory.pop(tensor.untyped_storage()._cdata, None) if tensor.layout == torch.strided else None
    asked_s = time.monotonic()
    found = torch.ops._c10d_functional.wait_tensor.default.redispatch(keys & _BELOW, tensor)
    if row is not None:
        row.waited(asked_s)
        row.done()
    return found  # type: ignore[no-any-return]


def _functional(name: str) -> Callable[..., Any]:
    """Make the kernel in front of a functional collective, which may name its operation in words."""
    operator = getattr(torch.ops._c10d_functional, name).default
    place = next((place for place, each in enumerate(operator._schema.arguments) if each.name == "reduce_op"), None)

    def ask(keys: Any, *arguments: Any) -> Any:
        before = _here.sums, _here.is_functional
        _here.sums = before[0] if place is None else arguments[place].lower() in OPS
        _here.is_functional = True
        try:
            with watcher.in_python():
                return operator.redispatch(keys & _BELOW, *arguments)
        finally:
            _here.sums, _here.is_functional = before

    skip(ask)
    return ask


@functools.cache
def _wrap() -> None:
    """Begin to watch, once in a process. What another version of PyTorch does not have is left out."""
    known = [name.split("::") for name in torch._C._dispatch_get_all_op_names()]
    ours = {name: _kernel(name, *OPERATORS[name]) for library, name in known if library == "c10d" and name in OPERATORS}
    functional = {name: _functional(name) for library, name in known if library == "_c10d_functional"}
    skip(_wait_tensor)
    for library, kernels in (("c10d", ours), ("_c10d_functional", {**functional, "wait_tensor": _wait_tensor})):
        _kept.append(kept := torch.library.Library(library, "IMPL"))  # type: ignore[no-untyped-call]
        for name, kernel in kernels.items():
            kept.impl(name, kernel, "BackendSelect", with_keyset=True)  # type: ignore[no-untyped-call]
    for name, op in METHODS.items():
        if hasattr(dist.ProcessGroup, name):
            setattr(dist.ProcessGroup, name, _method(name, op))
    _wrap_works()
    for holder, name in WAITING:
        setattr(holder, name, _named(_waits(getattr(holder, name)), name))


_kept: list[torch.library.Library] = []
"""Libraries of kernels: one that is freed takes its kernels back."""


def _first(arguments: Sequence[Any], _: int) -> Sequence[torch.Tensor]:
    one = arguments[0]
    return [one] if isinstance(one, torch.Tensor) else list(one)


def _second(arguments: Sequence[Any], _: int) -> Sequence[torch.Tensor]:
    return _first(arguments[1:], 0)


def _each_of_second(arguments: Sequence[Any], size: int) -> Sequence[torch.Tensor]:
    return list(_second(arguments, size)) * size


OPERATORS: dict[str, tuple[str, Sized]] = {
    "allreduce_": ("allreduce", _first),
    "allreduce_coalesced_": ("allreduce", _first),
    "broadcast_": ("broadcast", _first),
    "reduce_": ("reduce", _first),
    "allgather_": ("all_gather", _each_of_second),
    "allgather_coalesced_": ("all_gather", _each_of_second),
    "_allgather_base_": ("all_gather", _first),
    "allgather_into_tensor_coalesced_": ("all_gather", _first),
    "reduce_scatter_": ("reduce_scatter", lambda arguments, _: list(chain(*arguments[1]))),
    "_reduce_scatter_base_": ("reduce_scatter", _second),
    "reduce_scatter_tensor_coalesced_": ("reduce_scatter", _second),
    "alltoall_": ("all_to_all", _second),
    "alltoall_base_": ("all_to_all", _second),
    "gather_": ("gather", _each_of_second),
    "scatter_": ("scatter", lambda arguments, size: list(arguments[0]) * size),
    "send": ("send", _first),
    "recv_": ("recv", _first),
    "recv_any_source_": ("recv", _first),
    "barrier": ("barrier", lambda *_: []),
    "monitored_barrier_": ("barrier", lambda *_: []),
}
"""The kind of collective that each operator asks for, and the function that finds its size."""
WAITING: list[tuple[Any, str]] = [
    (dist, "_broadcast_coalesced"),
    (dist, "_verify_params_across_processes"),
    (torch._C._distributed_c10d.Reducer, "_rebuild_buckets"),
]
"""Functions of C++ that wait for the collectives that they ask for."""
SAME = {
    "all_gather_single": "_allgather_base",
    "all_gather_single_coalesced": "allgather_into_tensor_coalesced",
    "reduce_scatter_single": "_reduce_scatter_base",
    "reduce_scatter_single_coalesced": "reduce_scatter_tensor_coalesced",
    "all_to_all_single": "alltoall_base",
}
"""Newer names of methods, with the older ones."""
OLDER = {name.replace("any_source", "anysource").removesuffix("_"): op for name, (op, _) in OPERATORS.items()}
"""The kind of collective that each method of a group asks for."""
METHODS = {**OLDER, **{newer: OLDER[older] for newer, older in SAME.items()}}
