"""The lab of containers on a real daemon: what is in it, what runs in it, what is left of it."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from testbed.base.errors import LabError, MissingToolError
from testbed.lab.base import LinkChange, LinkSettings
from testbed.lab.docker import daemon, image
from testbed.lab.docker import lab as lab_module
from testbed.lab.docker.daemon import Daemon, Marked
from testbed.lab.docker.lab import AGENT, DockerLab
from testbed.lab.docker.place import Containers
from testbed.lab.programs import Exit, Launch, Program
from testbed.machine.cgroups import limits, quotas_above
from testbed.topologies.build import build
from testbed.topologies.model import Topology
from tests import own
from tests.patience import until

from ..bench import Bench
from ..conftest import Called, testbed
from . import own_image
from .attack import CONTAINERS, attack
from .ended import ended
from .test_hostile import nothing_came_of

__all__ = ["testbed"]  # a fixture

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("docker")]

RATE_BPS = 100_000_000
HOLD, INNER_MOUNT = (Path(__file__).with_name(f"{name}.py") for name in ("hold_docker", "inner_mount"))
PING = ["ping", "-q", "-c", "1", "-W", "2"]


@pytest.fixture
def lab() -> Iterator[DockerLab]:
    with DockerLab(every_address=True) as lab:
        yield lab


def up(lab: DockerLab, expression: str, rate_bps: int = RATE_BPS) -> Topology:
    topology = build(expression, rate_bps=rate_bps)
    lab.up(topology, LinkSettings(), permutations(topology.hosts, 2))
    return topology


def ours(lab: DockerLab) -> list[Marked]:
    return Daemon().marked(lab._id)


def ended_by_node(lab: DockerLab, count: int) -> list[Exit]:
    return sorted(ended(lab, count), key=lambda one: one.node)


def test_links_are_as_in_every_lab(lab: DockerLab) -> None:
    topology = up(lab, "star(hosts=3)")
    switch = topology.index["s0"]
    assert lab.execute(0, [*PING, "h2"], 5).status == 0
    assert lab.execute(2, [*PING, "h0-eth0"], 5).status == 0
    told = lab.describe()
    assert told["nodes"] == {"host": 3, "bridge": 1}
    assert [(one["directed_links"], one["rate_bps"]) for one in told["shapes"]] == [(6, RATE_BPS)]
    assert (told["containers"]["cpus"], told["containers"]["memory_bytes"]) == (1.0, 2**30)
    counts = {one.directed_link: one.packets for one in lab.counters()}
    assert counts[0] == counts[1] == 2
    assert lab.execute(switch, ["hostname"], 5).stdout == "s0\n"
    lab.adjust([LinkChange(0, blocked=True)])
    assert lab.execute(0, ["ping", "-q", "-c", "1", "-W", "0.2", "h1"], 5).status == 1
    lab.adjust([LinkChange(0, blocked=False)])
    lab.verify()
    # Only the lab's own interfaces are there, and no host of a container can change them.
    assert lab.execute(0, ["ls", "/sys/class/net"], 5).stdout.split() == ["eth0", "lo"]
    assert lab.execute(0, ["tc", "qdisc", "del", "dev", "eth0", "root"], 5).status != 0


def test_quotas_above_the_containers_are_watched_and_those_that_were_asked_for_are_not(lab: DockerLab) -> None:
    up(lab, "star(hosts=2)")
    for container in lab._hosts.values():
        assert "docker" in Path(f"/proc/{container.pid}/cgroup").read_text()
        assert quotas_above(container.pid) == limits().quotas
    with lab.monitor() as monitor:
        lab.execute(
            0, ["sh", "-c", "timeout 0.3 sh -c 'while :; do :; done' & timeout 0.3 sh -c 'while :; do :; done'"], 5
        )
    assert not any(map(math.isnan, monitor.log.throttled_s))
    if not limits().quotas:
        assert set(monitor.log.throttled_s) == {0.0}


def test_hosts_that_forward_reach_each_other(lab: DockerLab) -> None:
    up(lab, "bcube(n=2,k=2)")
    assert lab.execute(0, [*PING, "h3"], 5).status == 0


def inspected(lab: DockerLab) -> list[dict[str, Any]]:
    return [Daemon().api.inspect_container(one.id) for one in ours(lab)]


def test_nothing_is_published_and_nothing_privileged(lab: DockerLab, tmp_path: Path) -> None:
    work, read = tmp_path / "run" / "work", tmp_path / "read"
    for folder in (work / "h0", work / "h1", read):
        folder.mkdir(parents=True)
    lab.share(work, [read])
    up(lab, "star(hosts=2)")
    for one in inspected(lab):
        host = one["HostConfig"]
        assert (host["Privileged"], host["CapAdd"], host["Devices"] or []) == (False, None, [])
        assert (host["NetworkMode"], host["PortBindings"] or {}, host["PublishAllPorts"]) == ("none", {}, False)
        assert (one["NetworkSettings"]["Ports"], one["NetworkSettings"]["IPAddress"]) == ({}, "")
        assert (host["PidMode"], host["UTSMode"], host["IpcMode"]) == ("", "", "private")
        assert "no-new-privileges" in host["SecurityOpt"]
        writable = [mount["Target"] for mount in host["Mounts"] if not mount.get("ReadOnly")]
        assert writable == [str(work / one["Config"]["Hostname"])]
    (work / "job").write_text("to be read")
    assert lab.execute(0, ["cat", str(work / "job")], 5).stdout == "to be read"
    assert lab.execute(0, ["touch", str(work / "h0" / "a")], 5).status == 0
    for place in (work, work / "h1", work.parent, read):
        lab.execute(0, ["touch", str(place / "a")], 5)
        lab.execute(0, ["ln", "-s", "/etc", str(place / "a")], 5)
        lab.execute(0, ["mv", str(work / "h1"), str(work / "h2")], 5)
    assert lab.execute(0, ["touch", sys.prefix], 5).status == 1
    assert list(tmp_path.rglob("a")) == [work / "h0" / "a"]
    assert sorted(path.name for path in work.iterdir()) == ["h0", "h1", "job"]


def test_no_trick_succeeds(lab: DockerLab, tmp_path: Path) -> None:
    nothing_came_of(attack(lab, tmp_path, CONTAINERS))
    assert ours(lab) == []


def test_what_is_mounted_below_a_folder_that_is_read_is_read_only(docker: str, tmp_path: Path) -> None:
    pid = Path(docker.removeprefix("unix://")).with_name("pid").read_text()
    (tmp_path / "work").mkdir()
    words = ["nsenter", f"--mount=/proc/{pid}/ns/mnt", sys.executable, str(INNER_MOUNT), str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Read-only file system\n" * 2 + "['file']\n"


def test_a_container_that_would_have_the_others_run_something_is_refused(lab: DockerLab) -> None:
    up(lab, "star(hosts=2)")
    container = lab._hosts[0]
    call = [container.python, "-P", "-m", AGENT, "h1", "hostname"]
    done = lab.execute(0, call, 20)
    assert (done.status, done.stdout) == (1, "")
    assert done.stderr == "the scheme of this trial starts nothing on other hosts\n"
    assert lab.execute(0, [*lab.agent(), "h1", "hostname"], 20).stdout == "h1\n"
    lab.down()
    up(lab, "star(hosts=2)")
    assert lab.execute(0, call, 20).status == 1, "the next trial has asked for nothing"


def test_programs_report_how_they_ended(lab: DockerLab, tmp_path: Path) -> None:
    for name in ("h0", "h1", "h2"):
        (tmp_path / name).mkdir()
    lab.share(tmp_path)
    topology = up(lab, "star(hosts=3)")
    switch = topology.index["s0"]

    def launch(node: int, script: str) -> Launch:
        program = Program(("sh", "-c", script), {"COLOUR": "blue"}, str(tmp_path))
        return Launch(topology.nodes[node].name, node, "", str(tmp_path / f"{node}.log"), program)

    lab.launch([launch(0, "echo $COLOUR $(pwd) $(hostname); exit 3"), launch(switch, "hostname")])
    first, second = ended_by_node(lab, 2)
    assert (first.node, first.status, second.node, second.status) == (0, 3, switch, 0)
    assert 0 < first.started_s < first.ended_s < time.monotonic()
    assert (tmp_path / "0.log").read_text() == f"blue {tmp_path} h0\n"
    assert (tmp_path / f"{switch}.log").read_text() == "s0\n"

    lab.launch([launch(0, "sleep 100"), launch(1, "sleep 100"), launch(2, "kill -STOP $$")])
    lab.signal("h0", signal.SIGKILL)
    assert [(one.node, one.status) for one in ended_by_node(lab, 1)] == [(0, -signal.SIGKILL)]
    assert until(lab.stopped) == ["h2"]
    lab.kill()
    assert lab.exits() == []
    assert lab.execute(1, ["ps", "-eo", "comm"], 5).stdout.count("sleep") == 0

    helper = lab.start(1, Program((sys.executable, "-c", "import numpy, signal; signal.pause()"), {}, "/"), os.devnull)
    helper.signal(signal.SIGTERM)
    assert helper.wait(20) == -signal.SIGTERM


def test_down_ends_everything_and_up_works_again(lab: DockerLab) -> None:
    up(lab, "star(hosts=2)")
    null = os.open(os.devnull, os.O_RDWR)
    sleeper = lab.attach(0, ["sh", "-c", "setsid sleep 1000 & sleep 1000"], (null, null, null))
    os.close(null)
    lab.down()
    assert sleeper.wait() == -signal.SIGKILL
    assert ours(lab) == []
    with pytest.raises(LabError, match="no network is up"):
        lab.counters()
    up(lab, "star(hosts=3)")
    assert lab.execute(0, [*PING, "h2"], 5).status == 0


def test_two_labs_do_not_see_each_other(lab: DockerLab) -> None:
    up(lab, "star(hosts=2)")
    with DockerLab(every_address=True) as other:
        up(other, "star(hosts=2)", rate_bps=2 * RATE_BPS)
        for one in (lab, other):
            assert one.execute(0, [*PING, "h1"], 5).status == 0
        other.adjust([LinkChange(0, blocked=True)])
        assert lab.execute(0, [*PING, "h1"], 5).status == 0
        assert (len(ours(lab)), len(ours(other))) == (2, 2)
    assert len(ours(lab)) == 2
    lab.verify()


def test_a_container_that_somebody_ends_is_named(lab: DockerLab, tmp_path: Path) -> None:
    lab.share(tmp_path)
    up(lab, "star(hosts=2)")
    lab.launch([Launch("h1", 1, "", str(tmp_path / "log"), Program(("sleep", "100"), {}, "/"))])
    victim = next(one for one in ours(lab) if one.name.endswith("-h1"))
    Daemon().remove(victim.id)
    with pytest.raises(LabError, match="the container of h1 has ended"):
        ended_by_node(lab, 1)


def test_too_little_memory_ends_a_program_and_not_the_lab() -> None:
    with DockerLab(containers=Containers(cpus=0.5, memory_bytes=100 * 2**20)) as lab:
        up(lab, "star(hosts=2)")
        assert lab.describe()["containers"]["cpus"] == 0.5
        eater = [sys.executable, "-c", "x = bytearray(200 * 2**20); print(len(x))"]
        assert lab.execute(0, eater, 20).status == -signal.SIGKILL
        assert lab.execute(0, [*PING, lab.execute(1, ["hostname"], 5).stdout.strip()], 5).status == 0


def test_what_a_killed_harness_had_made_is_gone(testbed: Callable[..., Called]) -> None:
    before = {one.id for one in Daemon().marked()}
    held = subprocess.Popen([sys.executable, str(HOLD)], stdout=subprocess.PIPE, text=True)
    assert held.stdout
    assert [held.stdout.readline() for _ in range(2)] == ["starts\n", "up\n"]
    assert sum(one.owner.pid == held.pid for one in Daemon().marked()) == 3
    held.kill()
    held.wait()
    until(lambda: not {one.id for one in Daemon().marked()} - before)
    assert held.pid not in [left["owner_pid"] for left in json.loads(testbed("clean", "--json").out)["left"]]


def test_what_is_left_is_listed_and_removed_only_when_asked_to(lab: DockerLab, testbed: Callable[..., Called]) -> None:
    up(lab, "star(hosts=2)")  # which lives, and is not listed
    api = Daemon().api
    kind = lab.describe()["containers"]["image"]
    gone = subprocess.Popen(["true"])
    owner = daemon.Owner.of(gone.pid)
    gone.wait()
    marks = {**daemon.labels("0123456789ab", f"h{os.getpid()}"), daemon.OWNER: str(owner)}
    name = f"testbed-0123456789ab-h{os.getpid()}"
    left = api.create_container(kind, command=["true"], name=name, labels=marks)["Id"]
    alike = api.create_container(kind, command=["true"], name=f"{name}-somebodys")["Id"]
    try:
        seen = testbed("clean")
        assert seen.code == 0
        assert name in seen.out
        assert "somebodys" not in seen.out
        assert lab._id not in seen.out
        assert "remove them: testbed clean --yes" in seen.out
        assert left in {one.id for one in Daemon().marked()}
        assert "removed" in testbed("clean", "--yes").out
        assert left not in {one.id for one in Daemon().marked()}
        assert api.inspect_container(alike)["Name"].endswith("somebodys")
        assert len(ours(lab)) == 2
    finally:
        Daemon().remove(alike)


def refused(name: str) -> str:
    """Why a user's image cannot be a host."""
    topology = build("star(hosts=2)", rate_bps=RATE_BPS)
    with DockerLab(containers=Containers(image=name)) as lab, pytest.raises(MissingToolError) as caught:
        lab.require(topology, LinkSettings())
    return caught.value.problem


def test_an_image_that_cannot_be_a_host_is_refused_and_says_why() -> None:
    assert refused("nobody/has-this") == "docker.image: there is no image 'nobody/has-this' on this machine"
    bare = image.local_name()
    assert refused(bare) == f"docker.image: {bare!r} has no python3 on its PATH"
    own_image.make("only-python", with_testbed=False)
    told = refused("only-python")
    assert told.startswith("docker.image: 'only-python' cannot run testbed: ")
    assert "No module named 'testbed'" in told


FLOODS = "import sys\nwhile sys.stdout.write('x' * 2**20): pass\n"


def test_an_image_that_prints_without_end_fills_neither_disk_nor_memory(
    docker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_image.make("prints-on", with_testbed=False, instead=FLOODS)
    monkeypatch.setattr(daemon, "TIMEOUT_S", 6)
    logs: list[int] = []
    remove = Daemon.remove

    def look_and_remove(self: Daemon, container: str) -> None:
        folder = Path(docker.removeprefix("unix://")).parent
        logs.extend(path.stat().st_size for path in (folder / "data/containers").rglob(f"{container}-json.log*"))
        self.api.timeout = 60  # a container that is not removed in 6 s would print on beside all other tests
        remove(self, container)

    monkeypatch.setattr(Daemon, "remove", look_and_remove)
    never = "python3 in image 'prints-on' did not end within 6 s"
    with DockerLab(containers=Containers(image="prints-on")) as lab, pytest.raises(LabError, match=never):
        lab.require(build("star(hosts=2)", rate_bps=RATE_BPS), LinkSettings())
    assert logs
    assert sum(logs) < 10 * 2**20


def test_an_image_of_ones_own_is_a_host() -> None:
    checks = "HEALTHCHECK --interval=1s CMD touch /checked"
    own_image.make("of-ones-own", with_testbed=True, changes=[checks, "LABEL testbed.lab=another", "VOLUME /data"])
    topology = build("star(hosts=2)", rate_bps=RATE_BPS)
    with DockerLab(containers=Containers(image="of-ones-own")) as lab:
        lab.require(topology, LinkSettings())
        up(lab, "star(hosts=2)")
        assert lab.describe()["containers"]["image"] == "of-ones-own"
        config = Daemon().api.inspect_container(ours(lab)[0].id)["Config"]
        assert config["Healthcheck"]["Test"] == ["NONE"]
        script = "import os, sys, socket; print(socket.gethostname(), os.path.exists('/usr/bin/env'))"
        assert lab.execute(1, [sys.executable, "-c", script], 10).stdout == "h1 False\n"


def test_without_the_image_it_says_how_to_make_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image, "local_name", lambda: "testbed-local:of-another-machine")
    with DockerLab() as lab, pytest.raises(MissingToolError) as caught:
        lab.require(build("star(hosts=2)", rate_bps=RATE_BPS), LinkSettings())
    assert caught.value.fix == "testbed image"


def test_limits_that_the_daemon_refuses_are_told() -> None:
    with DockerLab(containers=Containers(cpus=4096)) as lab:
        with pytest.raises(LabError, match=r"Docker cannot start container .*CPU"):
            up(lab, "star(hosts=2)")
        assert ours(lab) == []


def test_a_container_that_does_not_come_is_named_with_what_it_says(
    lab: DockerLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab_module.Listener, "arrivals", lambda *_: {})  # even one that would have been in time
    with pytest.raises(LabError, match=r"the container of h0 did not start .*, nor those of 1 others") as caught:
        up(lab, "star(hosts=2)")
    assert caught.value.fix is not None
    assert '"wire": ' in caught.value.fix
    assert ours(lab) == []


QUICK = """\
name: quick
lab: docker
docker: {cpus: 1, memory: 1 GiB}
links: {rate: RATE}
workload: {WORKLOAD, iterations: 4}
arms:
  - {topology: star(hosts=HOSTS), scheme: SCHEME}
retries: 0
quiet: 0 s
start_timeout: 170 s  # to import PyTorch: all containers together get as much of a core as one process of another test
"""
OWN = {
    "WORKLOAD": 'model: "./net.py:Net", dataset: "./data.py:load", batch: 2, compute: {mode: paced, pace: {2: 0.3 s}}',
    **{"HOSTS": "2", "SCHEME": "ring", "RATE": "100 Mbit/s"},
}
RING = {
    "WORKLOAD": "kind: profile, model: lenet5, batch: 32, compute: {mode: paced, pace: {32: 0.3 s}}",
    **{"HOSTS": "2", "SCHEME": "ring", "RATE": "100 Mbit/s"},
}
PLAYED = RING | {"HOSTS": "3", "SCHEME": "openmpi(algorithm=ring)", "RATE": "500 Mbit/s"}


def spec_of(words: dict[str, str]) -> str:
    spec = QUICK
    for name, text in words.items():
        spec = spec.replace(name, text)
    return spec


def record_of(bench: Bench, folder: Path, words: dict[str, str]) -> dict[str, Any]:
    """Of a trial without a run around it."""
    with DockerLab(containers=Containers(cpus=1.0, memory_bytes=2**30)) as lab:
        return bench.run_in(lab, spec_of(words), folder).record


def test_a_trial_is_as_in_any_other_lab(tmp_path: Path, testbed: Callable[..., Called]) -> None:
    (tmp_path / "spec.yaml").write_text(spec_of(RING))
    called = testbed("run", "spec.yaml", "--out", "out")
    assert called.code == 0, called.out + called.err
    (path,) = (tmp_path / "out" / "trials").iterdir()
    record = json.loads(path.read_text())
    assert (record["status"], record["sums"]["wrong_elements"]) == ("done", 0)
    assert 0.97 < record["metrics"]["gst_ratio"] < 10  # other tests use the cores
    assert all(check["machine"] for check in record["fidelity"]["checks"] if not check["ok"])
    described = json.loads((tmp_path / "out" / "env.json").read_text())["lab"][record["id"]]
    assert described["containers"]["memory_bytes"] == 2**30
    assert Daemon().marked() == [] or all(one.owner.may_live() for one in Daemon().marked())


def test_a_model_and_data_of_ones_own_come_along(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers see neither the spec's directory nor what the loader reads."""
    own.write(tmp_path)
    own.in_this_process(monkeypatch)
    record = record_of(bench, tmp_path, OWN)
    assert (record["status"], record["accuracy"]["weights_equal"]) == ("done", True), record["error"]


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs mpirun: apt-get install openmpi-bin")
def test_open_mpi_reaches_other_containers(bench: Bench, tmp_path: Path) -> None:
    """All its sums are right; containers that play a profile back need no PyTorch."""
    record = record_of(bench, tmp_path, PLAYED)
    assert (record["status"], record["sums"]["wrong_elements"]) == ("done", 0)
    assert record["sums"]["checked_elements"] > 0
    assert record["metrics"]["gst_ratio"] > 0.97
