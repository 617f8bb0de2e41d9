"""The engine of a rank: a thread that moves bytes while the script computes, and the interface for its requests."""

from __future__ import annotations

import os
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from socket import socket
from typing import Any

import numpy as np

from testbed.base.errors import WorkerError
from testbed.workloads import kinds
from testbed.workloads.kinds.script.collectives.calls import Call, What
from testbed.workloads.kinds.script.collectives.shapes import Shape, direct, kept, shape
from testbed.workloads.kinds.script.collectives.trees import of_group, ring_of, too_wide
from testbed.workloads.kinds.script.engine import store
from testbed.workloads.kinds.script.engine.carrier import Carrier
from testbed.workloads.kinds.script.engine.channels import Slot, channel
from testbed.workloads.kinds.script.engine.operation import Ending, Key, Numbers, Operation
from testbed.workloads.kinds.script.engine.remote import Remote
from testbed.workloads.rank_job import RankJob
from testbed.workloads.sync import transport
from testbed.workloads.sync.connection import Connection
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.tcp_info import Sent, added

Done = Callable[[BaseException | None], None]
_LEAVE_S = 5.0


@dataclass
class Group:
    """Ranks that make calls together.

    Attributes:
        number: the same at all of them, and no other group's.
        members: ranks, in the order of the group.
        forest: the trees of its allreduce.
        by: ``scheme``, or ``ring`` if the scheme has no trees among these ranks.
        shape: makes the shape of a call, once (:func:`.shapes.kept`).
        calls: how many it has made.
    """

    number: int
    members: Sequence[int]
    forest: Forest
    by: str
    shape: Callable[[Call], Shape]
    calls: int = 0


class RankEngine:
    """Interface of a rank's engine. All methods may be called from any thread, in the order of the script."""

    def __init__(self, job: RankJob, plan: Forest, sockets: Mapping[int, socket]) -> None:
        self._job, self._plan = job, plan
        self._remote = Remote(job, plan)
        self._carrier = _RankCarrier(job.node, plan.nodes, sockets, self._remote)
        self._lock = threading.Lock()
        self._stored: dict[int, Sent] = {}
        """Bytes of PyTorch's store, by node, once this has left."""
        self._messages: dict[int, Counter[int]] = defaultdict(Counter)
        """Number of messages that each channel has had, by group."""
        self._thread = threading.Thread(target=self._carrier.run, name="testbed-engine", daemon=True)
        self._thread.start()

    def group(self, number: int, members: Sequence[int]) -> Group:
        """Make a group of some ranks, which all of them make with the same number."""
        nodes = [self._plan.workers[rank] for rank in members]
        forest, is_schemes = of_group(self._plan, nodes)

        def make(call: Call) -> Shape:
            own = ring_of(forest, forest.workers) if too_wide(forest, call) else forest
            return shape(own, call, self._job.chunk_bytes, self._job.node)

        return Group(number, tuple(members), forest, "scheme" if is_schemes else "ring", kept(make))

    def forget_group(self, number: int) -> None:
        """Forget a group that the script has left; it makes no more calls in it. The group's number stands for no other
        one."""
        with self._lock:
            self._messages.pop(number, None)

    def by(self, group: Group, call: Call) -> str:
        """Name the trees along which a call goes: ``scheme`` or ``ring``."""
        return "ring" if too_wide(group.forest, call) else group.by

    def submit(
        self, group: Group, call: Call, array: Numbers, ending: Ending, last: Operation | None = None
    ) -> Operation:
        """Make a call of a group of several ranks, in place; ``array`` has one dimension, and has the result when the
        call ends. The callbacks are called on the engine's thread. ``last`` is the last call with this array, which
        becomes this one if it can."""
        narrow = group.forest.fixed is not None and bool(call.op) and call.dtype in ("float16", "bfloat16")
        if narrow:  # switches get integers of 32 bits, made of floats of 32 bits
            halves, array = array, array.astype(np.float32)
            call, ending = call._replace(dtype="float32"), replace(ending, done=_narrowed(halves, array, ending.done))
        with self._lock:
            number, group.calls = group.calls, group.calls + 1
            own = group.shape(call)
            key = (group.number, number & 0xFFFFFFFF)
            if last is not None and last.is_free and last.shape is own and not narrow:
                (op := last).renew(key, ending)
            else:
                op = Operation(key, own, self._plan.nodes[self._job.node], array, ending)
            self._carrier.submit(op)
        return op

    def send(
        self, rank: int, slot: Slot, array: Numbers, done: Done, begun: Callable[[], None] = lambda: None
    ) -> Operation:
        """Send numbers to a rank, which receives as many bytes in that slot."""
        return self._directly(self._job.rank, rank, slot, array, Ending(done, begun))

    def receive(
        self, rank: int, slot: Slot, array: Numbers, done: Done, begun: Callable[[], None] = lambda: None
    ) -> Operation:
        """Receive the numbers that a rank sends in that slot."""
        return self._directly(rank, self._job.rank, slot, array, Ending(done, begun))

    def receive_any(
        self,
        ranks: Sequence[int],
        slot: Slot,
        array: Numbers,
        done: Done,
        matched: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Receive the numbers that the first of some ranks sends in that slot; ``matched`` is called with that rank,
        before ``done``."""

        def look() -> bool:
            for source in ranks:
                number = self._channel(source, self._job.rank, slot)
                if self._carrier.is_announced((number, self._messages[slot.group][number])):
                    matched(source)
                    self.receive(source, slot, array, done)
                    return True
            return False

        nodes = [self._plan.workers[rank] for rank in ranks]
        self._carrier.call_soon(lambda: self._carrier.look_for(look, done, nodes))

    def _channel(self, source: int, target: int, slot: Slot) -> int:
        """Return the number of the group in which one rank's messages to another are the calls."""
        return channel(self._plan.workers[source], self._plan.workers[target], self._job.node, slot)

    def _directly(self, source: int, target: int, slot: Slot, array: Numbers, ending: Ending) -> Operation:
        number = self._channel(source, target, slot)
        data = array.view(np.uint8) if array.size else np.zeros(1, np.uint8)  # that there is nothing is told, too
        call = Call(What.SEND, "other", len(data))
        ends = (self._plan.workers[source], self._plan.workers[target])
        names = self._plan.nodes
        with self._lock:
            count = self._messages[slot.group][number]
            self._messages[slot.group][number] += 1
            own = direct(names, ends, call, self._job.chunk_bytes, self._job.node)
            op = Operation((number, count & 0xFFFFFFFF), own, names[self._job.node], data, ending)
            self._carrier.submit(op)
        return op

    def waits_for(self, op: Operation) -> str:
        """Name the hosts whose ranks have not made a call, as far as this one knows; empty if all neighbours have."""
        return ", ".join(self._plan.nodes[node] for node in op.shape.neighbours if node not in op.told)

    def fail(self, error: BaseException) -> None:
        """End all calls with this error, and make no more."""

        self._carrier.call_soon(lambda: self._carrier.throw(error))

    @property
    def servers(self) -> Sequence[str]:
        """Names of its neighbours that have no rank."""
        others = (peer.node for peer in self._job.peers if peer.node not in self._plan.workers)
        return [self._plan.nodes[node] for node in others]

    @property
    def error(self) -> BaseException | None:
        """Error because of which no call can be made any more."""
        return self._carrier.error

    def forget(self) -> None:
        """Let go of the connections in a process that was forked from the rank: they would outlive the rank."""
        self._carrier.forget()
        self._remote.close(shut=False)

    def close(self) -> None:
        """Leave: the calls that were made end first."""
        self._stored = self._of_store()
        self._carrier.leave()
        self._thread.join(_LEAVE_S)
        self._remote.close()

    def totals(self) -> dict[str, Any]:
        """Return ``wire_bytes``, and ``sent`` by node, after :meth:`close`."""
        totals = self._carrier.totals
        if not totals.get("sent"):
            return totals
        return {**totals, "sent": added(totals["sent"], self._stored)}

    def _of_store(self) -> dict[int, Sent]:
        """Count what the store has sent so far, by node; PyTorch closes it with the group."""
        port = os.environ.get("MASTER_PORT", "")
        nodes = dict(zip(self._job.addresses, self._plan.workers, strict=True))
        others = {address: node for address, node in nodes.items() if node != self._job.node}
        return store.sent(int(port), others) if port.isdecimal() else {}


class _RankCarrier(Carrier):
    """Carrier that connects with any other rank when a call needs that."""

    def __init__(self, node: int, names: Sequence[str], sockets: Mapping[int, socket], remote: Remote) -> None:
        super().__init__(node, names, sockets)
        self._remote = remote
        self._looking: list[tuple[Callable[[], bool], Done]] = []
        remote.listen(lambda other, sock: self.call_soon(lambda: self.adopt(other, sock)))

    def is_announced(self, key: Key) -> bool:
        """Whether another process has made a call that this one has not."""
        return key in self._signatures

    def look_for(self, look: Callable[[], bool], failed: Done, nodes: Sequence[int]) -> None:
        """Call ``look`` now, and again when one of the ``nodes`` has made a call, until it is true."""
        if self.error is not None:
            failed(self.error)
        elif not look():
            self._looking.append((look, failed))
            for node in nodes:
                self._meet(node)

    def _announced(self, connection: Connection, key: Key, signature: bytes) -> None:
        super()._announced(connection, key, signature)
        for one in self._looking:
            if one[0]():
                self._looking.remove(one)
                return

    def _let_go(self) -> None:
        super()._let_go()
        assert self.error is not None
        looking, self._looking = self._looking, []
        for _, failed in looking:
            failed(self.error)

    def _reach(self, node: int) -> None:
        """Connect if this node has the lower index. The other node makes the same call, and waits for that."""
        if self._node < node:
            self._remote.dial(
                node,
                lambda sock: self.call_soon(lambda: self.adopt(node, sock)),
                lambda error: self.call_soon(lambda: self._missed(node, error)),
            )

    def _missed(self, node: int, error: BaseException) -> None:
        """Note that a node cannot be reached, which matters if something is for it."""
        if self._absent.pop(node, None):
            self.throw(error)


def _narrowed(array: Numbers, wide: Numbers, done: Done) -> Done:
    def narrow(error: BaseException | None) -> None:
        if error is None:
            array[:] = wide.astype(array.dtype)
        done(error)

    return narrow


def join(job: RankJob) -> RankEngine:
    """Meet the neighbours, and start.

    Raises:
        TrialTimeoutError, WorkerError: one of them did not come.
        PrivilegeError: the kernel refuses the congestion control.
    """
    plan = kinds.load(Path(job.plan))
    if not isinstance(plan, Forest):
        raise WorkerError(f"{job.plan} has no trees", fix="take a synchronous scheme")
    sockets = transport.connect(job.node, job.peers, plan.nodes, job.congestion_control, job.start_timeout_s)
    return RankEngine(job, plan, sockets)
