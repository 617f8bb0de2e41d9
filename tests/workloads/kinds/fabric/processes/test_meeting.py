"""Processes that find each other at rank 0, and strangers that do not keep them from it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from testbed.base.errors import SpecError, TestbedError, TrialTimeoutError, WorkerError
from testbed.workloads.kinds.fabric.processes.meeting import MOST_BYTES, Place, meet
from tests import ports
from tests.patience import PATIENCE_S, until

_ports = ports.blocks(5)


def test_all_hear_of_all(pool: ThreadPoolExecutor) -> None:
    port = next(_ports)
    places = [Place(rank, 3, "127.0.0.1", port) for rank in range(3)]
    found = [pool.submit(meet, place, {"number": place.rank}, PATIENCE_S) for place in places]
    for one in found:
        assert [(member.address, member.said) for member in one.result()] == [
            ("127.0.0.1", {"number": rank}) for rank in range(3)
        ]


@pytest.fixture
def pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(4)


@pytest.mark.parametrize(
    "said",
    [
        *(b"GET / HTTP/1.1\r\n\r\n", b"[[]]\n", b"[0, {}]\n", b"[3, {}]\n", b'["1", {}]\n', b"[1, 2]\n"),
        *(b"[[1], {}]\n", b"[" * MOST_BYTES),
    ],
)
def test_a_stranger_is_sent_away(pool: ThreadPoolExecutor, said: bytes) -> None:
    port = next(_ports)
    first = pool.submit(meet, Place(0, 3, "127.0.0.1", port), {}, PATIENCE_S)
    with socket.socket() as silent, socket.socket() as stranger:
        until(lambda: silent.connect_ex(("127.0.0.1", port)) == 0)
        stranger.connect(("127.0.0.1", port))
        stranger.sendall(said)
        stranger.shutdown(socket.SHUT_WR)
        stranger.settimeout(PATIENCE_S)
        with suppress(ConnectionResetError):  # it may have had more to say than was read
            assert stranger.recv(1) == b""
        others = [pool.submit(meet, Place(rank, 3, "127.0.0.1", port), {}, PATIENCE_S) for rank in (1, 2)]
        assert [len(one.result()) for one in (first, *others)] == [3, 3, 3]


def failure(place: Place, timeout_s: float) -> str:
    try:
        meet(place, {}, timeout_s)
    except (TrialTimeoutError, WorkerError) as error:
        return str(error)
    return ""


def test_who_does_not_come_is_named(pool: ThreadPoolExecutor) -> None:
    port = next(_ports)
    first = pool.submit(failure, Place(0, 4, "127.0.0.1", port), 0.7)
    second = pool.submit(failure, Place(2, 4, "127.0.0.1", port), 0.3)
    assert first.result() == (  # the second waits no longer
        f"rank 0 waits at 127.0.0.1:{port} for rank 1, 2, 3\n  fix: see whether they were started"
    )
    assert second.result() == (
        f"rank 2 waits for rank 0 at 127.0.0.1:{port} to say who the others are\n"
        "  fix: see whether all ranks were started"
    )
    assert failure(Place(1, 2, "127.0.0.1", port), 0.1) == (
        f"rank 1 could not reach rank 0 at 127.0.0.1:{port}: [Errno 111] Connection refused\n"
        "  fix: see whether rank 0 was started"
    )


def test_all_hear_for_whom_rank_0_waited_in_vain(pool: ThreadPoolExecutor) -> None:
    port = next(_ports)
    found = [
        pool.submit(failure, Place(rank, 3, "127.0.0.1", port), waits) for rank, waits in ((0, 0.4), (2, PATIENCE_S))
    ]
    assert [one.result() for one in found] == [
        f"rank 0 waits at 127.0.0.1:{port} for rank 1\n  fix: see whether they were started"
    ] * 2


def test_a_process_that_ended_before_all_came_can_be_started_again(pool: ThreadPoolExecutor) -> None:
    port = next(_ports)
    first = pool.submit(meet, Place(0, 3, "127.0.0.1", port), {}, PATIENCE_S)
    with socket.socket() as early:
        until(lambda: early.connect_ex(("127.0.0.1", port)) == 0)
        early.sendall(b"[1, {}]\n")
    others = [pool.submit(meet, Place(rank, 3, "127.0.0.1", port), {"again": rank}, PATIENCE_S) for rank in (1, 2)]
    for one in (first, *others):
        assert [member.said for member in one.result()] == [{}, {"again": 1}, {"again": 2}]


@pytest.mark.parametrize(
    "answer",
    [
        *(b"", b"[]\n", b"[[1]]\n", b"{\n", b"{}", b'{"missing": []}', b'{"missing": ["x"]}', b'{"missing": 3}'),
        json.dumps([["a", {}]]).encode(),
    ],
)
def test_an_answer_that_is_none_is_refused(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", next(_ports))) as listener:
        port = listener.getsockname()[1]

        def reply() -> None:
            sock, _ = listener.accept()
            with sock:
                sock.recv(MOST_BYTES)
                sock.sendall(answer)

        thread = threading.Thread(target=reply)
        thread.start()
        told = failure(Place(1, 2, "127.0.0.1", port), PATIENCE_S)
        thread.join()
        assert told.startswith(f"rank 0 at 127.0.0.1:{port} does not take this process as rank 1 of 2")


def test_a_port_in_use_is_told() -> None:
    with socket.create_server(("127.0.0.1", next(_ports))) as listener:
        port = listener.getsockname()[1]
        assert failure(Place(0, 2, "127.0.0.1", port), 1.0) == (
            f"rank 0 cannot listen at 127.0.0.1:{port}: Address already in use\n"
            "  fix: give an address of its host, and a port that nobody uses"
        )


FULL = {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}


def test_the_environment_says_where_a_process_is() -> None:
    assert Place.from_environment(FULL) == Place(1, 4, "10.0.0.1", 29500)


TORCHRUN = """
from pathlib import Path
from testbed.workloads.kinds.fabric.processes.meeting import Place, meet
place = Place.from_environment()
Path(__file__).with_name(f"rank{place.rank}").write_text(str(len(meet(place, {}, 60))))
"""


def test_torchrun_tells_enough(tmp_path: Path) -> None:
    """It listens at MASTER_PORT itself."""
    script = tmp_path / "script.py"
    script.write_text(TORCHRUN)
    port = str(next(_ports))
    command = (*("-m", "torch.distributed.run", "--nproc-per-node", "2"), "--master-addr", "127.0.0.1", "--master-port")
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[5]), "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, *command, port, script], env=environment, timeout=120, check=True)
    assert [(tmp_path / name).read_text() for name in ("rank0", "rank1")] == ["2", "2"]


@pytest.mark.parametrize(("said", "port"), [("True", 29501), ("False", 29500)])
def test_a_port_at_which_torchrun_listens_is_left_to_it(said: str, port: int) -> None:
    assert Place.from_environment(FULL | {"TORCHELASTIC_USE_AGENT_STORE": said}).port == port


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("0", 2, "x", 24400), "Place has rank of '0'\n  fix: give rank a whole number below 2**63"),
        ((0, 2, 7, 24400), "Place has host of 7\n  fix: give host text"),
        ((0, 2, "x", None), "Place has port of None\n  fix: give port a whole number below 2**63"),
    ],
)
def test_a_place_of_other_types_is_refused(given: Any, told: str) -> None:
    with pytest.raises(SpecError) as error:
        Place(*given)
    assert str(error.value) == told


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"RANK": None},
            "the environment variable RANK is not set\n"
            "  fix: start the program with kind: command or torchrun, or give a place: Place(rank=0, ...)",
        ),
        (
            {"WORLD_SIZE": "four"},
            "the environment variable WORLD_SIZE is 'four'\n"
            "  fix: start the program with kind: command or torchrun, or give a place: Place(rank=0, ...)",
        ),
        ({"RANK": "4"}, "a process has rank 4 of 4\n  fix: give it a rank from 0 to 3"),
        (
            {"MASTER_PORT": "65535"},
            "rank 0 is to listen at port 65535, and 4 ports after it are needed\n  fix: give a port from 1024 to 65531",
        ),
    ],
)
def test_a_place_that_cannot_be_is_refused(changes: dict[str, str | None], told: str) -> None:
    environment = {name: value for name, value in (FULL | changes).items() if value is not None}
    with pytest.raises(SpecError) as error:
        Place.from_environment(environment)
    assert str(error.value) == told
    assert isinstance(error.value, TestbedError)
