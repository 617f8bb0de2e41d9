"""What every lab must do, whatever it is made of (see :class:`testbed.lab.base.Lab`)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from itertools import permutations
from pathlib import Path

import pytest

from testbed.base.errors import LabError, MissingToolError, PrivilegeError, SpecError
from testbed.base.process_names import file_name
from testbed.lab import homes
from testbed.lab.base import PIECE_BYTES, SHARED, Lab, LinkChange, LinkSettings
from testbed.lab.choice import opener
from testbed.lab.docker.lab import DockerLab
from testbed.lab.measurements import Burst, Way
from testbed.lab.programs import Launch, Program
from testbed.topologies.addressing import plan
from testbed.topologies.build import build
from testbed.topologies.model import Topology
from testbed.workloads.sync.cost import goodput
from tests.patience import PATIENCE_S, until

from ..fake_lab import FakeLab
from .conftest import Idle
from .ended import ended

pytestmark = pytest.mark.lab

RATE_BPS = 100_000_000
LABS: dict[str, Callable[[], Lab]] = {
    "fake": FakeLab,
    "netns": lambda: opener("netns")(),
    "mininet": lambda: opener("mininet")(),
    "docker": lambda: opener("docker")(),
}
REAL = [name for name in LABS if name != "fake"]


@pytest.fixture(params=LABS)
def lab(request: pytest.FixtureRequest, idle: Idle, tmp_path: Path) -> Iterator[Lab]:
    yield from opened(request, idle, tmp_path)


@pytest.fixture(params=REAL)
def real(request: pytest.FixtureRequest, idle: Idle, tmp_path: Path) -> Iterator[Lab]:
    """Labs through which packets go."""
    yield from opened(request, idle, tmp_path)


@pytest.fixture(params=["star(hosts=3)", "bcube(n=2,k=2)", "spine_leaf(racks=2,hosts_per_rack=2,spines=2)"])
def expression(request: pytest.FixtureRequest) -> str:
    """Networks that packets go through."""
    return str(request.param)


@pytest.fixture(params=REAL)
def opening(request: pytest.FixtureRequest) -> str:
    """The Python expression that opens a lab in another process."""
    if request.param == "docker":
        request.getfixturevalue("docker")
    return f"opener({request.param!r})()"


def opened(request: pytest.FixtureRequest, idle: Idle, folder: Path) -> Iterator[Lab]:
    name = request.param
    if name == "docker":
        request.getfixturevalue("docker")  # which skips where there can be no daemon

    def make() -> Lab:
        try:
            return LABS[name]()
        except (MissingToolError, PrivilegeError) as error:
            pytest.skip(f"{name}: {error}")

    for number in range(4):
        (folder / f"h{number}").mkdir()
    with nullcontext(FakeLab()) if name == "fake" else idle.taken(name, make) as lab:
        lab.share(folder)
        yield lab


def up(lab: Lab, expression: str = "star(hosts=3)", settings: LinkSettings | None = None) -> Topology:
    topology = build(expression, rate_bps=RATE_BPS)
    lab.require(topology, settings or LinkSettings())
    lab.up(topology, settings or LinkSettings(), permutations(topology.hosts, 2))
    return topology


def shell(script: str, folder: Path, **environment: str) -> Program:
    return Program(("sh", "-c", script), environment, str(folder))


def until_written(path: Path) -> str:
    until(lambda: path.exists() and path.read_text().endswith("\n"))
    return path.read_text()


def shapes(lab: Lab) -> dict[int, int]:
    """Number of directed links by their rate, as the lab has read them back."""
    return {shape["rate_bps"]: shape["directed_links"] for shape in lab.describe()["shapes"]}


def test_what_is_built_is_read_back(lab: Lab) -> None:
    up(lab)
    lab.verify()
    assert shapes(lab) == {RATE_BPS: 6}
    assert lab.describe()["mtu"] == 1500
    assert [one.directed_link for one in lab.counters()] == list(range(6))


def test_it_tells_what_each_link_carries_or_that_it_cannot(lab: Lab) -> None:
    up(lab)
    found = [lab.traffic(range(10_000, 10_100)) for _ in range(2)]
    for one in found:
        if isinstance(lab, FakeLab):
            assert not one
            continue
        assert sorted(passed.directed_link for each in one for passed in each.links) == list(range(6))
        assert not any(each.streams for each in one)
    assert all(before.at_s < after.at_s for before, after in zip(*found, strict=True))


def test_what_programs_write_can_be_read_and_no_link_is_followed(real: Lab, tmp_path: Path) -> None:
    """Each host writes into a copy of its own, and all write into the folder that they share."""
    spec, work = tmp_path / "spec", tmp_path / "work"
    for folder in (spec / "old", work / "h0", work / "h1", work / SHARED):
        folder.mkdir(parents=True)
    (spec / "old" / "file").write_text("was there")
    real.share(work, [spec])
    topology = up(real)
    script = (
        "mkdir new __pycache__ && printf $(hostname) > new/a && head -c 3000000 /dev/zero > big && mkfifo p"
        " && ln -s /etc/passwd new/l && : > __pycache__/x.pyc && ln -s /etc linked"
        f" && echo $(hostname) >> {work / SHARED / 'names'}"
    )
    real.launch([Launch(f"h{i}", i, "", str(tmp_path / f"{i}.log"), shell(script, spec)) for i in range(2)])
    assert [one.status for one in ended(real, 2)] == [0, 0], (tmp_path / "0.log").read_text()
    for node in range(2):
        listing = real.written(node, spec)
        assert (listing.files, listing.is_whole) == ((("big", 3_000_000), ("new/a", 2)), True)
        assert real.read_written(node, spec, "new/a", 0) == topology.nodes[node].name.encode()
        assert len(real.read_written(node, spec, "big", 0)) == PIECE_BYTES
        assert len(real.read_written(node, spec, "big", 2 * PIECE_BYTES)) == 3_000_000 - 2 * PIECE_BYTES
        for name in ("new/l", "linked/passwd", "p", "../work/h0", "missing"):
            with pytest.raises(LabError):
                real.read_written(node, spec, name, 0)
    assert sorted((work / SHARED / "names").read_text().split()) == ["h0", "h1"]
    assert [path.name for path in spec.iterdir()] == ["old"]


def test_processes_read_what_they_are_told(lab: Lab, tmp_path: Path) -> None:
    up(lab)
    path, said = tmp_path / "told.jsonl", [{"time": time.monotonic(), "number": number} for number in range(2)]
    for one in said:
        lab.tell(path, one)
    read = lab.execute(1, ["cat", str(path)], PATIENCE_S).stdout
    assert list(map(json.loads, read.splitlines())) == said


def test_it_watches_queues_or_says_that_it_cannot(lab: Lab) -> None:
    """It is no error that a lab cannot, and what was watched is told once."""
    up(lab)
    if lab.watch_queues():
        assert lab.queues().problem is None
    with pytest.raises(LabError, match="queues are not watched"):
        lab.queues()


def test_it_goes_down_and_up_again_as_something_else(lab: Lab) -> None:
    up(lab)
    lab.down()
    with pytest.raises(LabError, match="no network is up"):
        lab.counters()
    up(lab, "star(hosts=2)")
    lab.verify()
    assert shapes(lab) == {RATE_BPS: 4}


def test_programs_run_on_their_nodes_and_their_ends_are_told(lab: Lab, tmp_path: Path) -> None:
    up(lab)
    scripts = {0: "echo $COLOUR $PWD", 1: "exit 7", 2: "kill -9 $$"}
    lab.launch(
        [
            Launch(f"h{node}", node, "", str(tmp_path / f"{node}.log"), shell(script, tmp_path, COLOUR="blue"))
            for node, script in scripts.items()
        ]
    )
    exits = ended(lab, 3)
    assert {one.node: one.status for one in exits} == {0: 0, 1: 7, 2: -signal.SIGKILL}
    assert all(0 < one.started_s <= one.ended_s <= time.monotonic() for one in exits)
    assert (tmp_path / "0.log").read_text() == f"blue {tmp_path}\n"
    assert lab.exits() == []


def test_a_program_has_a_home_that_it_may_write(real: Lab, tmp_path: Path) -> None:
    up(real)
    script = f"echo ${{HOME##*/}}; mkdir ~/.cache/{tmp_path.parent.name} && echo x >~/.cache/{tmp_path.parent.name}/x"
    real.launch([Launch("h0", 0, "", str(tmp_path / "log"), shell(script, tmp_path, **{homes.VARIABLE: "1"}))])
    assert [exit.status for exit in ended(real, 1)] == [0], (tmp_path / "log").read_text()
    assert (tmp_path / "log").read_text().startswith("home-")


def test_a_stopped_worker_is_named_and_goes_on(lab: Lab, tmp_path: Path) -> None:
    up(lab)
    log, go = tmp_path / "log", tmp_path / "h1" / "go"  # in its own folder
    # Nothing is forked once it is ready: a shell that waits for its child to begin is not stopped before that.
    script = "mkdir -p h1; mkfifo h1/go; echo ready; read line <h1/go; exit 3"
    lab.launch([Launch("h1", 1, "", str(log), shell(script, tmp_path))])
    until_written(log)
    lab.signal("h1", signal.SIGSTOP)
    until(lambda: lab.stopped() == ["h1"])
    lab.signal("h1", signal.SIGCONT)
    assert lab.execute(1, ["sh", "-c", f"echo >{go}"], PATIENCE_S).status == 0
    assert [(one.node, one.status) for one in ended(lab, 1)] == [(1, 3)]


def test_processor_time_of_a_worker_and_of_what_it_starts_is_told(lab: Lab, tmp_path: Path) -> None:
    up(lab)
    # The counting is a child's.
    script = "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo counted; sleep 600'; true"
    lab.launch([Launch("h1", 1, "", str(tmp_path / "log"), shell(script, tmp_path))])
    until_written(tmp_path / "log")
    until(lambda: 0.05 < lab.cpu_s().get("h1", 0.0) < PATIENCE_S)
    lab.kill()
    assert lab.cpu_s().get("h1", 0.0) == 0


def test_it_is_seen_from_outside_that_a_process_stands_still(lab: Lab, tmp_path: Path) -> None:
    """One is stopped, and one sleeps because it wants to."""
    up(lab)
    with lab.monitor() as monitor:
        ready = "echo ready; exec sleep 30"
        lab.launch([named(process, ready, tmp_path, node) for process, node in (("h1", 1), ("h2", 2))])
        for process in ("h1", "h2"):
            until_written(tmp_path / f"{process}.log")
        lab.signal("h1", signal.SIGSTOP)
        began_s = time.monotonic()
        time.sleep(1.5)
        ended_s = time.monotonic()
        lab.signal("h1", signal.SIGCONT)
    watched = monitor.processes
    stopped_s = {name: times.inside([(began_s, ended_s)], times.stopped_s)[0] for name, times in watched.of.items()}
    # A busy machine may keep the watcher from looking for a while; it says so, and says the truth of the rest.
    seen_s = ended_s - began_s - watched.unseen_s(began_s, ended_s)
    assert stopped_s.keys() == {"h1", "h2"}
    assert seen_s == 0 or stopped_s["h1"] > 0.5 * seen_s > 0
    assert stopped_s["h2"] == 0
    lab.kill()


def named(process: str, script: str, folder: Path, node: int = 1) -> Launch:
    return Launch(process, node, "", str(folder / f"{file_name(process)}.log"), shell(script, folder))


def test_a_node_has_several_processes_each_with_its_own_end_and_log(lab: Lab, tmp_path: Path) -> None:
    up(lab)
    scripts = {"h1": "echo own; exit 3", "h1.daemon": "echo daemon; exit 4", "a/h1": "echo of a; exit 5"}
    lab.launch([named(process, script, tmp_path) for process, script in scripts.items()])
    exits = ended(lab, 3)
    assert {one.process: (one.node, one.status) for one in exits} == {"h1": (1, 3), "h1.daemon": (1, 4), "a/h1": (1, 5)}
    logs = {name: (tmp_path / f"{name}.log").read_text() for name in ("h1", "h1.daemon", "a+h1")}
    assert logs == {"h1": "own\n", "h1.daemon": "daemon\n", "a+h1": "of a\n"}


def test_one_process_of_a_node_is_stopped_or_killed_and_the_others_go_on(lab: Lab, tmp_path: Path) -> None:
    up(lab)
    script = "echo ready; exec sleep 60"  # nothing is forked, see above
    lab.launch([named(process, script, tmp_path) for process in ("h1", "h1.daemon", "a/h1")])
    for name in ("h1", "h1.daemon", "a+h1"):
        until_written(tmp_path / f"{name}.log")
    lab.signal("h1.daemon", signal.SIGSTOP)
    until(lambda: lab.stopped() == ["h1.daemon"])
    lab.signal("h1.daemon", signal.SIGCONT)
    until(lambda: lab.stopped() == [])
    lab.signal("h1.daemon", signal.SIGKILL)
    assert [(one.process, one.status) for one in ended(lab, 1)] == [("h1.daemon", -signal.SIGKILL)]
    lab.signal("h1.daemon", signal.SIGKILL)  # which has ended
    lab.signal("h1", signal.SIGTERM)  # whatever is on the node
    assert {one.process: one.status for one in ended(lab, 2)} == dict.fromkeys(["h1", "a/h1"], -signal.SIGTERM)
    with pytest.raises(LabError, match=r"there is no node or process 'h1\.deamon' in this lab"):
        lab.signal("h1.deamon", signal.SIGKILL)


def test_all_processes_of_a_node_write_in_its_folder_and_nowhere_else(real: Lab, tmp_path: Path) -> None:
    up(real)
    launches = []
    for process in ("h1", "h1.daemon", "a/h1"):
        name = file_name(process)
        script = f"echo {name} >h1/{name} && ! touch h2/{name} {name} ../{name}"
        launches.append(named(process, script, tmp_path))
    real.launch(launches)
    assert {one.process: one.status for one in ended(real, 3)} == {"h1": 0, "h1.daemon": 0, "a/h1": 0}
    assert {path.name: path.read_text() for path in (tmp_path / "h1").iterdir()} == {
        name: f"{name}\n" for name in ("h1", "h1.daemon", "a+h1")
    }
    assert not list((tmp_path / "h2").iterdir())


@pytest.mark.parametrize("name", ["", "../h1"])  # tests/testbed/base/test_process_names.py has more
def test_a_name_is_no_path_and_not_too_long(lab: Lab, tmp_path: Path, name: str) -> None:
    up(lab)
    with pytest.raises(SpecError, match="a process cannot be called"):
        lab.launch([Launch(name, 1, "", str(tmp_path / "log"), shell("exit 0", tmp_path))])


def test_a_name_is_one_process(lab: Lab, tmp_path: Path) -> None:
    up(lab)
    with pytest.raises(LabError, match=r"two processes are called h1\.daemon"):
        lab.launch([named("h1.daemon", "exit 0", tmp_path)] * 2)
    with pytest.raises(LabError, match="the process h2 is to run on h1, and has the name of another node"):
        lab.launch([named("h2", "exit 0", tmp_path)])
    for _ in range(2):  # again, once it has ended
        lab.launch([named("h1.daemon", "exit 0", tmp_path)])
        assert [one.process for one in ended(lab, 1)] == ["h1.daemon"]


def test_workers_can_be_killed_and_the_network_stays(lab: Lab, tmp_path: Path) -> None:
    up(lab)
    lab.launch([named(f"h{node}", "sleep 60", tmp_path, node) for node in (0, 1)])
    lab.kill()
    assert lab.exits() == []
    lab.verify()
    lab.launch([Launch("h0", 0, "", str(tmp_path / "again.log"), shell("exit 0", tmp_path))])
    assert [(one.node, one.status) for one in ended(lab, 1)] == [(0, 0)]


def test_a_program_beside_the_workers_takes_signals(lab: Lab, tmp_path: Path) -> None:
    up(lab)
    log = tmp_path / "log"
    running = lab.start(2, shell("trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done", tmp_path), str(log))
    until_written(log)
    running.signal(signal.SIGTERM)
    assert running.wait(PATIENCE_S) == 5
    assert lab.exits() == []


def test_a_command_is_run_and_waited_for(lab: Lab) -> None:
    up(lab)
    done = lab.execute(1, ["sh", "-c", "echo good; echo bad >&2; exit 4"], PATIENCE_S)
    assert (done.status, done.stdout, done.stderr) == (4, "good\n", "bad\n")
    with pytest.raises(LabError, match="did not end within"):
        lab.execute(1, ["sleep", "30"], 0.3)


def test_rates_and_queues_change_while_it_is_up(lab: Lab) -> None:
    topology = up(lab)
    out = topology.ports[0][0]
    lab.adjust([LinkChange(out, rate_bps=20_000_000, queue_bytes=50_000)])
    assert lab.spot_check().differs == ()
    lab.verify()
    assert shapes(lab) == {20_000_000: 1, RATE_BPS: 5}


def test_down_ends_what_runs(lab: Lab, tmp_path: Path) -> None:
    up(lab)
    log, seconds = tmp_path / "log", unlike_any()
    lab.launch([Launch("h0", 0, "", str(log), shell(f"echo ready; exec sleep {seconds}", tmp_path))])
    until_written(log)
    until(lambda: running(seconds))
    lab.down()
    until(lambda: not running(seconds))
    up(lab)


def test_after_close_it_says_that_it_has_ended(lab: Lab) -> None:
    up(lab)
    lab.close()
    with pytest.raises(LabError):
        lab.counters()


def test_a_node_has_its_name_and_knows_the_others(real: Lab) -> None:
    up(real)
    done = real.execute(1, ["sh", "-c", "hostname; getent hosts h2"], PATIENCE_S)
    assert done.stdout.split()[0] == "h1"
    assert "h2" in done.stdout.split("\n", 1)[1]


def test_links_carry_their_rate_and_count_it(real: Lab, expression: str) -> None:
    if isinstance(real, DockerLab) and expression != "star(hosts=3)":
        pytest.skip("its network is that of the lab netns")
    topology = up(real, expression)
    last = topology.host_count - 1
    way = Way(0, last, *plan(topology).flow(0, last))

    def as_asked() -> bool:
        """Again where the machine stood still for a part of the half second, or for all round trips."""
        before = {one.directed_link: one.bytes for one in real.counters()}
        found = real.calibrate([way], [Burst(way, RATE_BPS, 0.5)])
        sent = {one.directed_link: one.bytes - before[one.directed_link] for one in real.counters()}
        assert len(found.round_trips_s[0]) == found.pings
        share, quickest_s = found.rates_bps[0] / (RATE_BPS * goodput(1500)), min(found.round_trips_s[0])
        # With several paths of the same length, what one of them carries is chance.
        most_sent = max(sent[link] for path in topology.paths(0, last) for link in path.links)
        assert quickest_s > 0
        return 0.9 < share < 1.03 and quickest_s < 0.005 and most_sent > 0.4 * RATE_BPS / 8 * 0.9

    until(as_asked)


def test_a_blocked_link_carries_nothing_and_opens_again(real: Lab) -> None:
    topology = up(real)
    out = topology.ports[0][0]
    way = Way(0, 1, *plan(topology).flow(0, 1))
    other = Way(1, 2, *plan(topology).flow(1, 2))
    real.adjust([LinkChange(out, blocked=True)])
    real.verify()
    cut, open_still = real.calibrate([way, other], []).round_trips_s
    assert (cut, len(open_still)) == ((), real.calibrate([other], []).pings)
    real.adjust([LinkChange(out, blocked=False)])
    assert real.calibrate([way], []).round_trips_s[0]


def test_somebody_elses_change_is_found(real: Lab) -> None:
    switch = up(real).index["s0"]  # hosts may not be allowed to
    assert real.execute(switch, ["ip", "link", "set", "eth0", "mtu", "1400"], PATIENCE_S).status == 0
    with pytest.raises(LabError, match="s0:eth0 -> h0:eth0: mtu: asked for 1500, the kernel has 1400"):
        real.verify()


def test_it_changes_nothing_of_the_machine(real: Lab) -> None:
    def state() -> tuple[str, ...]:
        files = ("/proc/self/mountinfo", "/etc/hosts", "/proc/net/route", "/proc/net/dev")
        names = [line.split(":")[0] for line in Path(files[-1]).read_text().splitlines()]
        sysctls = [Path("/proc/sys/net", name).read_text() for name in ("ipv4/ip_forward", "core/wmem_max")]
        return (*(Path(name).read_text() for name in files[:-1]), *names, *sysctls)

    before = state()
    up(real, "bcube(n=2,k=2)")
    assert state() == before
    real.close()
    assert state() == before


OWNER = """\
import sys, time
from itertools import permutations
from pathlib import Path
from testbed.lab.programs import Launch, Program
from testbed.lab.base import LinkSettings
from testbed.lab.baremetal.lab import BaremetalLab
from testbed.lab.choice import opener
from testbed.topologies.build import build

if __name__ == "__main__":
    topology = build("star(hosts=2)", rate_bps=10**8)
    lab = {opening}
    lab.share(Path({folder!r}))
    lab.require(topology, LinkSettings())
    lab.up(topology, LinkSettings(), permutations(topology.hosts, 2))
    program = Program(("sh", "-c", "echo ready; exec sleep {seconds}"), {{}}, {folder!r})
    lab.launch([Launch("h0", 0, "", {log!r}, program)])
    time.sleep(600)
"""


def test_what_runs_ends_with_its_owner_even_if_that_is_killed(opening: str, tmp_path: Path) -> None:
    seconds = unlike_any()
    log, script = tmp_path / "log", tmp_path / "owner.py"
    script.write_text(OWNER.format(opening=opening, folder=str(tmp_path), log=str(log), seconds=seconds))
    owner = subprocess.Popen([sys.executable, str(script)], env=os.environ | {"PYTHONPATH": str(Path.cwd())})
    try:
        until_written(log)
        until(lambda: running(seconds))
    finally:
        owner.kill()
        owner.wait()
    until(lambda: not running(seconds))


def unlike_any() -> str:
    """Seconds to sleep, by which the process that does is found."""
    return f"7{time.time_ns() % 10**8}"


def running(word: str) -> list[Path]:
    """Processes of this machine, its containers' and namespaces' too, that have ``word`` in their command."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            if word.encode() in path.read_bytes().split(b"\0"):
                found.append(path.parent)
    return found
