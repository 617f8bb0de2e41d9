"""Processes that do what they must not, in real processes over loopback: the error names host and key, and all end."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import secrets
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from testbed.topologies.build import build as build_topology
from testbed.workloads import worker
from testbed.workloads.kinds.phub import api
from testbed.workloads.kinds.phub.api import Handle
from testbed.workloads.kinds.phub.client import Client
from testbed.workloads.kinds.phub.exchange import PUSH_PULL
from testbed.workloads.kinds.phub.plan import Plan
from testbed.workloads.sync.schemes import build_plan
from tests.patience import until

from .test_processes import REPLAY, TENSORS, fates, last_lines, run

NETWORK = "star(hosts=3)"
CORE = "h2.core0"
WORKERS = ("h0", "h1")


def box() -> Plan:
    made = build_plan("pbox(key_bytes=2048)", build_topology(NETWORK, rate_bps=10**9), TENSORS)
    assert isinstance(made, Plan)
    return made


def push(service: Client, floats: int) -> None:
    """Push key 0, which has 512 floats, as if it had so many."""
    service._say(0, PUSH_PULL, 0, service._gradient[:floats])
    service._move()


def push_twice(service: Client) -> None:
    for _ in range(2):
        push(service, 512)


def push_a_part(service: Client) -> None:
    push(service, 300)
    os._exit(1)


def send_anything(service: Client) -> None:
    """Send 1 MB of random bytes, and end."""
    sock = service._connections[0].sock
    sock.setblocking(True)
    with suppress(OSError):  # the core does not read them all
        sock.sendall(random.Random(7).randbytes(1 << 20))
    os._exit(1)


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (push_twice, "h1 pushed key 0 twice in iteration [12]$"),  # 2, if h0 had pushed it for iteration 1
        (lambda service: service._say(0, PUSH_PULL, 10**6), "h1 sent key 1000000, which h2.core0 does not have"),
        (lambda service: push(service, 600), "bytes after a push of key 0 from h1, and does not expect it"),
        (push_a_part, "lost the connection to h1: it was closed within a message"),
        (send_anything, "h1"),
    ],
)
def test_a_worker_that_pushes_what_it_must_not_is_named(
    act: Callable[[Client], object], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second worker does so in iteration 1, which its third call begins."""
    do, calls = api.push_pull, itertools.count()

    def push_pull(service: Client, keys: Sequence[int], **how: Any) -> None:
        if service._name == "h1" and next(calls) == 2:
            act(service)
        do(service, keys, **how)

    monkeypatch.setattr(api, "push_pull", push_pull)
    statuses = fates(box(), NETWORK, tmp_path)
    assert all(statuses[name] for name in (*WORKERS, CORE)), "the whole job fails; the manager may be through"
    lines = last_lines([CORE, "h0"], tmp_path)
    assert re.search(said, lines[CORE]["error"])
    assert not [line for line in lines.values() if "no progress" in line["error"]], "nobody waits until its timeout"


def test_a_nonce_of_a_service_before_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, make = bytes.fromhex("0123456789abcdef" * 2), secrets.token_bytes
    folders = [tmp_path / name for name in ("before", "now")]
    for folder in folders:
        folder.mkdir()
    monkeypatch.setattr(secrets, "token_bytes", lambda count: before[:count])
    run(box(), NETWORK, folders[0])
    monkeypatch.setattr(secrets, "token_bytes", make)
    connect = api.connect_service

    def connect_service(handle: Handle, cores: Sequence[Any]) -> None:
        connect(Handle(handle.namespace, before) if sys.argv[0] == "h1" else handle, cores)

    monkeypatch.setattr(api, "connect_service", connect_service)
    assert fates(box(), NETWORK, folders[1])[CORE] == 1
    assert last_lines([CORE], folders[1])[CORE]["error"] == "h1 came with a wrong nonce"


def strangers(core_job: Path, told: Path) -> None:
    """Connect to a core while it awaits its workers: from elsewhere, in silence, and from a worker's address, with 1 MB
    of random bytes. Write down after how many seconds each is closed, and what comes after all is over."""
    until(lambda: core_job.exists() and core_job.read_text().endswith("}"))
    peer = next(peer for peer in json.loads(core_job.read_text())["peers"] if peer["process"] == "h0")
    place, lasted_s = (peer["local"], peer["port"]), []
    for source, said in (("127.9.9.9", b""), (peer["remote"], b"\xff" + random.Random(7).randbytes((1 << 20) - 1))):
        sock = _connected(place, source)
        begun_s = time.monotonic()
        with suppress(ConnectionError):
            sock.sendall(said)
            assert sock.recv(1) == b""
        lasted_s.append(time.monotonic() - begun_s)
        sock.close()
    told.write_text(json.dumps(lasted_s))


def _connected(place: tuple[str, int], source: str) -> socket.socket:
    def dialled() -> socket.socket | None:
        with suppress(ConnectionRefusedError):
            return socket.create_connection(place, 5, source_address=(source, 0))
        return None

    return until(dialled)


def test_strangers_are_closed_within_a_second_and_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers wait until the strangers are gone."""
    told, do = tmp_path / "strangers.json", worker.main

    def main(argv: list[str]) -> int:
        if sys.argv[0] == "h0":
            until(told.exists)
        return do(argv)

    monkeypatch.setattr(worker, "main", main)
    pid = os.fork()
    if pid == 0:
        strangers(tmp_path / f"{CORE}.json", told)
        os._exit(0)
    done = run(box(), NETWORK, tmp_path)
    assert os.waitpid(pid, 0)[1] == 0
    assert all(each < 1 for each in json.loads(told.read_text()))
    assert all(done[name]["checked"] == REPLAY.iterations and not done[name]["wrong"] for name in WORKERS)
