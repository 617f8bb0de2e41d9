"""Start of a box's processes and of its workers: they meet, get access, and take their parts."""

from __future__ import annotations

import socket
import time
from bisect import bisect_left
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from testbed.base.errors import TrialTimeoutError
from testbed.base.process_names import in_job
from testbed.workloads import tasks
from testbed.workloads.job import WorkerJob
from testbed.workloads.kinds.phub import api
from testbed.workloads.kinds.phub.api import Handle
from testbed.workloads.kinds.phub.client import Client
from testbed.workloads.kinds.phub.core import Core, Ends, Manager
from testbed.workloads.kinds.phub.exchange import End, meet
from testbed.workloads.kinds.phub.memory import Memory, shared
from testbed.workloads.kinds.phub.plan import Plan
from testbed.workloads.sync.connection import LINGER_S, UNSENT_BYTES, Act, Connection

if TYPE_CHECKING:
    from testbed.workloads.tasks.base import Participant

_NAMESPACES = count()
"""Numbers of namespaces: a manager has a part in each job."""
_LATER_S = LINGER_S + 1.0
"""Seconds that workers wait longer than cores. Cores know whose key is missing, so they are to give up first, and they
end only after :data:`LINGER_S` if a worker does not acknowledge what they have sent."""


class Worker(Client):
    """A worker's session: a bucket's keys are pushed and pulled when all of them are ready.

    With ``overlap: layer`` its samples have the times at which each layer was ready, had gone to the kernel, and was
    back. A layer is a bucket; layers count from 1.
    """

    def __init__(self, job: WorkerJob, ends: list[End], plan: Plan, part: Participant) -> None:
        super().__init__(job.name, ends, plan, part.gradient, part.weights)
        stops = [stop for _, stop in job.buckets]
        self._keys: list[list[int]] = [[] for _ in stops]
        for number, key in enumerate(plan.keys):
            self._keys[bisect_left(stops, key.span[1])].append(number)
        self._layers = {key: number for number, keys in enumerate(self._keys, 1) for key in keys}
        self._is_told = job.overlap == "layer"
        self._moments: dict[str, float] = {}

    @property
    def seen(self) -> dict[str, float]:
        """The moments of layers in the last iteration; of a layer's keys, the last one counts."""
        return dict(self._moments)

    def _note(self, what: str, layer: int) -> None:
        if self._is_told:
            self._moments[f"{what}_s_{layer}"] = time.monotonic()

    def _after(self, key: int) -> Act | None:
        return partial(self._note, "pushed", self._layers[key]) if self._is_told else None

    def _came(self, connection: Connection, kind: int, number: int) -> None:
        self._note("back", self._layers[number])
        super()._came(connection, kind, number)

    def start(self, bucket: int) -> None:
        """Push and pull the keys of which this bucket is the last part; returns at once."""
        self._note("ready", bucket + 1)
        api.push_pull(self, self._keys[bucket], block=False)

    def wait(self, timeout_s: float) -> float:
        return api.wait(self, timeout_s + _LATER_S)


def join(job: WorkerJob, plan: Plan, part: Participant | None) -> Client | Core | Manager:
    """Meet the other processes of the trial, and get access to the service.

    Raises:
        TrialTimeoutError, WorkerError: one of them did not come, or came with a wrong nonce.
        PrivilegeError: the kernel refuses the congestion control.
    """
    job = replace(job, name=in_job(job.job, job.name))  # as the plan names it
    ends = meet(job, plan)
    cores = [ends[name] for name in plan.cores_at if name in ends]
    if part is not None:
        return _worker(job, plan, part, ends, cores)
    if job.name == plan.manager:
        handle = Handle.new(next(_NAMESPACES))
        api.hand_on(handle, [*cores, ends[plan.nodes[plan.workers[0]]]])
        return Manager(job.name, cores, plan, job.training.iterations)
    return _core(job, plan, ends)


def _worker(job: WorkerJob, plan: Plan, part: Participant, ends: dict[str, End], cores: list[End]) -> Worker:
    names = [plan.nodes[node] for node in plan.workers]
    if job.rank == 0:
        handle = api.create_service(ends[plan.manager], job.start_timeout_s)
        others = [ends[plan.manager], *(ends[name] for name in names[1:])]
        api.hand_on(handle, others[1:])
    else:
        others = [ends[names[0]]]
        handle = api.take_handle(others[0], job.start_timeout_s)
    api.connect_service(handle, cores)
    for end in others:
        end.sock.close()
    return Worker(job, cores, plan, part)


def _core(job: WorkerJob, plan: Plan, ends: dict[str, End]) -> Core:
    deadline = time.monotonic() + job.start_timeout_s
    handle = Handle.read(ends[plan.manager].sock, plan.manager, deadline)
    workers = [ends[name] for name in (plan.nodes[node] for node in plan.workers) if name in ends]
    for end in workers:
        handle.check(Handle.read(end.sock, end.name, deadline), end.name)
    place, mates = plan.cores_at[job.name], [ends[name] for name in plan.mates(job.name)]
    spans = {number: plan.keys[number].span for number in plan.keys_of(job.name)}
    floats = {number: stop - start for number, (start, stop) in spans.items()}
    descriptor = _together(floats, place.nic == 0, mates, deadline) if mates else None
    memory = Memory(floats, plan.parts(job.name), descriptor)
    task = tasks.stepping(job.training)
    held = dict(zip(spans, task.stepped(job, [*spans.values()], memory.room), strict=True))
    sketch = None
    if task.SKETCHED:
        from testbed.workloads.learning.sketch import PartSketch  # which imports PyTorch

        sketch = PartSketch(job.buckets)
    across = {box: ends[name] for box, name in plan.across_from(job.name).items()}
    for end in across.values():  # values wait until a sum has left: that it is in the kernel is not enough
        end.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
    joined = Ends(job.name, workers, ends[plan.manager], mates, across)
    return Core(joined, plan, held, memory, job.training.iterations, sketch)


def _together(floats: dict[int, int], is_first: bool, mates: list[End], deadline: float) -> int:
    """Return the descriptor of memory that a core shares with its mates: the first one makes it.

    Raises:
        TrialTimeoutError: the first one did not.
    """
    if is_first:
        descriptor = shared(floats)
        for end in mates:
            socket.send_fds(end.sock, [b"+"], [descriptor])
        return descriptor
    end = mates[0]
    end.sock.settimeout(max(0.001, deadline - time.monotonic()))
    try:
        _, (descriptor,), _, _ = socket.recv_fds(end.sock, 1, 1)
    except (OSError, ValueError) as error:
        raise TrialTimeoutError(f"{end.name} gave no memory", fix=f"see why {end.name} ended") from error
    return descriptor
