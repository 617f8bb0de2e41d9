"""A worker that means harm gets nowhere, the others work on, and the machine is as before."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import permutations
from pathlib import Path

import pytest

from testbed.errors import MissingToolError
from testbed.lab.base import Launch, LinkSettings, Program
from testbed.lab.mininet import MininetLab
from testbed.lab.netns import NetnsLab, calls
from topologies.build import build

from . import attack
from .test_rootless import AS_NOBODY

pytestmark = pytest.mark.lab
NOTHING = {"succeeded": [], "ended": [(0, 0), (1, 0)], "answer": "fine\n", "left": [], "changed": []}


@pytest.fixture(params=[NetnsLab, MininetLab])
def lab(request: pytest.FixtureRequest) -> Iterator[NetnsLab]:
    try:
        lab = request.param()
    except MissingToolError as error:
        pytest.skip(str(error))
    with lab:
        yield lab


def test_no_trick_succeeds(lab: NetnsLab, tmp_path: Path) -> None:
    assert attack.attack(lab, tmp_path) == NOTHING


def test_no_trick_succeeds_where_the_lab_is_an_ordinary_users() -> None:
    prefix = AS_NOBODY if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        words = [*prefix, sys.executable, attack.__file__, folder]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads(json.dumps(NOTHING))


def run(lab: NetnsLab, folder: Path, script: str, reads: tuple[Path, ...] = (), *, reach: bool = False) -> list[str]:
    """What a shell prints on h0, whose own folder is ``folder/work/h0``; ``$AGENT`` reaches other hosts, if it may."""
    own = folder / "work" / "h0"
    for name in ("h0", "h1"):
        (folder / "work" / name).mkdir(parents=True)
    lab.share(folder / "work", reads)
    topology = build("star(hosts=2)", rate_bps=10**8)
    lab.up(topology, LinkSettings(), permutations(topology.hosts, 2))
    log = folder / "log"
    environment = {"OWN": str(own), "AGENT": " ".join(lab.agent()) if reach else ""}
    program = Program(("sh", "-c", script), environment, str(reads[0]) if reads else "/")
    lab.launch([Launch(0, "", str(log), program)])
    while not lab.exits():
        time.sleep(0.02)
    return log.read_text().splitlines()


def test_what_a_command_writes_beside_itself_is_its_own(tmp_path: Path) -> None:
    """It can write there, as it may expect to, and nobody sees it."""
    spec = tmp_path / "a spec, with: all"
    spec.mkdir()
    (spec / "train.py").write_text("before")
    with NetnsLab() as lab:
        script = "echo after > train.py; echo weights > weights.pt; cat train.py weights.pt; rm train.py; ls"
        assert run(lab, tmp_path, script, (spec,)) == ["after", "weights", "weights.pt"]
    assert [one.name for one in spec.iterdir()] == ["train.py"]
    assert (spec / "train.py").read_text() == "before"


def test_a_worker_sees_its_own_interfaces_and_processes(tmp_path: Path) -> None:
    with NetnsLab() as lab:
        seen = run(lab, tmp_path, "ls /sys/class/net; echo $$; hostname; ls -A /tmp /run | grep -v :; ls /dev/shm")
    assert seen[:4] == ["eth0", "lo", "2", "h0"]
    assert all(tmp_path.is_relative_to(f"/tmp/{one}") for one in seen[4:] if one)  # what it is given there


def test_a_command_of_a_persons_own_sees_the_nodes_interfaces() -> None:
    topology = build("star(hosts=2)", rate_bps=10**8)
    with NetnsLab() as lab:
        lab.up(topology, LinkSettings(), permutations(topology.hosts, 2))
        assert lab.execute(0, ["ls", "/sys/class/net"], 10).stdout.split() == ["eth0", "lo"]


def test_a_log_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("before")
    (tmp_path / "log").symlink_to(victim)
    with NetnsLab() as lab, pytest.raises(Exception, match="Too many levels of symbolic links"):
        run(lab, tmp_path, "echo hostile")
    assert victim.read_text() == "before"


def test_services_of_the_machine_are_out_of_reach_wherever_their_sockets_are(tmp_path: Path) -> None:
    place = Path(__file__).with_name(f".service-{os.getpid()}")
    connect = f"import socket; socket.socket(socket.AF_UNIX).connect({str(place)!r})"
    with closing(socket.socket(socket.AF_UNIX)) as service:
        service.bind(str(place))
        try:
            service.listen()
            with NetnsLab() as lab:
                said = run(lab, tmp_path, f'{attack.PYTHON} -c "{connect}"')
        finally:
            place.unlink()
    assert said[-1].startswith("ConnectionRefusedError")


def test_programs_reach_other_hosts_where_a_library_needs_it(tmp_path: Path) -> None:
    script = "$AGENT h1 'hostname; exit 3'; echo $?; $AGENT h9 true; echo $?"
    with NetnsLab() as lab:
        assert run(lab, tmp_path, script, reach=True) == ["h1", "3", "there is no host 'h9' in this lab", "1"]


@pytest.mark.parametrize("said", [b"", b"[", b"[" * 100_000, b"{}", b'["h1", 3]', b'["h1", "true"]', b"\xff"])
def test_a_call_that_makes_no_sense_holds_nobody_up(said: bytes) -> None:
    started: list[str] = []
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**20)
        ours.send(said)
        calls.answer_one(theirs, lambda name, _, __: started.append(name))
    assert started == []  # also of the one that brings no files
