"""Gives a script our backend where it asks for Gloo, or for none: ``init_process_group`` is wrapped."""

from __future__ import annotations

import atexit
import functools
import importlib.abc
import inspect
import multiprocessing
import multiprocessing.util
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any
from weakref import ref

import torch
import torch.distributed as dist

from testbed.base import marks
from testbed.base.errors import NeighbourError, SpecError, TestbedError, WorkerError
from testbed.base.listing import shortened
from testbed.workloads.kinds.ranks import SUMS
from testbed.workloads.kinds.script.backend import futures
from testbed.workloads.kinds.script.backend.named import forked
from testbed.workloads.kinds.script.backend.numbering import Numbering
from testbed.workloads.kinds.script.backend.pace import Pace
from testbed.workloads.kinds.script.backend.rows import Rows
from testbed.workloads.rank_job import RankJob
from testbed.workloads.sync.tcp_info import added

NAME = "testbed"
TAKEN = ("", "gloo", "undefined", NAME)
"""Backends that a script may ask for, and gets ours instead."""
_DEFAULT = Path("/proc/sys/net/ipv4/tcp_congestion_control")
LOST = ("connection closed by peer", "connection reset", "timed out", "socket timeout", "broken pipe")
"""Words of Gloo's errors when another rank is the cause."""
MOST_NAMED = 3
"""Limit on the processes that an error names."""
ONE_RANK = "start one rank, without mp.spawn: testbed starts one on each host"
LAST = -100
"""Priority among multiprocessing's finalizers: the last one at the end of a process."""


class RefusedImportError(SpecError, ImportError):
    """A module whose collectives would go along no scheme."""


class NoOtherCollectives(importlib.abc.Loader):
    """Finder of modules (:data:`sys.meta_path`) that refuses torchcomms, which has process groups of its own, when it
    is imported. A script that only asks whether it is there is answered."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        if name != "torchcomms":
            return None
        others = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)
        if (spec := next(filter(None, others), None)) is not None:
            spec.loader = self
        return spec

    def exec_module(self, module: ModuleType) -> None:
        """
        Raises:
            RefusedImportError: always.
        """
        raise RefusedImportError(
            f"the script imports {module.__name__}, whose collectives go along no scheme",
            fix="use torch.distributed, or remove scheme from the arm",
        )


class Rank:
    """This process's rank, once its group is made."""

    def __init__(self, job: RankJob) -> None:
        self.job = job
        self.rows = Rows(job)
        self.engine: Any = None
        self.watch: Any = None
        self.error: BaseException | None = None
        self.pid = os.getpid()
        self._before: list[dict[str, Any]] = []
        self._numbers = Numbering()

    def begin(self) -> None:
        """Begin a default group, be it the first one or one after another was destroyed.

        Raises:
            SpecError: another one was, with which processes that add for the scheme have ended.
        """
        if self.engine is not None:
            self._before.append(self.engine.totals())
            if servers := self.engine.servers:
                raise SpecError(
                    f"the script makes its default process group again, and {shortened(servers, MOST_NAMED)} added for "
                    "the scheme until the first one was destroyed",
                    fix="keep the process group to the end, and make others with new_group()",
                )
        self._numbers.begin()
        self.engine = self.watch = self.error = None

    def forget(self) -> None:
        """Let go of files and connections in a process that the script forked: its locks may be held by threads that it
        does not have, and the connections would outlive the rank."""
        marks.sink = None
        if self.engine is not None:
            self.engine.forget()

    def totals(self) -> dict[str, Any]:
        """Add up the bytes that all engines of this process have sent, as :meth:`RankEngine.totals` has them for
        one."""
        last = {} if self.engine is None else self.engine.totals()
        totals = functools.reduce(_added, [*self._before, last])
        sent = totals.get("sent")
        return totals | {"sent": None if sent is None else {node: asdict(one) for node, one in sent.items()}}

    def group(self, options: Any, _: Any) -> dist.ProcessGroup:
        """Make a process group of all ranks or some
        (``torch.distributed.distributed_c10d._DistributedBackendOptions``)."""
        from testbed.workloads.kinds.script.backend.group import create

        members = list(options.global_ranks_in_group) or list(range(self.job.world))
        number = self._number(str(options.group_id), members)
        made = create((options.store, options.group_rank, options.group_size, options.timeout), self, number, members)
        self._numbers.keep(number, made)
        return made

    def keep_watch(self, group: dist.ProcessGroup, members: Sequence[int]) -> None:
        """Watch a group of PyTorch's own, of all ranks or some."""
        from testbed.workloads.kinds.script.backend.gloo import Watched, watch

        number, known = self._number(group.group_name, list(members) or list(range(self.job.world))), ref(group)
        watch(group, Watched(self.rows, number, lambda: known() not in dist.distributed_c10d._world.pg_map))
        self._numbers.keep(number, group)

    def _number(self, name: str, members: Sequence[int]) -> int:
        """Number a group that is made now, and report its members.

        Raises:
            SpecError: the script has forked this process from the rank, or another group has the number.
        """
        if self.pid != os.getpid():
            raise forked()
        is_default = len(members) == self.job.world and not dist.is_initialized()
        number = 0 if is_default else self._numbers.of(name, members)
        if number:
            self.rows.say("group", group=number, ranks=list(members))
        return number


def _added(some: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Add the totals of two engines, one after the other; unknown if those of one are."""
    if not some.get("sent") or not more.get("sent"):
        return {"wire_bytes": None, "sent": None}
    return {"wire_bytes": some["wire_bytes"] + more["wire_bytes"], "sent": added(some["sent"], more["sent"])}


def wrap() -> None:
    """Let ``torch.distributed.init_process_group`` give this process our backend."""
    job = RankJob.of_environment()
    assert job is not None  # or nobody would have called this
    theirs = dist.init_process_group

    @functools.cache
    def rank() -> Rank:
        return _begun(job)

    @functools.wraps(theirs)
    def init_process_group(*arguments: Any, **named: Any) -> None:
        asked = inspect.signature(theirs).bind(*arguments, **named)
        if dist.is_initialized():
            raise SpecError("the script makes its default process group twice", fix="call init_process_group() once")
        _check(job, asked.arguments)
        _check_environment(job, asked.arguments)
        rank().begin()
        if not job.library:
            asked.arguments["backend"] = NAME
        asked.arguments["timeout"] = asked.arguments.get("timeout") or timedelta(seconds=job.timeout_s)
        theirs(*asked.args, **asked.kwargs)
        rank().rows.say("hello", **_hello(job))

    for name, module in [*sys.modules.items()]:  # that of device meshes has its own name for it
        if name.startswith("torch.distributed") and vars(module).get("init_process_group") is theirs:
            vars(module)["init_process_group"] = init_process_group
    dist.rpc.init_rpc = _no_rpc
    _wrap_groups(rank, is_ours=not job.library)
    futures.wrap()
    for name in [*sys.modules]:
        if name.partition(".")[0] == "torchcomms":  # PyTorch imports it where it is installed
            del sys.modules[name]
    sys.meta_path.insert(0, NoOtherCollectives())


def _no_rpc(*_: Any, **__: Any) -> None:
    """Take the place of ``torch.distributed.rpc.init_rpc``.

    Raises:
        SpecError: always.
    """
    raise SpecError(
        "the script calls torch.distributed.rpc.init_rpc, and remote calls go along no scheme",
        fix="run it in an arm without a scheme: remove scheme from the arm",
    )


def _begun(job: RankJob) -> Rank:
    """Make this process a rank, which reports what it does until it ends."""
    rank = Rank(job)
    if not job.library:
        dist.Backend.register_backend(NAME, rank.group, extended_api=True, devices=["cpu"])
    marks.sink = rank.rows
    os.register_at_fork(after_in_child=rank.forget)
    _tell_errors(rank)
    if job.pace_s > 0:
        pace = Pace(job.pace_s, lambda late_s: rank.rows.say("pace", time=time.monotonic(), overrun_s=late_s))
        pace.wrap()
        rank.rows.asks = lambda op, nbytes: pace.ask(nbytes) if op in SUMS else None
    atexit.register(_leave, rank)
    # Processes that torch.multiprocessing starts end without what atexit has.
    multiprocessing.util.Finalize(None, _leave, args=(rank,), exitpriority=LAST)
    return rank


def _wrap_groups(rank: Callable[[], Rank], *, is_ours: bool) -> None:
    """Wrap the making of groups. With ``is_ours``, groups of some ranks get our backend, too, and PyTorch names, for
    all groups, the backend that the script asked for: it asks for that name again, and scripts look at it. Otherwise
    groups are PyTorch's own, and watched."""
    module: Any = dist.distributed_c10d
    theirs = module._new_process_group_helper

    @functools.wraps(theirs)
    def make(size: int, own: int, ranks: list[int], backend: str, *arguments: Any, **named: Any) -> Any:
        _check_backend(asked := str(backend or ""))
        if is_ours:
            backend = dist.Backend(NAME)
        elif "," in asked:
            backend = "cpu:gloo"  # no host has another device
        group, store = theirs(size, own, ranks, backend, *arguments, **named)
        if group in module._world.pg_map:
            if is_ours:
                module._world.pg_map[group] = "gloo", store
                module._world.pg_backend_config[group] = "cpu:gloo"
            else:
                rank().keep_watch(group, ranks)
        return group, store

    module._new_process_group_helper = make


def _check_backend(asked: str) -> None:
    """
    Raises:
        SpecError: no host here has it.
    """
    by_device = (part.rpartition(":") for part in asked.lower().split(","))
    parts = {device or "cpu": name for device, _, name in by_device}
    if parts.get("cpu", asked.lower()) not in TAKEN:
        raise SpecError(
            f"the script asks for the backend {asked.lower()!r}, and ranks here compute on CPUs and speak TCP",
            fix='write torch.distributed.init_process_group("gloo"), or leave the backend out',
        )


def _check_environment(job: RankJob, asked: Mapping[str, Any]) -> None:
    """
    Raises:
        SpecError: the script has changed a variable, as for ranks on one machine.
    """
    if asked.get("store") is not None or str(asked.get("init_method") or "env://") != "env://":
        return
    for name, own in (("MASTER_ADDR", job.addresses[0]), ("RANK", str(job.rank)), ("WORLD_SIZE", str(job.world))):
        found = os.environ.get(name, "")
        is_other = found != own and asked.get(name.lower(), -1) in (-1, None)
        if name == "MASTER_ADDR":  # which may have several names
            is_other = _is_loopback(found) and not _is_loopback(own)
        if is_other:
            raise SpecError(
                f"the script sets {name}={found}, and in this trial it is {own}",
                fix=ONE_RANK if _is_child() else f"remove that line, or write os.environ.setdefault({name!r}, ...)",
            )


def _is_child() -> bool:
    """Whether multiprocessing started this process, as ``mp.spawn`` does."""
    return multiprocessing.parent_process() is not None


def _is_loopback(address: str) -> bool:
    return address in ("localhost", "::1") or address.startswith("127.")


def _check(job: RankJob, asked: Mapping[str, Any]) -> None:
    """
    Raises:
        SpecError: the script asks for what no host here has, or for another number of ranks.
    """
    _check_backend(str(asked.get("backend") or ""))
    for name, own in (("world_size", job.world), ("rank", job.rank)):
        value = asked.get(name, -1)
        if value not in (-1, None, own):
            raise SpecError(
                f"the script gives init_process_group {name}={value}, and in this trial it is {own}",
                fix=ONE_RANK if _is_child() else f"leave {name} out: it is in the environment, as torchrun sets it",
            )


def _hello(job: RankJob) -> dict[str, Any]:
    from testbed.workloads.kinds.script.backend import watcher

    # Python makes rows that C++ would make if it were compiled for this PyTorch; with a pace, Python always does.
    has_slow_rows = job.library and not job.pace_s and watcher.load() is None
    # Sockets of Gloo's have the default of this network namespace.
    congestion_control = _DEFAULT.read_text().strip() if job.library else job.congestion_control
    return {
        **{"rank": job.rank, "node": job.node, "name": job.name, "device": "cpu", "torch": torch.__version__},
        **{"congestion_control": congestion_control, "time": time.monotonic()},
        **({"slow_rows": True} if has_slow_rows else {}),
    }


def _leave(rank: Rank) -> None:
    """Leave the group at the end of the script, if it is still in it, and write the last rows."""
    marks.sink = None
    if rank.pid != os.getpid():  # a process that the script forked ends, and not the rank
        return
    futures.end_callbacks(lambda: rank.rows.is_open, futures.SOON_S)
    if dist.is_initialized():
        with suppress(Exception):  # the process ends anyway
            dist.destroy_process_group()
    futures.end_callbacks(lambda: rank.rows.is_open)
    rank.rows.close(**rank.totals())


def _tell_errors(rank: Rank) -> None:
    """Report an exception that ends the script, besides its traceback."""
    before = sys.excepthook

    def told(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        with suppress(Exception):
            cause = _cause(error, (rank.error, rank.engine and rank.engine.error))
            rank.rows.fail(*_said(cause), elsewhere=_is_elsewhere(cause))
            if rank.engine is not None and rank.engine.error is None:  # others need not wait for it
                name, lines = rank.job.name, "".join(traceback.format_exception_only(error)).strip().splitlines()
                said = lines[-1][:500]
                rank.engine.fail(WorkerError(f"the script on {name} ended with {said}", fix=f"see the log of {name}"))
        before(kind, error, trace)

    sys.excepthook = told


def _cause(error: BaseException, known: Iterable[BaseException | None]) -> BaseException:
    """Find the error of a collective that a script ends with: C++ makes another one of it, which has its words."""
    return next((one for one in known if one is not None and _said(one)[0] in str(error)), error)


def _said(error: BaseException) -> tuple[str, str | None]:
    if isinstance(error, TestbedError):
        return error.problem, error.fix
    return "".join(traceback.format_exception_only(error)).strip()[:2000], None


def _is_elsewhere(error: BaseException) -> bool:
    """Whether this rank ends because another one did."""
    if isinstance(error, TestbedError):
        return isinstance(error, NeighbourError)
    return isinstance(error, RuntimeError) and any(words in str(error).lower() for words in LOST)
