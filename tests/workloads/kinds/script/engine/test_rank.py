"""Engines of ranks, and of servers without one, over loopback TCP: calls of every kind, in every order."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from functools import cache
from socket import socket
from typing import Any

import numpy as np
import pytest

from testbed.base.errors import NeighbourError, TestbedError, WorkerError
from testbed.topologies.build import build as build_topology
from testbed.workloads.job import Peer
from testbed.workloads.kinds.script.collectives.calls import BARRIER, Call, What
from testbed.workloads.kinds.script.engine.carrier import Carrier
from testbed.workloads.kinds.script.engine.channels import FIRST_OF_OURS, Slot
from testbed.workloads.kinds.script.engine.operation import Ending, dtype_of
from testbed.workloads.kinds.script.engine.rank import Group, RankEngine
from testbed.workloads.kinds.script.engine.server import Server
from testbed.workloads.kinds.script.plan import scripted
from testbed.workloads.rank_job import RankJob
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.schemes import build
from tests.patience import PATIENCE_S

LIMIT_S = 5.0
CHUNK_BYTES = 16 * 1024
IN_NETWORK = [
    ("switchml", "star(hosts=4,ina=all)"),
    ("atp", "spine_leaf(racks=2,hosts_per_rack=2,spines=1,ina=all)"),
    ("rina", "spine_leaf(racks=2,hosts_per_rack=2,spines=1,ina=all)"),
]
CASES = [
    ("ring", "star(hosts=4)"),
    ("ps(colocated=false,servers=2)", "star(hosts=6)"),
    ("halving_doubling", "star(hosts=4)"),
    ("two_level", "spine_leaf(racks=2,hosts_per_rack=2,spines=1)"),
    ("bml", "bcube(n=2,k=2)"),
    *IN_NETWORK,
]
OnEveryNode = Callable[..., dict[int, object]]
LoopbackPeers = Callable[[Forest, int], Sequence[Peer]]


class Rank:
    """A rank's engine, as the backend uses it."""

    def __init__(self, forest: Forest, node: int, sockets: dict[int, socket], address: Callable[[int], str]) -> None:
        self.rank = forest.workers.index(node)
        self.world = len(forest.workers)
        job = RankJob(
            node=node,
            name=forest.nodes[node],
            rank=self.rank,
            world=self.world,
            kind="script",
            plan="",
            peers=(),
            addresses=tuple(address(worker) for worker in forest.workers),
            chunk_bytes=CHUNK_BYTES,
            congestion_control="reno",
            start_timeout_s=LIMIT_S,
            timeout_s=LIMIT_S,
            samples="",
        )
        self.engine = RankEngine(job, forest, sockets)
        self.whole = self.engine.group(0, range(self.world))

    def ask(self, call: Call, array: np.ndarray[Any, Any], group: Group | None = None) -> Callable[[], None]:
        """Make a call; what is returned waits for its end."""
        ended, seen = threading.Event(), []

        def done(error: BaseException | None) -> None:
            seen.append(error)
            ended.set()

        self.engine.submit(group or self.whole, call, array, Ending(done))
        return lambda: self.wait(ended, seen)

    @staticmethod
    def wait(ended: threading.Event, seen: list[BaseException | None]) -> None:
        if not ended.wait(LIMIT_S):
            raise TimeoutError("a call hangs")
        if seen[0] is not None:
            raise seen[0]

    def directly(
        self, verb: str, rank: int, tag: int, array: np.ndarray[Any, Any], group: int = 0
    ) -> Callable[[], None]:
        ended, seen = threading.Event(), []

        def done(error: BaseException | None) -> None:
            seen.append(error)
            ended.set()

        getattr(self.engine, verb)(rank, Slot(group, tag), array, done)
        return lambda: self.wait(ended, seen)


@pytest.fixture
def run(
    on_every_node: OnEveryNode, loopback_peers: LoopbackPeers
) -> Callable[[str, str, Callable[[Rank], object]], list[Any]]:
    """Has each rank of a scheme on a topology do something; returns what each returned or raised, by rank."""

    def run(scheme: str, topology: str, script: Callable[[Rank], object]) -> list[Any]:
        forest = scripted(build(scheme, build_topology(topology, rate_bps=10**9), []))
        some = next(peer for node in range(len(forest.nodes)) for peer in loopback_peers(forest, node))
        prefix = some.local.rpartition(".")[0]

        def work(node: int, sockets: dict[int, socket]) -> object:
            if node not in forest.workers:
                with Server(node, forest, sockets, CHUNK_BYTES) as server:
                    return [*server.serve(0, 0, 0, LIMIT_S), *kept(server)]
            rank = Rank(forest, node, sockets, lambda worker: f"{prefix}.{worker + 1}")
            try:
                return script(rank)
            finally:
                rank.engine.close()

        taking_part = [
            node
            for node in range(len(forest.nodes))
            if node in forest.workers or (forest.reduce[:, node] != -2).any() or (forest.broadcast[:, node] != -2).any()
        ]
        found = on_every_node(forest, taking_part, work)
        others = [found[node] for node in taking_part if node not in forest.workers]
        results = [found[worker] for worker in forest.workers]
        if not any(isinstance(one, Exception) for one in results):
            assert others == [[]] * len(others)
        return results

    return run


Run = Callable[[str, str, Callable[[Rank], object]], list[Any]]


def kept(carrier: Carrier) -> list[str]:
    """What a process still has of calls that are over."""
    places = ("_ops", "_summed", "_signatures", "_early", "_over", "_absent", "_into")
    found = [place for place in places if getattr(carrier, place)]
    return found + [f"_unanswered by {node}" for node, some in carrier._unanswered.items() if some]


def numbers(rank: int, count: int, dtype: str, seed: int = 0) -> np.ndarray[Any, Any]:
    """Small whole numbers, whose sums any type has exactly."""
    return np.random.default_rng([seed, rank]).integers(-4, 5, count).astype(dtype_of(dtype))


@cache
def total(world: int, count: int, dtype: str, seed: int = 0) -> np.ndarray[Any, Any]:
    """Sum of all ranks' numbers, computed once for all ranks, which are threads."""
    return np.sum([numbers(rank, count, "float64", seed) for rank in range(world)], axis=0).astype(dtype_of(dtype))


@pytest.mark.parametrize(("scheme", "topology"), CASES)
def test_every_kind_of_call(run: Run, scheme: str, topology: str) -> None:
    def script(rank: Rank) -> None:
        world = rank.world
        for dtype in ("float32", "float64", "float16", "bfloat16", "int32", "int64"):
            for count in (1, 7, 3_000, 50_003):
                array = numbers(rank.rank, count, dtype)
                rank.ask(Call(What.ALLREDUCE, dtype, count, "sum"), array)()
                assert (np.abs(array - total(world, count, dtype)) <= 1e-3).all(), (dtype, count)
        for root in range(world):
            array = numbers(rank.rank, 20_001, "int64")
            rank.ask(Call(What.BROADCAST, "int64", 20_001, root=root), array)()
            assert (array == numbers(root, 20_001, "int64")).all()
            array = numbers(rank.rank, 20_001, "int64")
            rank.ask(Call(What.REDUCE, "int64", 20_001, "sum", root), array)()
            assert rank.rank != root or (array == total(world, 20_001, "int64")).all()
        piece = 10_001
        own = slice(rank.rank * piece, (rank.rank + 1) * piece)
        array = np.zeros(piece * world, np.float32)
        array[own] = numbers(rank.rank, piece, "float32")
        rank.ask(Call(What.ALL_GATHER, "float32", piece * world), array)()
        assert (array == np.concatenate([numbers(one, piece, "float32") for one in range(world)])).all()
        array = numbers(rank.rank, piece * world, "float32")
        rank.ask(Call(What.REDUCE_SCATTER, "float32", piece * world, "sum"), array)()
        assert (np.abs(array[own] - total(world, piece * world, "float32")[own]) <= 1e-3).all()
        rank.ask(BARRIER, np.ones(1, np.int32))()

    for result in run(scheme, topology, script):
        if isinstance(result, BaseException):
            raise result


@pytest.mark.parametrize(("scheme", "topology"), CASES)
def test_calls_that_ranks_wait_for_in_different_orders(run: Run, scheme: str, topology: str) -> None:
    """Some ranks make all calls and then wait; others wait for each. Large and small ones, a hundred at a time."""

    def script(rank: Rank) -> None:
        draw, common = random.Random(rank.rank), random.Random(7)
        waiting: list[tuple[Callable[[], None], np.ndarray[Any, Any], int]] = []
        for n in range(60):
            count = common.choice([1, 10, 500, 5_000, 60_000])
            array = numbers(rank.rank, count, "int32", n)
            waiting.append((rank.ask(Call(What.ALLREDUCE, "int32", count, "sum"), array), array, n))
            if rank.rank == 0 or draw.random() < 0.1 * rank.rank:
                draw.shuffle(waiting)
                for wait, result, number in waiting:
                    wait()
                    assert (result == total(rank.world, len(result), "int32", number)).all()
                waiting = []
        for wait, result, number in waiting:
            wait()
            assert (result == total(rank.world, len(result), "int32", number)).all()

    assert set(run(scheme, topology, script)) == {None}


def test_messages_between_any_two(run: Run) -> None:
    """A ring of five has no connection between h0 and h2 before they need one."""

    def script(rank: Rank) -> None:
        others = [other for other in range(rank.world) if other != rank.rank]
        waits = [
            rank.directly("send", other, tag, numbers(rank.rank, 40_000 + tag, "float32", other))
            for other in others
            for tag in (0, 1)
        ]
        for other in reversed(others):
            for tag in (1, 0):
                array = np.zeros(40_000 + tag, np.float32)
                rank.directly("receive", other, tag, array)()
                assert (array == numbers(other, 40_000 + tag, "float32", rank.rank)).all()
        for wait in waits:
            wait()

    assert run("ring", "star(hosts=5)", script) == [None] * 5


def test_messages_of_tags_whose_hashes_are_the_same_are_not_mixed_up(run: Run) -> None:
    """crc32 makes the same 31 bits of the first two, for messages from rank 0 to rank 1. The others differ by 2^15."""
    tags = (235_343_698, 1_959_049_970, 5, 5 + 2**15, FIRST_OF_OURS - 1)

    def script(rank: Rank) -> None:
        arrays = {tag: np.full(3, tag, np.int64) for tag in tags}
        if rank.rank == 0:
            waits = [rank.directly("send", 1, tag, arrays[tag]) for tag in tags]
        else:
            arrays = {tag: np.zeros(3, np.int64) for tag in tags}
            waits = [rank.directly("receive", 0, tag, arrays[tag]) for tag in reversed(tags)]
        for wait in waits:
            wait()
        assert {tag: array.tolist() for tag, array in arrays.items()} == {tag: [tag] * 3 for tag in tags}

    assert run("ring", "star(hosts=2)", script) == [None] * 2


def test_messages_without_numbers_come_in_their_order(run: Run) -> None:
    def script(rank: Rank) -> None:
        sizes = (0, 3, 0)
        if rank.rank == 1:
            for count in sizes:
                rank.directly("send", 0, 0, np.ones(count, np.float32))()
        if rank.rank == 0:
            for count in sizes:
                array = np.zeros(count, np.float32)
                rank.directly("receive", 1, 0, array)()
                assert array.sum() == count

    assert run("ring", "star(hosts=3)", script) == [None] * 3


def test_a_message_of_anybody_comes_from_ranks_that_are_no_neighbours(run: Run) -> None:
    """In a ring of five, h0 has no connection with h2 and h3, and the rank on the host with the lower number makes it.
    h4 sends nothing and has left by then, which is nobody's loss."""

    def script(rank: Rank) -> list[int]:
        if rank.rank == 4:
            return []
        if rank.rank:
            time.sleep(0.3 * rank.rank)
            rank.directly("send", 0, 7, numbers(rank.rank, 50_000, "int32"))()
            return []
        sources: list[int] = []
        for _ in range(3):
            array, ended, seen = np.zeros(50_000, np.int32), threading.Event(), list[BaseException | None]()

            def done(
                error: BaseException | None,
                seen: list[BaseException | None] = seen,
                ended: threading.Event = ended,
            ) -> None:
                seen.append(error)
                ended.set()

            rank.engine.receive_any([1, 2, 3, 4], Slot(0, 7), array, done, sources.append)
            rank.wait(ended, seen)
            assert (array == numbers(sources[-1], 50_000, "int32")).all()
        return sources

    assert run("ring", "star(hosts=5)", script) == [[1, 2, 3], [], [], [], []]


def test_whoever_waits_for_a_message_of_anybody_hears_of_the_end(run: Run) -> None:
    def script(rank: Rank) -> str:
        seen: list[BaseException | None] = []
        if rank.rank == 0:
            rank.engine.receive_any([1, 2], Slot(0, 0), np.zeros(1, np.int32), seen.append)
            rank.engine.close()
        return " ".join(map(str, seen))

    found = run("ring", "star(hosts=3)", script)
    assert found[0].startswith("h0 has left its process group")


def test_groups_of_some_ranks(run: Run) -> None:
    def script(rank: Rank) -> None:
        groups = {1: (0, 2), 2: (1, 2, 3), 3: (3, 0)}
        mine = {number: rank.engine.group(number, of) for number, of in groups.items() if rank.rank in of}
        arrays = {number: numbers(rank.rank, 30_000, "int64", number) for number in mine}
        waits = [rank.ask(Call(What.ALLREDUCE, "int64", 30_000, "sum"), arrays[n], group) for n, group in mine.items()]
        for wait in waits:
            wait()
        for number, array in arrays.items():
            assert (array == sum(numbers(one, 30_000, "int64", number) for one in groups[number])).all()

    assert run("ring", "star(hosts=4)", script) == [None] * 4


@pytest.mark.parametrize(
    ("scheme", "topology"), [*IN_NETWORK, ("ps(colocated=false,servers=2)", "star(hosts=5)"), ("ring", "star(hosts=3)")]
)
def test_groups_that_come_and_go_leave_nothing_behind(run: Run, scheme: str, topology: str) -> None:
    """Neither at ranks nor, as in all tests here, at servers and switches."""

    def script(rank: Rank) -> list[str]:
        for number in range(1, 41):
            whole = rank.engine.group(number, range(rank.world))
            array = np.full(300, number, np.float32)
            rank.ask(Call(What.ALLREDUCE, "float32", 300, "sum"), array, whole)()
            assert (np.abs(array - number * rank.world) <= 1e-2 * number).all()
            rank.ask(Call(What.BROADCAST, "float32", 300, root=0), array, whole)()
            pair = (0, 1)
            if rank.rank in pair:
                some = rank.engine.group(1000 + number, pair)
                rank.ask(BARRIER, np.ones(1, np.int32), some)()
                verb = "send" if rank.rank == 0 else "receive"
                rank.directly(verb, 1 - rank.rank, 0, np.zeros(3), 1000 + number)()
                rank.engine.forget_group(1000 + number)
            rank.engine.forget_group(number)
        rank.ask(BARRIER, np.ones(1, np.int32))()
        rank.engine.close()
        return [*kept(rank.engine._carrier), *map(str, rank.engine._messages)]

    results = run(scheme, topology, script)
    assert results == [[]] * len(results)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (Call(What.ALLREDUCE, "float32", 8, "sum"), "allreduce of 8 float32 (sum)"),
        (Call(What.ALLREDUCE, "float64", 10, "sum"), "allreduce of 10 float64 (sum)"),
        (Call(What.BROADCAST, "float32", 10, root=1), "broadcast of 10 float32 from rank 1"),
    ],
)
def test_ranks_that_disagree_are_told(run: Run, call: Call, says: str) -> None:
    def script(rank: Rank) -> None:
        asked = call if rank.rank == 2 else Call(What.ALLREDUCE, "float32", 10, "sum")
        rank.ask(asked, numbers(rank.rank, asked.count, asked.dtype))()

    found = run("ring", "star(hosts=4)", script)
    assert all(isinstance(one, TestbedError) for one in found), found
    texts = [str(one) for one in found]
    assert any(says in text and "allreduce of 10 float32 (sum)" in text and "h2" in text for text in texts), texts


def test_a_rank_that_ends_is_named_at_once(run: Run) -> None:
    ended_s: list[float] = []

    def script(rank: Rank) -> float:
        array = numbers(rank.rank, 200_000, "float32")
        if rank.rank == 1:
            ended_s.append(time.monotonic())
            rank.engine.fail(RuntimeError("this rank breaks"))
            return 0.0
        for count in (200_000, 10):  # and no later call hangs
            with pytest.raises(NeighbourError):
                rank.ask(Call(What.ALLREDUCE, "float32", count, "sum"), array[:count])()
        return time.monotonic() - ended_s[0]

    found = run("ring", "star(hosts=4)", script)
    assert max(found) < LIMIT_S / 2


def test_numbers_that_do_not_fit_a_switch_are_an_error(run: Run) -> None:
    def script(rank: Rank) -> None:
        rank.ask(Call(What.ALLREDUCE, "float32", 1000, "sum"), np.full(1000, 1e12, np.float32))()

    found = run("atp", "star(hosts=4,ina=all)", script)
    assert any("does not fit 32 bits" in str(one) for one in found), found
    assert all(isinstance(one, TestbedError) for one in found)


def test_a_window_is_kept_of_calls_that_come_early(run: Run) -> None:
    """One rank makes small calls as fast as it can, and the others come late."""

    def script(rank: Rank) -> None:
        waits = []
        for n in range(200):
            if rank.rank:
                time.sleep(0.001 if n < 50 else 0)
            array = np.full(100, n, np.int32)
            if rank.rank == 0:
                waits.append(rank.ask(Call(What.BROADCAST, "int32", 100, root=0), array))
            else:
                array[:] = 0
                rank.ask(Call(What.BROADCAST, "int32", 100, root=0), array)()
                assert (array == n).all()
        for wait in waits:
            wait()

    assert run("ring", "star(hosts=4)", script) == [None] * 4


@pytest.mark.parametrize(("scheme", "topology"), CASES)
def test_the_first_chunks_of_large_calls_come_early(run: Run, scheme: str, topology: str) -> None:
    """Ranks make two calls at once, each rank a little later than the last one; they find chunks whole, in part, or
    none at all."""

    def script(rank: Rank) -> None:
        for n in range(6):
            time.sleep((0, 0.0003, 0.003)[n % 3] * (rank.rank if n % 2 else rank.world - rank.rank))
            arrays = [numbers(rank.rank, 200_000, "float32", seed) for seed in (n, n + 100)]
            waits = [rank.ask(Call(What.ALLREDUCE, "float32", 200_000, "sum"), array) for array in arrays]
            for wait in waits:
                wait()
            for array, seed in zip(arrays, (n, n + 100), strict=True):
                assert (np.abs(array - total(rank.world, 200_000, "float32", seed)) <= 1e-3).all()

    assert run(scheme, topology, script) == [None] * 4


def test_a_call_that_takes_too_long_names_those_who_did_not_make_it(run: Run) -> None:
    """A server ends it; ranks look at the clock by themselves."""
    asked = threading.Event()

    def script(rank: Rank) -> str:
        if rank.rank == 0:
            done: list[BaseException | None] = []
            op = rank.engine.submit(rank.whole, BARRIER, np.ones(1, np.int32), Ending(done.append))
            time.sleep(0.2)
            waits = rank.engine.waits_for(op)
            asked.set()
            rank.engine.fail(RuntimeError("too late"))
            return waits
        asked.wait(PATIENCE_S)
        return ""

    assert run("ring", "star(hosts=3)", script)[0] == "h1, h2"


def test_the_first_chunk_from_another_process_is_told_of_once(run: Run) -> None:
    told: list[list[str]] = [[], [], []]

    def script(rank: Rank) -> None:
        over, said = threading.Event(), told[rank.rank]

        def done(_: BaseException | None) -> None:
            said.append("done")
            over.set()

        call, array = Call(What.ALLREDUCE, "float32", 50_000, "sum"), np.ones(50_000, np.float32)
        ending = Ending(done, lambda: said.append("begun"), lambda: said.append("came"))
        rank.engine.submit(rank.whole, call, array, ending)
        assert over.wait(LIMIT_S)

    run("ring", "star(hosts=3)", script)
    assert told == [["begun", "came", "done"]] * 3


@pytest.mark.parametrize("what", [What.ALLREDUCE, What.REDUCE, What.REDUCE_SCATTER])
@pytest.mark.parametrize("scheme", ["ring", "ps", "ps(servers=1)", "tree", "halving_doubling", "double_binary_tree"])
def test_each_number_of_a_rank_is_shown_once_while_it_is_its_own(run: Run, scheme: str, what: What) -> None:
    count = 30_000
    root = 1 if what == What.REDUCE else -1

    def script(rank: Rank) -> list[int]:
        own = numbers(rank.rank, count, "float32")
        array, shown, over = own.copy(), np.zeros(count, np.int64), threading.Event()

        def show(first: int, last: int) -> None:
            assert (array[first:last] == own[first:last]).all()
            shown[first:last] += 1

        ending = Ending(lambda _: over.set(), own=show)
        rank.engine.submit(rank.whole, Call(what, "float32", count, "sum", root), array, ending)
        assert over.wait(LIMIT_S)
        return np.unique(shown).tolist()

    assert run(scheme, "star(hosts=4)", script) == [[1]] * 4


@pytest.mark.parametrize("scheme", ["ring", "ps", "atp", "switchml"])
def test_a_call_that_is_over_may_become_the_next_one(run: Run, scheme: str) -> None:
    """Large calls do, and small ones as soon as all neighbours have made them."""
    count = 50_000

    def script(rank: Rank) -> int:
        made: set[int] = set()
        for floats, call in ((count, Call(What.ALLREDUCE, "float32", count, "sum")), (1, BARRIER)):
            array = np.empty(floats, np.float32 if call.dtype == "float32" else np.int32)
            last = None
            for turn in range(1, 6):
                array[:] = turn * (rank.rank + 1)
                over = threading.Event()
                last = rank.engine.submit(rank.whole, call, array, Ending(lambda _, over=over: over.set()), last)
                made.add(id(last))
                assert over.wait(LIMIT_S)
                assert (array == turn * 6).all()
        return len(made)

    topology = (
        "spine_leaf(racks=1,hosts_per_rack=3,spines=1,ina=all)" if scheme in ("atp", "switchml") else "star(hosts=3)"
    )
    calls = run(scheme, topology, script)
    assert max(calls) < 10, "some calls became others"


def test_all_ranks_tell_what_the_first_one_failed_of(run: Run) -> None:
    """And not that their neighbours ended, which did because of it."""

    def script(rank: Rank) -> str:
        if rank.rank == 2:
            rank.engine.fail(WorkerError("h2 breaks", fix="mend it"))
            return "h2 breaks"
        with pytest.raises(TestbedError) as caught:
            rank.ask(Call(What.ALLREDUCE, "float32", 200_000, "sum"), numbers(rank.rank, 200_000, "float32"))()
        return caught.value.problem

    assert run("ring", "star(hosts=6)", script) == ["h2 breaks"] * 6


def test_a_mistake_of_an_engine_ends_all(run: Run) -> None:
    """Of any kind: an IndexError, too, is no end of a list of things to do."""

    def script(rank: Rank) -> str:
        if rank.rank == 1:
            rank.engine._carrier.call_soon(lambda: [].pop())
        with pytest.raises((IndexError, NeighbourError)) as caught:
            rank.ask(Call(What.ALLREDUCE, "float32", 200_000, "sum"), numbers(rank.rank, 200_000, "float32"))()
        return str(caught.value)

    found = run("ring", "star(hosts=3)", script)
    assert all("pop from empty list" in one for one in found), found


def test_a_killed_rank_is_named_by_all(run: Run) -> None:
    """Its thread ends as a process does: the connections close without a word."""

    def script(rank: Rank) -> str:
        if rank.rank == 2:
            rank.engine._carrier._say_why = print
            rank.engine.fail(RuntimeError("killed"))
            return ""
        with pytest.raises(NeighbourError) as caught:
            rank.ask(Call(What.ALLREDUCE, "float32", 200_000, "sum"), numbers(rank.rank, 200_000, "float32"))()
        return caught.value.problem

    found = run("ring", "star(hosts=6)", script)
    assert {text.partition(":")[0] for text in found if text} == {"lost the connection to h2"}, found


def test_what_a_rank_said_before_it_left_still_counts(run: Run) -> None:
    """The root of a small broadcast is done before others make the call, and so is who sends a small message."""

    def script(rank: Rank) -> None:
        if rank.rank == 0:
            rank.ask(Call(What.BROADCAST, "int32", 3, root=0), np.arange(3, dtype=np.int32))()
            rank.directly("send", 2, 0, np.arange(5))()
            rank.engine.close()
            return
        time.sleep(1.5)  # later than it waits for others to leave
        array = np.zeros(3, np.int32)
        rank.ask(Call(What.BROADCAST, "int32", 3, root=0), array)()
        assert array.tolist() == [0, 1, 2]
        if rank.rank == 2:
            received = np.zeros(5, np.int64)
            rank.directly("receive", 0, 0, received)()
            assert received.tolist() == [0, 1, 2, 3, 4]

    assert run("ring", "star(hosts=4)", script) == [None] * 4


def test_a_rank_that_left_is_named(run: Run) -> None:
    def script(rank: Rank) -> str:
        if rank.rank == 1:
            return ""
        with pytest.raises(NeighbourError) as caught:
            rank.ask(Call(What.ALLREDUCE, "int32", 10, "sum"), np.ones(10, np.int32))()
        return str(caught.value)

    found = run("ring", "star(hosts=4)", script)
    said = [
        f"h1 has left its process group, and {host} makes call 0 of group 0, allreduce of 10 int32 (sum), with it\n"
        "  fix: see why the script on h1 ended earlier: all ranks of a group make the same calls"
        for host in ("h0", "h2")
    ]
    assert all(found[rank] in said for rank in (0, 2, 3)), found


def test_many_calls_on_the_way_cost_no_more_each(run: Run) -> None:
    """All steps of the loop would look at all of them."""

    def script(rank: Rank) -> None:
        waits = [rank.ask(BARRIER, np.ones(1, np.int32)) for _ in range(3_000)]
        for wait in waits:
            wait()

    assert run("ring", "star(hosts=2)", script) == [None] * 2
