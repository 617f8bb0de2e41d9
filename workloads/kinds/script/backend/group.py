# mypy: disable-error-code="override"
"""A process group whose collectives go along the trees of a scheme.

Methods have the arguments with which ``torch.distributed`` calls them; PyTorch's own stubs have more for each.

What the engine does not do (minima, products, types that it does not add, sparse tensors) goes to Gloo on the same
network, and its rows say so. Collectives between two hosts, and those that are made of them, go directly.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore

from testbed.base.errors import NeighbourError, SpecError, TestbedError, WorkerError
from testbed.workloads.kinds.script.backend.compare import Comparison, Look
from testbed.workloads.kinds.script.backend.gloo import OLDER, SAME, Watched, beside
from testbed.workloads.kinds.script.backend.named import Named, Place, telling
from testbed.workloads.kinds.script.backend.rows import Row
from testbed.workloads.kinds.script.backend.tensors import (
    Array,
    Arrays,
    Put,
    array_of,
    check,
    check_parts,
    check_whole,
    copy,
    divide,
    dtype_name,
    empty_array,
    is_summed,
    op_of,
    write,
)
from testbed.workloads.kinds.script.backend.untraced import untraced
from testbed.workloads.kinds.script.backend.works import Ours, Watch, joined
from testbed.workloads.kinds.script.collectives.calls import BARRIER, SUMMED, Call, What
from testbed.workloads.kinds.script.engine.channels import FIRST_OF_OURS, Slot
from testbed.workloads.kinds.script.engine.operation import Ending

if TYPE_CHECKING:
    from testbed.workloads.kinds.script.backend.initialise import Rank

Tensors = Sequence[torch.Tensor]
_OF_OURS = FIRST_OF_OURS
"""The tag of gathers and the like, whose messages are counted as all others of a tag are."""
_MONITORED = _OF_OURS + 1
ENDED = "this rank makes no collectives any more, for it does not know what other ranks have of the last ones:"
"""Beginning of later errors, which the error of the engine follows."""


def create(place: Place, who: Rank, number: int, members: Sequence[int]) -> Group:
    """Make a group of some ranks; the first one of a process meets its neighbours.

    Raises:
        WorkerError, TrialTimeoutError: a neighbour did not come.
    """
    if who.engine is None:
        from testbed.workloads.kinds.script.engine.rank import join

        who.engine = join(who.job)
        who.watch = Watch(who.engine.fail)
    return Group(place, who, number, members)


class Group(Named):
    """A group of some ranks, or of all."""

    def __init__(self, place: Place, who: Rank, number: int, members: Sequence[int]) -> None:
        _, rank, size, _ = place
        super().__init__(rank, size, who.rows, number)
        self._place, self._who, self._members = place, who, list(members)
        self._limit_s = place[3].total_seconds()
        self._trees = who.engine.group(number, self._members) if size > 1 else None
        self._arrays = Arrays()
        self._comparison = Comparison(who.job.check if number == 0 else 0, who.rows)
        self._gloo: dist.ProcessGroup | None = None
        self._has_left = False

    def shutdown(self) -> None:
        """Compare the sums that were kept, and leave. The default group's end is the engine's."""
        if self._is_forked:
            return
        if self._who.engine.error is None:
            self._compare()
        self._has_left, self._gloo = True, None
        self._who.engine.forget_group(self._number)
        if self._number == 0:
            self._who.watch.end()
            self._who.engine.close()

    def _compare(self) -> None:
        try:
            self._comparison.compare(self._by_gloo, self.size())
        except Exception as error:  # at the end of a process nobody else tells of it
            problem = f"the sums that check asks for could not be compared with Gloo's: {error!s:.1000}"
            fix = "let all ranks leave their process group at the same time, or leave check out"
            self._rows.fail(problem, fix, elsewhere=isinstance(error, NeighbourError))
            raise

    def abort(self) -> None:
        """Leave at once."""
        self._who.engine.fail(NeighbourError("the script aborted its process group", fix="see why it did"))

    # Sums

    def allreduce(self, tensors: Tensors, opts: Any = None) -> dist.Work:
        op = op_of(opts)
        if op and (known := self._arrays.of(tensors)) is not None:
            self._check_engine()
            return self._summed(tensors, known, op, opts)
        self._check(tensors)
        if op and is_summed(tensors):
            array = array_of(tensors)
            self._arrays.keep(tensors, array)
            return self._summed(tensors, array, op, opts)
        return self._by_gloo().allreduce(list(tensors), opts)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> dist.Work:
        self._check(tensors)
        if (op := op_of(opts)) and is_summed(tensors):
            return self._summed(tensors, array_of(tensors), op, opts)
        return self._by_gloo().allreduce_coalesced(list(tensors), opts)

    def _summed(self, tensors: Tensors, array: Array, op: str, opts: Any) -> dist.Work:
        kept = self._comparison.keep(array, divided=op == "avg")

        def finish() -> None:
            if op == "avg":
                divide(array.memory, self.size())
            if kept is not None:
                kept.found = array.memory.clone()
            array.copy_back()

        work = self._ask(Call(What.ALLREDUCE, array.dtype, array.numbers.size, op), array, tensors, opts, finish)
        if kept is not None:
            kept.row = work.row
        return work

    def reduce(self, tensors: Tensors, opts: Any) -> dist.Work:
        self._check(tensors, root=opts.rootRank)
        op = op_of(opts)
        if not op or dtype_name(tensors[0]) not in SUMMED:
            return self._by_gloo().reduce(list(tensors), opts)
        is_root = opts.rootRank == self.rank()
        array = array_of(tensors if is_root else [one.detach().clone() for one in tensors])  # others' tensors stay

        def finish() -> None:
            if op == "avg":
                divide(array.memory, self.size())
            array.copy_back()

        call = Call(What.REDUCE, array.dtype, array.numbers.size, op, opts.rootRank)
        return self._ask(call, array, tensors, opts, finish)

    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None) -> dist.Work:
        output, parts = outputs[0], inputs[0]
        self._check([output, *parts], parts)
        if len({one.numel() for one in parts}) > 1:
            return self._by_gloo().reduce_scatter(list(outputs), [list(parts)], opts)
        check_parts([output], parts[0], "reduce_scatter")
        return self._scattered(output, torch.cat([one.detach().reshape(-1) for one in parts]), opts)

    def _reduce_scatter_base(self, output: torch.Tensor, whole: torch.Tensor, opts: Any = None) -> dist.Work:
        self._check([output, whole], [whole])
        check_whole(whole, output, self.size(), "reduce_scatter")
        return self._scattered(output, whole.detach().reshape(-1).clone(), opts)  # the script's array stays

    def _scattered(self, output: torch.Tensor, whole: torch.Tensor, opts: Any) -> dist.Work:
        op = op_of(opts)
        if not op or dtype_name(whole) not in SUMMED:
            return self._by_gloo()._reduce_scatter_base(output, whole, opts)
        array = array_of([whole])
        begin = self.rank() * output.numel()
        part = slice(begin, begin + output.numel())
        own = array.memory[part]
        kept = self._comparison.keep(array, divided=op == "avg", part=part)

        def finish() -> None:
            if op == "avg":
                divide(own, self.size())
            if kept is not None:
                kept.found = own.clone()
            copy(output, own)

        call = Call(What.REDUCE_SCATTER, array.dtype, array.numbers.size, op)
        work = self._ask(call, array, [output], opts, finish)
        if kept is not None:
            kept.row = work.row
        return work

    # Copies

    def broadcast(self, tensors: Tensors, opts: Any) -> dist.Work:
        self._check(tensors, root=opts.rootRank)
        array = array_of(tensors)
        call = Call(What.BROADCAST, array.dtype, array.numbers.size, "", opts.rootRank)
        return self._ask(call, array, tensors, opts, array.copy_back)

    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> dist.Work:
        parts, own = list(outputs[0]), inputs[0]
        self._check([own, *parts], parts)
        check_parts(parts, own, "all_gather")
        whole = empty_array(own, own.numel() * self.size())

        def finish() -> None:
            for rank, part in enumerate(parts):
                copy(part, _piece(whole, rank, own.numel()))

        return self._gathered(own, whole, parts, opts, finish)

    def _allgather_base(self, output: torch.Tensor, own: torch.Tensor, opts: Any = None) -> dist.Work:
        self._check([own, output], [output])
        check_whole(output, own, self.size(), "all_gather")
        whole = array_of([output])
        return self._gathered(own, whole, [output], opts, lambda: whole.copy_back(copy))

    def _gathered(
        self, own: torch.Tensor, whole: Array, found: Tensors, opts: Any, finish: Callable[[], None]
    ) -> dist.Work:
        _piece(whole, self.rank(), own.numel()).copy_(own.detach().reshape(-1))
        return self._ask(Call(What.ALL_GATHER, whole.dtype, whole.numbers.size), whole, found, opts, finish)

    def barrier(self, opts: Any = None) -> dist.Work:
        self._check([])
        return self._ask(BARRIER, array_of([torch.ones(1, dtype=torch.int32)]), [], opts, lambda: None)

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        """Let rank 0 hear of all others, and then answer whether it has. A rank that is late ends nothing but this
        barrier.

        Raises:
            RuntimeError: rank 0 has not heard of a rank in time (of all of them, with ``wait_all_ranks``).
            TestbedError: a rank has ended.
        """
        self._check([])
        limit = self._place[3] if timeout is None else timeout
        if limit <= timedelta(0) and self.rank() == 0:
            raise RuntimeError("Rank 0 timed out in monitoredBarrier after 0 ms")
        end_s, others = time.monotonic() + limit.total_seconds(), range(1, self.size())
        word, answer = torch.ones(1, dtype=torch.uint8), torch.zeros(1, dtype=torch.uint8)
        if self.rank() != 0:
            self._sent(word, 0, _MONITORED, is_watched=False)
            answered = self._received(answer, 0, _MONITORED, is_watched=False)
            if answered.ends_within(end_s - time.monotonic()):
                answered.wait()
            if not answer.item():
                raise RuntimeError(
                    f"Rank {self.rank()} successfully reached monitoredBarrier, but received errors while waiting for "
                    "send/recv from rank 0. Please check rank 0 logs for faulty rank."
                )
            return
        heard = [self._received(torch.zeros_like(word), rank, _MONITORED, is_watched=False) for rank in others]
        late: list[int] = []
        for rank, one in zip(others, heard, strict=True):
            if one.ends_within(max(0.0, end_s - time.monotonic())):
                one.wait()
                continue
            late.append(rank)
            if not wait_all_ranks:
                break
        for rank in others:
            self._sent(torch.full_like(word, not late), rank, _MONITORED, is_watched=False)
        if late:
            names = ", ".join(map(str, late))
            whose = "Ranks" if wait_all_ranks else "Rank"
            raise RuntimeError(
                f"{whose} {names} failed to pass monitoredBarrier in {limit.total_seconds() * 1e3:.0f} ms"
            )

    # Several at once

    def allgather_coalesced(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> dist.Work:
        works = [self.allgather([[one[i] for one in outputs]], [own], opts) for i, own in enumerate(inputs)]
        return self._together(works, [])

    def allgather_into_tensor_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> dist.Work:
        works = [self._allgather_base(out, own, opts) for out, own in zip(outputs, inputs, strict=True)]
        return self._together(works, outputs)

    def reduce_scatter_tensor_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> dist.Work:
        works = [self._reduce_scatter_base(out, own, opts) for out, own in zip(outputs, inputs, strict=True)]
        return self._together(works, outputs)

    def _together(self, works: Sequence[dist.Work], found: Tensors) -> dist.Work:
        ours = [one for one in works if isinstance(one, Ours)]
        for one in works:
            if not isinstance(one, Ours):  # Gloo's
                one.wait()
        return joined(ours, ours[-1].row if ours else None, found, self._failed)  # whose wait is that for all

    # From rank to rank

    def send(self, tensors: Tensors, dst: int, tag: int = 0) -> dist.Work:
        self._check_message(tensors, tag)
        return self._sent(tensors[0], dst, tag, self._row("send", tensors, self._members[dst]))

    def recv(self, tensors: Tensors, src: int, tag: int = 0) -> dist.Work:
        self._check_message(tensors, tag)
        return self._received(tensors[0], src, tag, self._row("recv", tensors, self._members[src]))

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> dist.Work:
        self._check_message(tensors, tag)
        array = array_of(tensors)
        work = Ours(self._row("recv", tensors), tensors, self._failed, array.copy_back)
        slot, others = self._slot(tag), [one for one in self._members if one != self._members[self.rank()]]
        self._who.engine.receive_any(
            others, slot, array.numbers, work.complete, lambda rank: work.came_from(self._members.index(rank))
        )
        self._who.watch.over(work, self._limit_s, lambda: "a receive from any rank", lambda: "")
        return work

    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any) -> dist.Work:
        self._check([*inputs, *(outputs[0] if outputs else ())], inputs, opts.rootRank)
        root, tag, own = opts.rootRank, _OF_OURS, inputs[0]
        row = self._row("gather", list(inputs) * self.size(), root)
        if self.rank() != root:
            return self._sent(own, root, tag, row)
        parts = list(outputs[0])
        works = [self._received(part, rank, tag, put=copy) for rank, part in enumerate(parts) if rank != root]
        return joined(works, row, parts, self._failed, lambda: copy(parts[root], own.reshape(-1)))

    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> dist.Work:
        self._check([*outputs, *(inputs[0] if inputs else ())], outputs, opts.rootRank)
        root, tag, own = opts.rootRank, _OF_OURS, outputs[0]
        row = self._row("scatter", list(outputs) * self.size(), root)
        if self.rank() != root:
            return self._received(own, root, tag, row)
        works = [self._sent(part, rank, tag) for rank, part in enumerate(inputs[0]) if rank != root]
        return joined(works, row, outputs, self._failed, lambda: write(own, inputs[0][root].reshape(-1)))

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> dist.Work:
        self._check([*outputs, *inputs], inputs)
        return self._exchanged(list(outputs), list(inputs), self._row("all_to_all", inputs), put=copy)

    def alltoall_base(
        self, output: torch.Tensor, whole: torch.Tensor, outs: Sequence[int], ins: Sequence[int], opts: Any = None
    ) -> dist.Work:
        del opts
        self._check([output, whole], [whole])
        if not whole.is_contiguous():
            raise ValueError("Tensors must be contiguous")  # as Gloo does
        row = self._row("all_to_all", [whole])
        return self._exchanged(_cut(output, outs, self.size()), _cut(whole, ins, self.size()), row)

    def _exchanged(self, outputs: Tensors, inputs: Tensors, row: Row, put: Put = write) -> dist.Work:
        tag, own = _OF_OURS, self.rank()
        works = [self._received(one, rank, tag, put=put) for rank, one in enumerate(outputs) if rank != own]
        works += [self._sent(one, rank, tag) for rank, one in enumerate(inputs) if rank != own]
        return joined(works, row, outputs, self._failed, lambda: put(outputs[own], inputs[own].reshape(-1)))

    def _sent(
        self, tensor: torch.Tensor, to: int, tag: int, row: Row | None = None, *, is_watched: bool = True
    ) -> Ours:
        array = array_of([tensor.detach().contiguous()])
        work = Ours(row, [tensor], self._failed)
        operation = self._who.engine.send(self._members[to], self._slot(tag), array.numbers, work.complete, work.begun)
        whom = f"a send to rank {self._members[to]}"
        return self._watched(work, lambda: whom, None, operation) if is_watched else work

    def _received(
        self,
        tensor: torch.Tensor,
        source: int,
        tag: int,
        row: Row | None = None,
        *,
        is_watched: bool = True,
        put: Put = write,
    ) -> Ours:
        array = array_of([tensor])
        work = Ours(row, [tensor], self._failed, lambda: array.copy_back(put), source)
        slot = self._members[source], self._slot(tag)
        operation = self._who.engine.receive(*slot, array.numbers, work.complete, work.begun)
        whom = f"a receive from rank {self._members[source]}"
        return self._watched(work, lambda: whom, None, operation) if is_watched else work

    def _slot(self, tag: int) -> Slot:
        return Slot(self._number, tag)

    def _row(self, op: str, tensors: Tensors, root: int | None = None) -> Row:
        nbytes = sum(one.numel() * one.element_size() for one in tensors)
        more = {} if root is None else {"root": root}
        dtype = dtype_name(tensors[0])
        return self._rows.call(op, dtype, nbytes, self.size(), group=self._number, by="direct", **more)

    # Common

    def _check(self, tensors: Tensors, whole: Tensors | None = None, root: int = 0) -> None:
        """Check tensors before they are moved; ``whole`` are those whose numbers move, if not all do. The ``root`` is a
        rank of this group.

        Raises:
            SpecError: a tensor cannot be moved.
            WorkerError: no collective can be made any more.
        """
        self._check_engine()
        if not 0 <= root < len(self._members):
            problem = f"a collective with the root rank {root}, and its group has {len(self._members)} ranks"
            raise SpecError(problem, fix=f"give it a rank from 0 to {len(self._members) - 1}")
        check(tensors, tensors if whole is None else whole)

    def _check_message(self, tensors: Tensors, tag: int) -> None:
        """Check a message from rank to rank, as :meth:`_check` does.

        Raises:
            RuntimeError: it is not in one piece of memory. Gloo takes no such message, either.
            SpecError: no message has such a tag.
        """
        self._check(tensors)
        if not all(one.is_contiguous() for one in tensors):
            raise RuntimeError("input tensor has to be contiguous")
        if not 0 <= tag < FIRST_OF_OURS:
            raise SpecError(
                f"a message with the tag {tag}, and tags are from 0 to {FIRST_OF_OURS - 1:,}",
                fix="give send and recv such a tag",
            )

    def _check_engine(self) -> None:
        """
        Raises:
            WorkerError: no collective can be made any more.
        """
        if (why := self._who.engine.error) is not None:
            raise _after(why)

    def _ask(self, call: Call, array: Array, found: Tensors, opts: Any, finish: Callable[[], None]) -> Ours:
        """Hand a collective to the engine."""
        by = "scheme" if self._trees is None else self._who.engine.by(self._trees, call)
        more = {"root": call.root} if call.root >= 0 else {}
        nbytes, size = array.memory.nbytes, len(self._members)
        row = self._rows.call(call.what.name.lower(), array.dtype, nbytes, size, group=self._number, by=by, **more)
        by_integers = by == "scheme" and self._trees is not None and self._trees.forest.fixed is not None
        look = Look(call, array.memory, lambda where: self._nonfinite(row, where), by_integers=by_integers)

        def end() -> None:
            finish()
            look.at_sum()

        work = Ours(row, found, self._failed, end)
        if self._trees is None or not array.numbers.size:
            work.begun()
            if look.is_needed:
                look.at_input(0, array.numbers.size)
            work.complete(None)
            return work
        ending = Ending(work.complete, work.begun, work.came, look.at_input if look.is_needed else None)
        operation = array.last = self._who.engine.submit(self._trees, call, array.numbers, ending, array.last)
        return self._watched(work, lambda: f"{call.describe()} in group {self._number}", opts, operation)

    def _nonfinite(self, row: Row, where: str) -> None:
        self._rows.say("nonfinite", group=self._number, seq=row.sequence, where=where)

    def _watched(self, work: Ours, what: Callable[[], str], opts: Any, operation: Any) -> Ours:
        given = getattr(opts, "timeout", None)
        limit_s = given.total_seconds() if given and given > timedelta(0) else self._limit_s
        self._who.watch.over(work, limit_s, what, lambda: str(self._who.engine.waits_for(operation)))
        return work

    def _failed(self, row: Row | None, error: BaseException) -> None:
        """Report a failed collective, unless the script has left the group: nobody waits then for what is on its
        way."""
        self._who.error = error
        if row is not None and not self._has_left:
            self._rows.failed(row, error)

    def _by_gloo(self) -> dist.ProcessGroup:
        """Return a group of Gloo's of the same ranks, made when it is first needed."""
        if self._gloo is None:
            store, rank, size, timeout = self._place
            place = (PrefixStore("gloo", store), rank, size, timeout)
            self._gloo = beside(
                place,
                Watched(self._rows, self._number, lambda: self._has_left, frozenset(), lambda: self._who.engine.error),
            )
        return self._gloo


def _after(why: BaseException) -> WorkerError:
    """Make the error for a script that goes on after an error which no connection of this process has outlived."""
    if isinstance(why, TestbedError):
        return WorkerError(f"{ENDED} {why.problem}", fix=why.fix)
    return WorkerError(f"{ENDED} {why!r}")


def _piece(array: Array, rank: int, count: int) -> torch.Tensor:
    return array.memory[rank * count : (rank + 1) * count]


def _cut(tensor: torch.Tensor, splits: Sequence[int], size: int) -> list[torch.Tensor]:
    """Cut a tensor along its first dimension; into even parts without splits."""
    sizes = list(splits) or [tensor.shape[0] // size] * size
    return list(torch.split(tensor.detach(), sizes))


for _name, _kind in OLDER.items():
    setattr(Group, _name, telling(getattr(Group, _name), _kind))
for _newer, _name in SAME.items():
    setattr(Group, _newer, getattr(Group, _name))
untraced(Group)
