"""A worker that means harm gets nowhere, the others work on, and the machine is as before."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from testbed.base.errors import MissingToolError
from testbed.execution import supervise
from testbed.lab.base import LinkSettings
from testbed.lab.mininet.lab import MininetLab
from testbed.lab.netns import NetnsLab
from testbed.lab.netns.kernel_interface import kernel
from testbed.lab.programs import Launch, Program
from testbed.topologies.build import build
from tests.patience import until

from ..conftest import PROFILE, Called, testbed
from ..experiment.test_run import COMMAND, call
from ..records import carried_what_the_forest_says, check
from . import attack
from .ended import ended
from .test_kill import PRIVATE
from .test_rootless import AS_NOBODY

__all__ = ["testbed"]  # a fixture

BESIDE = PROFILE.replace("star(hosts=5)", "star(hosts=3)")
pytestmark = pytest.mark.lab
TRACED = """\
import ctypes, os, time
PR_SET_PTRACER, ANY, PTRACE_SEIZE = 0x59616D61, ctypes.c_ulong(-1), 0x4206
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(PR_SET_PTRACER, ANY)  # where Yama is
if os.fork() == 0:
    os.setsid()
    assert libc.ptrace(PTRACE_SEIZE, os.getppid(), None, None) == 0
    print("traced", flush=True)
time.sleep(600)
"""


def nothing_came_of(found: dict[str, Any]) -> None:
    """Of an attack."""
    tried, allowed = found.pop("tried"), found.pop("allowed")
    assert found == {"succeeded": [], "ended": [[0, 0], [1, 0]], "answer": "fine\n", "left": [], "changed": []}
    assert tried > 40 > allowed


@pytest.fixture(params=[NetnsLab, MininetLab])
def lab(request: pytest.FixtureRequest) -> Iterator[NetnsLab]:
    try:
        lab = request.param()
    except MissingToolError as error:
        pytest.skip(str(error))
    with lab:
        yield lab


def test_no_trick_succeeds(lab: NetnsLab, tmp_path: Path) -> None:
    nothing_came_of(attack.attack(lab, tmp_path))


def test_no_trick_succeeds_where_the_lab_is_an_ordinary_users() -> None:
    prefix = AS_NOBODY if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        words = [*prefix, sys.executable, attack.__file__, folder]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    nothing_came_of(json.loads(done.stdout))


def test_trials_beside_a_hostile_one_and_after_it_are_as_ever(tmp_path: Path) -> None:
    """They share its machine, and its run directory. Its worker leaves 2,000 files, FIFOs, links and a deep folder."""
    before, address = attack.machine(), str(tmp_path / "socket")
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "spec.yaml").write_text(BESIDE)
    attack.write_experiment(tmp_path, address)
    with attack.service(address):
        beside = subprocess.Popen([*COMMAND, "run", "spec.yaml", "--out", "run"], cwd=tmp_path / "beside")
        done = call(tmp_path, "run", "spec.yaml", "--out", "run")
        beside.wait()
    assert done.returncode == 0, done.stdout + done.stderr
    logs = tmp_path / "run" / "logs" / "command-star2"
    assert json.loads((logs / "h0.log").read_text())["succeeded"] == [attack.LIMITS]
    assert [path.name for path in (tmp_path / "run").glob("work*")] == []
    assert (logs / "h1.log").read_text() == "fine\n"
    assert list(tmp_path.rglob("hostile")) == attack.running(f"{address}-stays") == []
    assert [key for key, value in attack.machine().items() if before.get(key) != value] == []
    (hostile,), (record,) = (
        [json.loads(path.read_text()) for path in (folder / "run" / "trials").iterdir()]
        for folder in (tmp_path, tmp_path / "beside")
    )
    assert hostile["status"] == record["status"] == "done"
    assert check(hostile, "read back")["ok"]
    assert check(record, "read back")["ok"]
    assert record["sums"]["checked_elements"] > record["sums"]["wrong_elements"] == 0
    carried_what_the_forest_says(record)


FLOODS = """\
import os, time
print("x" * 2**22 if os.environ["WORLD_SIZE"] + os.environ["RANK"] == "20" else "fine", flush=True)
time.sleep(2)
"""


def test_a_log_without_end_ends_its_trial_and_not_the_next(
    testbed: Callable[..., Called], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "LARGEST_LOG_BYTES", 2**20)
    (tmp_path / "rank.py").write_text(FLOODS)
    arms = "[{topology: star(hosts=2)}, {topology: star(hosts=3)}]"
    (tmp_path / "spec.yaml").write_text(attack.SPEC.replace("[{topology: star(hosts=2)}]", arms))
    said = testbed("run", "spec.yaml", "--out", "run").out
    assert "command-star2: FAILED" in said
    assert "h0.log has more than 1,048,576 bytes, which is as much as a log may have" in said
    record = json.loads((tmp_path / "run" / "trials" / "command-star3.json").read_text())
    assert (record["status"], check(record, "read back")["ok"]) == ("done", True)


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
    lab.launch([Launch("h0", 0, "", str(log), program)])
    while not lab.exits():
        time.sleep(0.02)
    return log.read_text().splitlines()


def test_our_own_workers_have_no_more_rights_than_others(tmp_path: Path) -> None:
    topology = build("star(hosts=2)", rate_bps=10**8)
    job, log = tmp_path / "job", tmp_path / "log"
    os.mkfifo(job)
    with NetnsLab() as lab:
        lab.share(tmp_path)
        lab.up(topology, LinkSettings(), permutations(topology.hosts, 2))
        sleeper = Program(("sleep", "60"), {}, "/")
        lab.launch([Launch("h0", 0, str(job), str(log), torch=False), Launch("h1", 1, "", str(log), sleeper)])
        waiting = os.open(job, os.O_WRONLY)  # once our worker reads it
        confined = "grep -h CapEff $(grep -l 'NoNewPrivs:.1' /proc/[0-9]*/status)"
        found = until(lambda: _two(lab.execute(0, ["sh", "-c", confined], 10).stdout.split()[1::2]))
        os.close(waiting)
    assert found[0] == found[1]
    assert not int(found[0], 16) >> kernel.CAP_NET_ADMIN & 1


def _two(found: list[str]) -> list[str] | None:
    return found if len(found) == 2 else None


def test_a_worker_that_its_own_process_traces_is_ended_all_the_same(tmp_path: Path) -> None:
    """It is not reaped as long as it is traced, and what traces it is not among the processes that are signalled."""
    topology = build("star(hosts=2)", rate_bps=10**8)
    log = tmp_path / "log"
    with NetnsLab() as lab:
        lab.share(tmp_path)
        lab.up(topology, LinkSettings(), permutations(topology.hosts, 2))
        lab.launch([Launch("h0", 0, "", str(log), Program((attack.PYTHON, "-c", TRACED), {}, "/"))])
        until(lambda: log.read_text() == "traced\n")
        began_s = time.monotonic()
        lab.kill()
        assert time.monotonic() - began_s < 10
        lab.launch([Launch("h0", 0, "", str(log), Program(("echo", "again"), {}, "/"))])
        assert [(one.node, one.status) for one in ended(lab, 1)] == [(0, 0)]
    assert log.read_text() == "traced\nagain\n"


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
    given = (tmp_path, Path(sys.prefix))  # a checkout in /tmp has its Python there
    assert all(any(one.is_relative_to(f"/tmp/{name}") for one in given) for name in seen[4:] if name)


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


FURNISH = """\
import json, sys
from pathlib import Path
from testbed.lab.netns.on_nodes import enclosure
outer, link, *seen = map(Path, sys.argv[1:])
enclosure.EMPTY = (str(outer), str(link), str(link.with_name("nowhere")))
enclosure.furnish(enclosure.View())
(link / "new").touch()
print(json.dumps([sorted(one.name for one in folder.iterdir()) for folder in (outer, link, *seen)]))
"""


@pytest.mark.parametrize("target", ["elsewhere", "outer/inner"])
def test_folders_of_services_are_emptied_where_they_are_links(target: str, tmp_path: Path) -> None:
    """Also in each other; what Python needs is there still, by all its names."""
    outer, link, place = tmp_path / "outer", tmp_path / "link", tmp_path / target
    outer.mkdir()
    place.mkdir(exist_ok=True)
    (place / "service").touch()
    (place / "needed").mkdir()
    (place / "needed" / "module.py").touch()
    link.symlink_to(target)
    link.with_name("nowhere").symlink_to("missing")
    words = [sys.executable, "-P", "-c", FURNISH, str(outer), str(link), str(link / "needed"), str(place / "needed")]
    path = os.pathsep.join([str(link / "needed"), str(Path(attack.__file__).parents[3])])
    done = subprocess.run(
        [*PRIVATE, *words],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    inner = [] if target == "elsewhere" else ["inner"]
    assert json.loads(done.stdout) == [inner, ["needed", "new"], ["module.py"], ["module.py"]]
    assert sorted(one.name for one in place.iterdir()) == ["needed", "service"]


REFUSED = """\
import os, sys
from testbed.base.errors import LabError
from testbed.lab.netns.on_nodes.enclosure import Enclosure, View
network = os.open("/proc/self/ns/net", os.O_RDONLY)
nothing = os.open("/dev/null", os.O_RDONLY)
fine, refused = Enclosure("h0", network, View()), Enclosure("h1", nothing, View())
fine.wait()
try:
    refused.wait()
except LabError as error:
    print(error)
for one in (fine, refused):
    one.end()
    one.close()
print(*(os.waitstatus_to_exitcode(os.waitpid(one.pid, 0)[1]) for one in (fine, refused)))
"""


def test_a_node_that_the_kernel_refuses_to_furnish_is_named_and_others_are_not_disturbed() -> None:
    words = [sys.executable, "-P", "-c", REFUSED]
    done = subprocess.run([*PRIVATE, *words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "h1: its workers cannot be kept apart from the machine: [Errno 22] setns: Invalid argument",
        "  fix: see what testbed doctor says of enclosures",
        "-9 1",
    ]
