"""Real workers and aggregators over loopback, some of which are killed or stopped, and the coordinator that watches.

The lab is a stand-in that forks workers here and says how they ended;
:mod:`tests.testbed.recovery.test_nodes_die` has real networks.
"""

from __future__ import annotations

import itertools
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from testbed.base.errors import NeighbourError, WorkerError
from testbed.control import endings
from testbed.control.feed import Feed
from testbed.execution import results, supervise
from testbed.experiment.expand import trials
from testbed.files.foreign import UnfitError
from testbed.lab.programs import Exit, Launch
from testbed.recovery import deaths, failover
from testbed.recovery.deaths import Course
from testbed.recovery.failover import Coordinator
from testbed.spec import read
from testbed.topologies.addressing import plan
from testbed.topologies.model import Topology
from testbed.trial import job_files, phases
from testbed.trial import ports as trial_ports
from testbed.trial.files import Files
from testbed.trial.model import Trial
from testbed.workloads import failover as workers_failover
from testbed.workloads import worker
from testbed.workloads.failover import CALL, checked_in
from testbed.workloads.job import Training
from testbed.workloads.learning import reference, training
from testbed.workloads.learning.reference import relative_error
from testbed.workloads.sync.engine import Engine
from tests import ports

SPEC = """
name: dying
links: {rate: 1 Gbit/s}
workload:
  model: resnet8
  dataset: digits
  batch: 4
  iterations: 9
  learning_rate: 0.03
  compute: {mode: paced, pace: {4: 0.1 s}}
  chunk: 16 KiB
arms: [{scheme: rina, topology: TOPOLOGY}]
timeout: 20 s
failover: 3 s
"""
PLAYED = """
name: played
links: {rate: 40 Gbit/s}
workload: {kind: profile, model: resnet50, batch: 32, iterations: 12, scale: 200, compute: {pace: {32: 0.1 s}}}
arms: [{scheme: rina, topology: TOPOLOGY}]
timeout: 20 s
failover: 3 s
"""
_ports = ports.blocks(20)
"""First port of each trial."""
BOTH = "spine_leaf(racks=2,hosts_per_rack=3,spines=1,ina=all)"
ONE = "spine_leaf(racks=2,hosts_per_rack=3,spines=1,ina=[leaf1])"
SINGLES = "spine_leaf(racks=3,hosts_per_rack=1,spines=1,ina=all)"


class Loopback:
    """Workers forked from this process."""

    def __init__(self) -> None:
        self.pids: dict[str, int] = {}
        self.nodes: dict[str, int] = {}
        self.started_s = time.monotonic()

    def launch(self, launches: Sequence[Launch]) -> None:
        for one in launches:
            self.pids[one.process] = self._fork(one)
            self.nodes[one.process] = one.node

    def _fork(self, one: Launch) -> int:
        pid = os.fork()
        if pid == 0:
            output = os.open(one.log, os.O_WRONLY | os.O_CREAT, 0o644)
            os.dup2(output, 1)
            os.dup2(output, 2)
            sys.stdout, sys.stderr = os.fdopen(1, "w", 1), os.fdopen(2, "w", 1)  # pytest has put others here
            os._exit(worker.main([one.job]))
        return pid

    def stopped(self) -> list[str]:
        return []

    def cpu_s(self) -> dict[str, float]:
        return {}

    def exits(self) -> list[Exit]:
        found = []
        for process, pid in list(self.pids.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del self.pids[process]
                code = os.waitstatus_to_exitcode(status)
                found.append(Exit(process, self.nodes[process], code, self.started_s, time.monotonic()))
        return found

    def signal(self, target: str, number: int) -> None:
        os.kill(self.pids[target], number)


@dataclass
class Cluster:
    """One trial on loopback: what is done to it, and what is left of it."""

    trial: Trial
    files: Files
    lab: Loopback

    def when(self, condition: Callable[[], bool], act: Callable[[], None]) -> None:
        """Do something as soon as a condition holds, beside what goes on."""

        def wait() -> None:
            while not condition():
                time.sleep(0.002)
            act()

        threading.Thread(target=wait, daemon=True).start()

    def kill(self, name: str, iteration: int, number: int = signal.SIGKILL) -> None:
        """Once some worker has done so many iterations."""
        hosts = [f"h{host}" for host in self.trial.network.topology.hosts]
        feed = Feed({host: self.files.samples(host) for host in hosts})
        reached = lambda: max(map(feed.done, hosts)) >= iteration  # noqa: E731
        self.when(reached, lambda: self.lab.signal(name, number))

    def run(self) -> Course:
        launches = job_files.write(self.trial, self.files, "reno")
        coordinator = Coordinator(self.trial.job, self.files, self.lab, "reno")  # type: ignore[arg-type]
        self.lab.launch(launches)
        feed = Feed({one.process: self.files.samples(one.process) for one in launches})
        signs = supervise.Growth(self.lab, self.files, feed.running, 20.0, 20.0)
        supervise.wait(self.lab, feed, self.files, signs, [coordinator])  # type: ignore[arg-type]
        return coordinator.course

    def lines(self, kind: str) -> list[dict[str, object]]:
        found = [endings.read(path) for path in sorted(self.files.work.glob("*/samples.jsonl"))]
        return [line for lines in found for line in lines if line["kind"] == kind]


@pytest.fixture(scope="module", autouse=True)
def _warm() -> None:
    training.warm_up()


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Cluster]]:
    """Builds a trial whose addresses are in 127.0.0.0/8, on ports that no other process's tests use."""

    class Local:
        def __init__(self, topology: Topology) -> None:
            self.topology, self._plan = topology, plan(topology)

        def flow(self, node: int, other: int, connection: int = 0) -> tuple[str, str]:
            local, remote = self._plan.flow(node, other, connection)
            return "127" + local.removeprefix("10"), "127" + remote.removeprefix("10")

    first = next(_ports)
    monkeypatch.setattr(trial_ports, "SYNC_PORT", first)
    monkeypatch.setattr(job_files, "STATE_PORT", first + 19)
    monkeypatch.setattr(job_files, "plan", Local)
    monkeypatch.setattr(failover, "plan", Local)
    monkeypatch.setattr(job_files, "probes", lambda *_: {})
    monkeypatch.setattr(reference, "_evaluated", lambda *_: set())  # only its weights are asked for
    made: list[Cluster] = []

    def build(topology: str, spec: str = SPEC, **changes: str) -> Cluster:
        text = spec.replace("TOPOLOGY", f'"{topology}"')
        overrides = [f"{key.replace('__', '.')}={value}" for key, value in changes.items()]
        (trial,) = trials(read(text, "spec.yaml", Path(), overrides))
        work = tmp_path / str(len(made))
        work.mkdir()
        files = Files(work, work)
        files.make(trial.network.topology)
        made.append(Cluster(trial, files, Loopback()))
        return made[-1]

    yield build
    for one in made:
        for pid in one.lab.pids.values():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def check(run: Cluster, course: Course) -> None:
    """All survivors end with the weights of single-process SGD over those who were there."""
    done = run.lines("done")
    hashes = {line["weights_sha256"] for line in done if "weights_sha256" in line}
    assert len(hashes) == 1
    work = run.trial.job.training
    assert isinstance(work, Training)
    worlds = tuple((phase.first, phase.job.world) for phase in course.phases)
    last = course.phases[-1].job.plan
    wanted = reference.reference(work, worlds, run.trial.job.compute.mode).weights
    # Sums that lack a worker once are off by 1e-3; rounding is 5e-7, or 2e-5 where values in a pool are nearly equal.
    assert relative_error(np.load(run.files.weights(last.nodes[last.workers[0]])), wanted) < 1e-4
    samples = phases.attribute(results.table(run.lines("iteration")), course.phases, course.dead, course.behind)
    told = deaths.record(course, samples)
    assert told is not None
    assert [one["first"] for one in told["phases"]] == [first for first, _ in worlds]
    for one in told["recoveries"]:
        assert one["recovered_s"] is None or 0 < one["recovered_s"] < 15


def dead(run: Cluster, course: Course) -> list[str]:
    return [run.trial.network.topology.nodes[death.node].name for death in course.deaths]


@pytest.mark.parametrize(
    ("topology", "name", "groups"),
    [
        (BOTH, "h0", 3),  # an agent: h1, h2, and the other rack
        pytest.param(BOTH, "h1", 2, marks=pytest.mark.rehearse),
        (BOTH, "leaf0", 4),
        pytest.param(ONE, "h1", 3, marks=pytest.mark.rehearse),  # an autonomous worker
        (SINGLES, "h0", 2),  # the last worker of a rack
    ],
)
def test_the_others_go_on(cluster: Callable[..., Cluster], topology: str, name: str, groups: int) -> None:
    run = cluster(topology)
    run.kill(name, 4)
    course = run.run()
    assert dead(run, course) == [name]
    assert course.deaths[0].how == "was killed by SIGKILL"
    assert len(course.phases) == 2
    assert 4 <= course.phases[1].first <= 8
    assert course.phases[1].job.plan.classes == groups
    check(run, course)


def test_two_die_one_after_the_other(cluster: Callable[..., Cluster]) -> None:
    run = cluster(BOTH)
    run.kill("h0", 3)
    run.kill("h4", 7)
    course = run.run()
    assert dead(run, course) == ["h0", "h4"]
    assert [phase.job.world for phase in course.phases] == [6, 5, 4]
    check(run, course)


def test_all_but_one_die(cluster: Callable[..., Cluster]) -> None:
    run = cluster(SINGLES)
    run.kill("h1", 2)
    run.kill("h2", 2)
    course = run.run()
    assert course.phases[-1].job.world == 1
    check(run, course)


def test_one_dies_while_the_others_meet_anew(cluster: Callable[..., Cluster]) -> None:
    run = cluster(BOTH)
    run.kill("h2", 3)
    second = run.files.generation(1)
    run.when(second.exists, lambda: run.lab.signal("h4", signal.SIGKILL))
    course = run.run()
    assert sorted(dead(run, course)) == ["h2", "h4"]
    assert course.phases[-1].job.world == 4
    check(run, course)


@pytest.mark.parametrize(
    "text",
    [None, "no JSON", "[1]", '{"completed": 1e999, "error": ""}', '{"completed": 9999, "error": ""}', "[" * 9999],
)
def test_what_makes_no_sense_fails_the_trial_and_not_the_harness(
    cluster: Callable[..., Cluster], text: str | None
) -> None:
    run = cluster(SINGLES)
    run.files.generation(0).mkdir()
    left = checked_in(run.files.samples("h0"), 0)
    if text is None:
        os.mkfifo(left)
    else:
        left.write_text(text)
    coordinator = Coordinator(run.trial.job, run.files, run.lab, "reno")  # type: ignore[arg-type]
    with pytest.raises(WorkerError, match="h0 left the others and said nothing that makes sense"):
        coordinator.look(Feed(dict.fromkeys(["h0", "h1", "h2"])))


@pytest.mark.parametrize("name", ["h0", "leaf0"])
def test_one_dies_before_the_others_have_met_it(cluster: Callable[..., Cluster], name: str) -> None:
    run = cluster(BOTH)
    run.when(lambda: name in run.lab.pids, lambda: run.lab.signal(name, signal.SIGKILL))
    course = run.run()
    assert dead(run, course) == [name]
    (phase,) = course.phases
    assert phase.first == 0
    check(run, course)


def test_who_stands_still_has_died(cluster: Callable[..., Cluster]) -> None:
    """An agent; in ``test_nodes_die.py`` another worker."""
    run = cluster(BOTH, failover="1 s")
    run.kill("h0", 4, signal.SIGSTOP)
    began = time.monotonic()
    course = run.run()
    assert time.monotonic() - began < 30  # on a busy machine
    assert dead(run, course) == ["h0"]
    assert course.deaths[0].how == "did not check in for 1 s"
    check(run, course)


def test_who_stands_still_for_a_moment_has_not(cluster: Callable[..., Cluster]) -> None:
    run = cluster(BOTH, failover="1 s")
    run.kill("h1", 4, signal.SIGSTOP)
    called = run.files.generation(0) / CALL
    run.when(called.exists, lambda: run.lab.signal("h1", signal.SIGCONT))
    course = run.run()
    assert dead(run, course) == []
    assert len(course.recoveries) == 1
    check(run, course)


@pytest.mark.parametrize(
    "changes",
    [
        {
            "workload__compute": "real",
            "workload__learning_rate": "0.01",
            "workload__iterations": "20",
            "workload__overlap": "layer",
        },
        {"workload__compute": "none", "workload__iterations": "60"},
        pytest.param({"workload__overlap": "layer"}, marks=pytest.mark.rehearse),
    ],
)
def test_however_gradients_come(cluster: Callable[..., Cluster], changes: dict[str, str]) -> None:
    run = cluster(BOTH, **changes)
    run.kill("h3", 4)
    course = run.run()
    assert dead(run, course) == ["h3"]
    check(run, course)


@pytest.mark.parametrize(("topology", "overlap"), [(BOTH, "none"), (ONE, "both")])
def test_sums_of_a_profile_leave_the_dead_out(cluster: Callable[..., Cluster], topology: str, overlap: str) -> None:
    run = cluster(topology, PLAYED, workload__overlap=overlap)
    run.kill("h3", 4)
    course = run.run()
    assert dead(run, course) == ["h3"]
    done = [line for line in run.lines("done") if "wrong" in line]
    assert len(done) == 5
    for line in done:
        assert line["wrong"] == []
        assert 11 <= line["checked"] <= 12  # type: ignore[operator]


def lose_the_sum(monkeypatch: pytest.MonkeyPatch, names: set[str], iteration: int) -> None:
    """These workers lose a neighbour at the very end of an iteration, when others have its sum."""
    wait = Engine.wait
    waits = itertools.count()  # of each process, once it is forked

    def losing(engine: Engine, timeout_s: float) -> float:
        sum_s = wait(engine, timeout_s)
        if next(waits) == iteration and engine._name in names:
            time.sleep(0.1)  # the others have taken their step
            raise NeighbourError("lost the connection to somebody")
        return sum_s

    monkeypatch.setattr(Engine, "wait", losing)


@pytest.mark.parametrize(
    ("behind", "compute", "iteration"),  # one of many, or the last one
    [({"h1"}, "none", 5), ({"h0", "h2", "h5"}, "real", 8)],
)
def test_who_is_behind_takes_the_weights_of_who_is_not(
    cluster: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch, behind: set[str], compute: str, iteration: int
) -> None:
    lose_the_sum(monkeypatch, behind, iteration)
    run = cluster(BOTH, workload__compute=compute)
    course = run.run()
    (recovery,) = course.recoveries
    assert {f"h{node}" for node in recovery.behind} == behind
    assert recovery.first == iteration + 1
    check(run, course)


def test_who_gives_weights_dies_meanwhile(
    cluster: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The next one that is not behind gives them; and they are not those of a first half."""
    lose_the_sum(monkeypatch, {"h1"}, 5)
    send = workers_failover._send
    marker = tmp_path / "one has died"

    def failing(sock: socket.socket, data: memoryview) -> None:
        try:
            marker.touch(exist_ok=False)
        except FileExistsError:
            send(sock, data)
            return
        send(sock, data[:100_000])
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(workers_failover, "_send", failing)
    run = cluster(BOTH)
    course = run.run()
    first, second = course.recoveries
    assert first.ahead == 0
    assert dead(run, course) == ["h0"]
    assert (second.ahead, second.behind) == (2, (1,))
    check(run, course)


@pytest.mark.parametrize("name", ["h0", "h1"])
def test_one_dies_when_all_is_done(cluster: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """In the last barrier, in which the others wait for it."""
    barrier = Engine.barrier
    entered = itertools.count()  # one to meet, two for the burst, one before the first iteration, the last one

    def dying(engine: Engine, timeout_s: float) -> None:
        if next(entered) == 4 and engine._name == name:
            os.kill(os.getpid(), signal.SIGKILL)
        barrier(engine, timeout_s)

    monkeypatch.setattr(Engine, "barrier", dying)
    run = cluster(BOTH)
    course = run.run()
    assert dead(run, course) == [name]
    assert [phase.job.world for phase in course.phases] == [6]
    check(run, course)


def test_one_dies_when_the_others_have_gone(cluster: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch) -> None:
    done = worker._done

    def dying(result: dict[str, object], *rest: object) -> None:
        if run.lab.pids == {}:  # the first that was forked
            time.sleep(1.0)
            os.kill(os.getpid(), signal.SIGKILL)
        done(result, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(worker, "_done", dying)
    run = cluster(BOTH)
    course = run.run()
    assert course.recoveries == ()
    assert [death.node for death in course.late] == [0]
    check(run, course)


def test_an_error_of_its_own_is_no_death(cluster: Callable[..., Cluster]) -> None:
    run = cluster(BOTH, workload__learning_rate="0.01", arms__0__scheme="rina(scale=1e13)")
    with pytest.raises(WorkerError, match="does not fit 32 bits"):
        run.run()


def test_nobody_is_left(cluster: Callable[..., Cluster]) -> None:
    run = cluster(SINGLES)
    for name in ("h0", "h1", "h2"):
        run.kill(name, 2)
    with pytest.raises(WorkerError, match=r"^no worker is left: h\d was killed by SIGKILL") as error:
        run.run()
    assert error.value.process in run.trial.processes
    assert error.value.fix == "see why they died, or kill fewer"


def test_who_does_not_say_how_far_it_had_come_fails_the_trial(cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    run = cluster(BOTH)
    hosts = [f"h{host}" for host in run.trial.network.topology.hosts]
    coordinator = Coordinator(run.trial.job, run.files, run.lab, "reno")  # type: ignore[arg-type]
    run.files.generation(0).mkdir(parents=True)
    for host in hosts:
        path = checked_in(run.files.samples(host), 0)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"completed": 2, "error": "gone"}')
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "fifo").replace(path)
    with pytest.raises(WorkerError, match=r"said nothing that makes sense: is no regular file") as error:
        coordinator.look(Feed(dict.fromkeys(hosts)))
    assert error.value.process == host


SAID = ["5", "{}", '{"completed": 13, "error": ""}', '{"completed": -1, "error": ""}']


@pytest.mark.parametrize("text", [pytest.param("[" * 100_000, id="deep"), *SAID])
def test_what_a_process_says_when_it_leaves_makes_sense(tmp_path: Path, text: str) -> None:
    path = tmp_path / "h0.left"
    path.write_text(text)
    with pytest.raises(UnfitError):
        failover.read_left(path, 12)
    path.write_text('{"completed": 12, "error": "gone", "more": 1}')
    assert failover.read_left(path, 12) == failover.Said(12, "gone")
