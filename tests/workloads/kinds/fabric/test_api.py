"""The paper's interface for programs: real workers with their daemons, a server and a scheduler over loopback."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

from testbed.base.errors import SpecError, TestbedError, WorkerError
from testbed.workloads.kinds.fabric import api, program
from testbed.workloads.kinds.fabric.fates import Fate
from testbed.workloads.kinds.fabric.processes import own_daemon
from testbed.workloads.kinds.fabric.processes.meeting import meet
from tests import ports
from tests.patience import PATIENCE_S, until

PARAMS = api.Params(floats=5, updates=6, rate_bps=1e9, aggregators=0, window_s=0.0, timeout_s=PATIENCE_S)
Part = Callable[[api.Params, api.Place], Any]
_ports = ports.blocks(10)


def together(params: api.Params, *parts: Part) -> list[Future[Any]]:
    """What each part made of it, by rank: a thread each, with the scheduler last."""
    port, world = next(_ports), len(parts) + 1
    places = [api.Place(rank, world, "127.0.0.1", port) for rank in range(world)]
    with ThreadPoolExecutor(world) as pool:
        return [
            pool.submit(part, params, place) for part, place in zip((*parts, api.run_scheduler), places, strict=True)
        ]


def pushes(params: api.Params, place: api.Place) -> tuple[list[Fate | None], np.ndarray[Any, Any]]:
    """Push an update of 10 to the power of the rank until all is done."""
    weights = np.zeros(params.floats, np.float32)
    update = np.full(params.floats, 10**place.rank, np.float32)
    found = []
    with api.register_as_worker(params, place) as worker:
        while worker.goes_on:
            worker.push(worker.server, update, float(np.linalg.norm(update)))
            worker.get(worker.server, weights)
            found.append(worker.fate)
    return found, weights


def serves(params: api.Params, place: api.Place) -> tuple[int, list[float], list[int]]:
    """Let an update count twice, and give workers the weights plus one half."""
    counts: list[int] = []

    def change(weights: np.ndarray[Any, Any], update: np.ndarray[Any, Any], count: int) -> None:
        counts.append(count)
        weights += 2 * update

    server = api.register_as_server(params, place)
    server.register_update_callback(change)
    server.register_request_callback(lambda weights: weights + np.float32(0.5))
    weights = np.zeros(params.floats, np.float32)
    return server.serve(weights), weights.tolist(), counts


@pytest.mark.parametrize("aggregators", [0, 1])
def test_updates_are_applied_and_weights_given_as_the_callbacks_say(aggregators: int) -> None:
    params = replace(PARAMS, aggregators=aggregators, window_s=0.05)
    first, second, served, scheduled = (one.result() for one in together(params, pushes, pushes, serves))
    applied, weights, counts = served
    fates = [*first[0], *second[0]]
    assert scheduled is None
    assert (len(fates), applied, sum(counts)) == (6, 6, 6)
    assert {fate.is_applied for fate in fates} == {True}
    assert weights == [2 * (len(first[0]) + 10 * len(second[0]))] * 5
    for _, got in (first, second):  # all end with the last weights
        assert got.tolist() == [weight + 0.5 for weight in weights]


def copies(params: api.Params, place: api.Place) -> tuple[int, list[float]]:
    """Be the replica of the server before it."""
    made = api.register_as_replica(api.name_of(place.rank - 1), params, place)
    made.register_update_callback(twice)
    weights = np.zeros(params.floats, np.float32)
    return made.serve(weights), weights.tolist()


def twice(weights: np.ndarray[Any, Any], update: np.ndarray[Any, Any], _count: int) -> None:
    weights += 2 * update


def test_a_replica_ends_with_the_servers_weights() -> None:
    params = replace(PARAMS, divergence_bound=25.0)  # an update of the second worker is 22.4 long
    *_, served, copied, _ = (one.result() for one in together(params, pushes, pushes, serves, copies))
    applied, weights, _ = served
    assert copied == (applied, weights)
    assert applied == 6


def test_a_replica_of_another_process_is_refused() -> None:
    def strays(params: api.Params, place: api.Place) -> None:
        api.register_as_replica("rank0", params, place)

    params = replace(PARAMS, divergence_bound=25.0, timeout_s=0.5)
    errors = [one.exception() for one in together(params, pushes, serves, strays)]
    assert str(errors[2]) == (
        "rank2 is to be the replica of 'rank0', and the server is rank1\n  fix: register as the replica of rank1"
    )


def test_sums_are_of_all_workers() -> None:
    def adds(params: api.Params, place: api.Place) -> list[float]:
        found = []
        with api.register_as_worker(params, place) as worker:
            while worker.goes_on:
                update = np.full(params.floats, 10**place.rank * (len(found) + 1), np.float32)
                worker.all_reduce(update)
                found.append(float(update.max()))
        return found

    def sums(params: api.Params, place: api.Place) -> int:
        return api.register_as_server(params, place).serve()

    params = replace(PARAMS, sums=True)
    assert [one.result() for one in together(params, adds, adds, sums)] == [[11, 22, 33], [11, 22, 33], 6, None]


def test_a_worker_that_leaves_early_ends_the_training_by_name(capfd: pytest.CaptureFixture[str]) -> None:
    def leaves(params: api.Params, place: api.Place) -> None:
        with api.register_as_worker(params, place) as worker:
            worker.push(worker.server, np.ones(5, np.float32), 1.0)

    errors = [one.exception() for one in together(PARAMS, leaves, serves)]
    assert all(isinstance(error, WorkerError) for error in errors)
    assert str(errors[0]) == (
        "the daemon of rank0 ended with exit status 1\n"
        "  fix: read what it wrote before; push and get until goes_on is false"
    )
    assert "error: lost the connection to rank0: it was closed" in capfd.readouterr().err


ONE_ARRAY = "give all tensors in one array, such as numpy.concatenate([one.ravel() for one in tensors])"
TAKE = "let each process take the role that role(params) says; a divergence_bound needs a replica"


def other(changes: dict[str, Any]) -> Part:
    """A server with other parameters."""
    return lambda params, place: api.register_as_server(replace(params, **changes), place)


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        (
            (pushes, other({"floats": 4})),
            "rank 1 has registered with floats=4, and this process with floats=5\n"
            "  fix: give all processes the same Params, but for rate_bps and timeout_s",
        ),
        (
            (serves, serves),
            f"of 3 processes, 2 registered as server, and 1 must\n  fix: {TAKE}",
        ),
        (
            (pushes, pushes),
            f"of 3 processes, 0 registered as server, and 1 must\n  fix: {TAKE}",
        ),
        (
            (pushes, serves, copies),
            f"of 4 processes, 1 registered as replica, and 0 must\n  fix: {TAKE}",
        ),
        (
            (serves,),
            "a program needs a server, a scheduler and workers; star(hosts=2) has 2 hosts\n"
            "  fix: take a network of three hosts or more",
        ),
        (
            (*[pushes] * 7, serves),
            "Params has updates=6, and 7 workers push one each at least\n  fix: give updates 7 or more",
        ),
    ],
    ids=["other floats", "two servers", "no server", "a replica too many", "no worker", "too few updates"],
)
def test_processes_that_do_not_fit_together_are_refused(parts: Sequence[Part], told: str) -> None:
    errors = [one.exception() for one in together(PARAMS, *parts)]
    assert all(isinstance(error, SpecError) for error in errors)
    assert told in map(str, errors)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"floats": 0}, "Params has floats of 0\n  fix: give floats above 0, a finite number"),
        ({"updates": -1}, "Params has updates of -1\n  fix: give updates above 0, a finite number"),
        ({"rate_bps": math.nan}, "Params has rate_bps of nan\n  fix: give rate_bps above 0, a finite number"),
        ({"timeout_s": math.inf}, "Params has timeout_s of inf\n  fix: give timeout_s above 0, a finite number"),
        ({"floats": 2.5}, "Params has floats of 2.5\n  fix: give floats a whole number below 2**63"),
        ({"floats": "10"}, "Params has floats of '10'\n  fix: give floats a whole number below 2**63"),
        ({"floats": True}, "Params has floats of True\n  fix: give floats a whole number below 2**63"),
        ({"updates": None}, "Params has updates of None\n  fix: give updates a whole number below 2**63"),
        (
            {"updates": 10**5000},
            "Params has updates of a whole number of 16,610 bits\n  fix: give updates a whole number below 2**63",
        ),
        ({"rate_bps": "100 Mbit/s"}, "Params has rate_bps of '100 Mbit/s'\n  fix: give rate_bps a number"),
        (
            {"rate_bps": 10**400},
            "Params has rate_bps of a whole number of 1,329 bits\n  fix: give rate_bps a number",
        ),
        ({"delay_bound": "8"}, "Params has delay_bound of '8'\n  fix: give delay_bound a whole number below 2**63"),
        ({"delay_bound": 8.5}, "Params has delay_bound of 8.5\n  fix: give delay_bound a whole number below 2**63"),
        ({"aggregators": "2"}, "Params has aggregators of '2'\n  fix: give aggregators a whole number below 2**63"),
        ({"aggregators": 0.5}, "Params has aggregators of 0.5\n  fix: give aggregators a whole number below 2**63"),
        ({"aggregators": -1}, "Params has aggregators of -1\n  fix: give aggregators 0 or more, or None"),
        ({"sums": 1}, "Params has sums of 1\n  fix: give sums True or False"),
        (
            {"delay_bound": 0},
            "Params has a delay_bound of 0, and an update that no other came before has a delay of 1\n"
            "  fix: give delay_bound 1 or more, in updates",
        ),
        ({"window_s": -1.0}, "Params has a window of -1 s\n  fix: give window 0 to 60, in seconds"),
        (
            {"delay_bound": 3, "sums": True},
            "Params has sums and a delay_bound of 3: a sum has all updates, and no replica\n"
            "  fix: remove delay_bound, or sums",
        ),
        (
            {"divergence_bound": 0.0},
            "Params has a divergence_bound of 0\n  fix: give divergence_bound above 0, as a norm of weights",
        ),
    ],
)
def test_parameters_that_make_no_sense_are_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(TestbedError) as error:
        replace(PARAMS, **changes)
    assert str(error.value) == told


def test_numbers_of_numpy_are_numbers() -> None:
    made = replace(PARAMS, floats=np.int64(10), rate_bps=np.float32(1e9), delay_bound=np.int32(8))  # type: ignore[arg-type]
    assert made == replace(PARAMS, floats=10, delay_bound=8)
    assert [type(one) for one in (made.floats, made.rate_bps, made.delay_bound)] == [int, float, int]


def test_sums_need_an_update_of_each_worker() -> None:
    errors = [one.exception() for one in together(replace(PARAMS, sums=True, updates=7), pushes, pushes, serves)]
    assert {str(error) for error in errors} == {
        "Params has updates=7 and sums, and 2 workers push one each for a sum\n"
        "  fix: give updates 6, or another multiple of the workers"
    }


@pytest.mark.parametrize("rate_bps", [10**400, "fast", None, True])
def test_a_rate_that_is_none_is_refused(rate_bps: object) -> None:
    said = {"role": "worker", "rate_bps": rate_bps, **PARAMS.common}
    with pytest.raises(SpecError, match=r"^rank 0 has no role and rate"):
        program._check_same([said], PARAMS)


@pytest.mark.parametrize("request_callback", [lambda weights: weights, lambda weights: weights[::-1]])
def test_what_a_request_callback_returns_is_copied(request_callback: api.RequestCallback) -> None:
    server = api.Server(None, PARAMS)  # type: ignore[arg-type]
    server.register_request_callback(request_callback)
    weights = np.arange(5, dtype=np.float32)
    wanted = request_callback(weights).tolist()
    given = server._asked(weights)
    weights += 10
    assert given.tolist() == wanted
    assert given.flags.c_contiguous


@pytest.mark.parametrize("what", ["update", "request"])
def test_a_callback_that_fails_is_named(what: str) -> None:
    def fails(params: api.Params, place: api.Place) -> None:
        def callback(*_: object) -> Any:
            raise ValueError("shapes differ")

        server = api.register_as_server(params, place)
        getattr(server, f"register_{what}_callback")(callback)
        server.serve(np.zeros(params.floats, np.float32))

    error = together(PARAMS, pushes, fails)[1].exception()
    assert isinstance(error, WorkerError)
    assert str(error) == f"the {what} callback failed: ValueError: shapes differ\n  fix: mend the {what} callback"


def test_a_daemon_that_ends_at_once_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[int] = []

    class Ended:
        """A child whose standard input nobody reads."""

        stdin = property(lambda _: broken_pipe())
        wait = staticmethod(lambda: 3)

    monkeypatch.setattr(own_daemon.subprocess, "Popen", lambda *_, **__: Ended())
    monkeypatch.setattr(api.Memory, "close", lambda memory: closed.append(memory.descriptor))
    place = api.Place(0, 3, "127.0.0.1", next(_ports))
    with ThreadPoolExecutor(2) as pool:
        only_meet(pool, PARAMS, place)
        with pytest.raises(WorkerError) as caught:
            api.register_as_worker(PARAMS, place)
    assert str(caught.value) == "the daemon of rank0 ended with exit status 3\n  fix: read what it wrote before"
    assert len(closed) == 1


def only_meet(pool: ThreadPoolExecutor, params: api.Params, first: api.Place) -> None:
    """A server and a scheduler that meet the worker of this place, and never connect."""
    for rank, said in ((1, "server"), (2, "scheduler")):
        pool.submit(meet, replace(first, rank=rank), {"role": said, "rate_bps": 1e9, **params.common}, PATIENCE_S)


def broken_pipe() -> IO[bytes]:
    """The end of a pipe that has no other."""
    reads, writes = os.pipe()
    os.close(reads)
    return os.fdopen(writes, "wb")


@pytest.mark.parametrize(
    ("sums", "use", "told"),
    [
        (
            False,
            lambda server: server.serve([1.0]),
            f"the array of weights must be float32[5], and is a list\n  fix: {ONE_ARRAY}",
        ),
        (
            False,
            lambda server: server.serve(np.zeros(4, np.float32)),
            f"the array of weights must be float32[5], and is float32[4]\n  fix: {ONE_ARRAY}",
        ),
        (
            False,
            lambda server: server.serve(np.frombuffer(bytes(20), np.float32)),
            "the array of weights is read-only\n  fix: give a copy: numpy.array(weights)",
        ),
        (
            True,
            lambda server: server.serve(np.zeros(5, np.float32)),
            "a server has weights, and makes sums\n  fix: remove weights, or sums from Params",
        ),
        (
            True,
            lambda server: server.register_update_callback(np.add),
            "a server has an update callback, and makes sums\n  fix: remove an update callback, or sums from Params",
        ),
    ],
)
def test_a_server_that_makes_no_sense_is_refused(sums: bool, use: Callable[[api.Server], object], told: str) -> None:
    with pytest.raises(SpecError) as error:
        use(api.Server(None, replace(PARAMS, sums=sums)))  # type: ignore[arg-type]
    assert str(error.value) == told


def test_roles_are_by_rank() -> None:
    places = [api.Place(rank, 4, "127.0.0.1", 29500) for rank in range(4)]
    bounded = replace(PARAMS, divergence_bound=1.0)
    assert [api.role(PARAMS, place) for place in places] == ["worker", "worker", "server", "scheduler"]
    assert [api.role(bounded, place) for place in places] == ["worker", "server", "replica", "scheduler"]


DYING = """
import sys, time
from pathlib import Path
from testbed.workloads.kinds.fabric import api
made = []
params = api.Params(floats=5, updates=6, rate_bps=1e9, timeout_s=60)
worker = api.register_as_worker(params, api.Place(0, 3, "127.0.0.1", int(sys.argv[1])))
print(worker._daemon.pid, flush=True)
time.sleep(60)
"""


def test_a_daemon_ends_with_its_worker_however_that_ended() -> None:
    """The two others meet it, and never connect, so that only the kernel can tell the daemon."""
    port = next(_ports)
    with (
        subprocess.Popen([sys.executable, "-c", DYING, str(port)], stdout=subprocess.PIPE) as worker,
        ThreadPoolExecutor(2) as pool,
    ):
        only_meet(pool, api.Params(floats=5, updates=6, rate_bps=1e9), api.Place(0, 3, "127.0.0.1", port))
        assert worker.stdout is not None
        daemon = Path(f"/proc/{int(worker.stdout.readline())}")
        assert daemon.exists()
        os.kill(worker.pid, signal.SIGKILL)
        until(lambda: not daemon.exists() or "\nState:\tZ" in (daemon / "status").read_text())
