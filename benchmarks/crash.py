"""Runs that are hit at a random moment: do they end in time, is nothing left, are finished trials intact?

    python benchmarks/crash.py [--runs 200] [--seed 1] [--only EVENT ...] [--roles ROLE ...] [--whole SECONDS]

Each run starts a small experiment, a training or a topic model, and at a random moment does one thing to it: kills a
process of it, stops one for good or for a while, cuts a process's node off (down),
interrupts it at its terminal (once or twice), sends SIGTERM, closes its terminal, or fills its
disk. Of the run's processes that are there, first the role is drawn, each as likely as any other, and then one of that
role. A trial's processes have the roles of their schemes: worker, daemon, aggregator, server, replica, scheduler, core,
manager. With ``--roles``, only these are drawn, from the drawn moment on as soon as there is one. Then:

- the harness must have ended within :func:`limit_s`, and everything else ``GONE_S`` later;
- no process, network namespace, mount, interface or temporary file is left, and net sysctls, routes and firewall are
  as before;
- the records and samples of finished trials can be read, those of the arms with MLfabric, too, which go on when some
  processes are killed, a server included, once it has a checkpoint, or if it has a replica; and a trial that failed
  names the node that was hit;
  With ``--roles`` that only processes of trials have, a run has one trial that has such a process, and is hit while
  that trains;
- where a process was hit without which the others of its trial go on, while that trained, the trial is done, its record
  has the loss, and the run's exit code is 0. A trial of which anything had ended by then may fail all the same, as what
  had been decided may be lost then;
- where a process was killed that the others of its trial need, while that trained, the trial has failed within
  ``FAILS_S``. All need each other where there are several servers, or sums are made (``NEEDED``);
- ``testbed run --resume`` ends with exit code 0 and every trial done, and has not touched the finished ones.

All of it happens in private namespaces (:mod:`leftovers`), in which the run is the only thing that can leave something;
the machine outside is compared as well, before and after. Exit code 1 if anything was not as it should be.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pty
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import leftovers
import pandas as pd
import yaml

from testbed.base.columns import columns
from testbed.experiment.expand import trials
from testbed.lab.netns.kernel_interface import kernel
from testbed.lab.netns.sandbox_process import STOP_TIMEOUT_S, WORK_TIMEOUT_S
from testbed.spec import read
from testbed.trial.model import Trial
from testbed.workloads.failover import SAMPLES

SPEC = """\
name: crash
links: {rate: 1 Gbit/s}
workload: {model: lenet5, dataset: digits, batch: 2, iterations: 20, compute: {mode: paced, pace: {2: 0.05 s}}}
arms:
  - {topology: "star(hosts=3,ina=all)", scheme: switchml}
  - topology: star(hosts=3)
    scheme: ps(servers=1)
    perturb: [{kind: background, from: h1, to: h2, rate: 20 Mbit/s}, {kind: hog, hosts: h0, at: iteration 3}]
  - {topology: star(hosts=4), scheme: mlfabric_a(aggregators=1), checkpoint: {every: 2, rate: 180 MB/s}}
  - {topology: star(hosts=6), scheme: "mlfabric_a(aggregators=1,divergence_updates=3)"}
  - {topology: star(hosts=5), scheme: "mlfabric_ssp(staleness=1,aggregators=1)"}
failover: 1.5 s
SETTINGS"""
TOPICS = """\
name: crash-topics
links: {rate: 1 Gbit/s}
workload:
  {kind: lda, corpus: python_reference, documents: 40, topics: 5, iterations: 20, compute: {mode: paced, pace: 0.05 s}}
arms:
  - {topology: star(hosts=5), scheme: mlfabric_a(aggregators=1)}
  - {topology: star(hosts=6), scheme: "mlfabric_a(aggregators=1,divergence_updates=3)"}
failover: 1.5 s
SETTINGS"""
NEEDED = """\
name: crash-needed
links: {rate: 1 Gbit/s}
workload: {model: lenet5, dataset: digits, batch: 2, iterations: 20, compute: {mode: paced, pace: {2: 0.05 s}}}
arms:
  - {topology: star(hosts=5), scheme: mlfabric_s(aggregators=1)}
  - {topology: star(hosts=6), scheme: "mlfabric_a(aggregators=1,servers=2)"}
  - {topology: "star(hosts=4,server_nics=2,routing=every_nic)", scheme: pbox}
SETTINGS"""
"""Nobody goes on without any of their processes."""
SETTINGS = """\
timeout: 4 s
start_timeout: 6 s
retries: 0
quiet: 0 s
"""
SPECS = tuple(spec.replace("SETTINGS", SETTINGS) for spec in (SPEC, TOPICS, NEEDED))
COMMAND = [sys.executable, "-m", "testbed", "run"]
PAUSE_S = 11.0
"""Longer than the timeouts above, and the grace that the harness adds."""
GONE_S = 10.0
"""How long after the harness the last of its processes may still be there."""
FREED_S = 60.0
"""How long after that the last of its namespaces: one thread of the kernel's frees those of all users, in turn."""
RESUMED_S = 400.0
"""How long a run that goes on may take: there, a trial that hangs ends by its own timeouts."""
TRAINS_S = 0.6
"""Less than the shortest trial trains."""
FAILS_S = 2.0
"""How long a trial may go on without a process that it needs."""
SLACK_S = 20.0
"""For a busy machine."""
DISK_BYTES = 64 * 2**20
ON_NODES = ("worker", "daemon", "aggregator", "server", "replica", "scheduler", "core", "manager")
"""Roles of a trial's processes."""
ROLES = (*ON_NODES, "harness", "referee", "launcher", "sandbox", "helper", "other")
EVENTS = (
    "kill",
    "Ctrl-C",
    "disk full",
    "hang-up",
    "stop",
    "pause",
    "down",
    "stop and Ctrl-C",
    "Ctrl-C twice",
    "SIGTERM",
)

TO_A_PROCESS = ("kill", "stop", "pause", "down", "stop and Ctrl-C")
"""Events that happen to one process of a run, and not to the whole of it."""


@dataclass
class Hit:
    """One run: what was done to it, to whom and when, and what came of it."""

    event: str
    spec: str
    victim: str = "-"
    node: str = ""
    at_s: float = 0.0
    outcome: str = ""
    ended_s: float = 0.0
    gone_s: float = 0.0
    freed_s: float = 0.0
    problems: list[str] = field(default_factory=list)
    survived_by: str = ""
    """The trial that must go on without whom was hit, if one must,"""
    failed_by: str = ""
    """or the one that must fail for it, as a process was killed without which the others do not go on;"""
    failed_s: float | None = None
    """and when it had."""


class Started:
    """A run in progress, at a terminal of its own or with its output in a file."""

    def __init__(self, folder: Path, out: Path, terminal: bool) -> None:
        self.began_s = time.monotonic()
        self.output, self.out, self.spec = b"", out, (folder / "spec.yaml").read_text()
        words = [*COMMAND, str(folder / "spec.yaml"), "--out", str(out)]
        environment = {**os.environ, "TMPDIR": str(folder / "tmp"), "TERM": "xterm"}
        self._master = -1
        self._log = None if terminal else folder / "output"
        if self._log is None:
            self.pid, self._master = pty.fork()
            if self.pid == 0:
                os.execve(words[0], words, environment)
            threading.Thread(target=self._drain, args=(self._master,), daemon=True).start()
            return
        with self._log.open("wb") as log:
            self.pid = subprocess.Popen(words, stdout=log, stderr=log, env=environment, start_new_session=True).pid

    def _drain(self, master: int) -> None:
        with contextlib.suppress(OSError):
            while piece := os.read(master, 65536):
                self.output += piece

    def ended(self, limit_s: float) -> int | None:
        """Its exit status, or minus the signal that ended it; None if it has not ended within ``limit_s``."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                if self._log:
                    self.output = self._log.read_bytes()
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.01)
        return None

    @property
    def has_ended(self) -> bool:
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def type_ctrl_c(self) -> None:
        os.write(self._master, b"\x03")

    def hang_up(self) -> None:
        """Close the terminal, if there still is one."""
        if self._master >= 0:
            os.close(self._master)
            self._master = -1

    def members(self, only: Sequence[str] = ROLES) -> dict[str, list[int]]:
        """PIDs of this run's processes by role, of some roles."""
        parents = leftovers.processes()
        found = {self.pid} & parents.keys()
        while more := {child for child, parent in parents.items() if parent in found} - found:
            found |= more
        roles: dict[str, list[int]] = defaultdict(list)
        for pid in sorted(found):
            with contextlib.suppress(OSError):  # it ended meanwhile
                roles[role(pid, self)].append(pid)
        return {name: pids for name, pids in roles.items() if name in only}


def role(pid: int, run: Started) -> str:
    """What a process of a run is for."""
    if pid == run.pid:
        return "harness"
    words = Path(f"/proc/{pid}/cmdline").read_text()
    status = dict(
        line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line
    )
    inside = status["NSpid"].split()[1:]
    if not inside:
        return "referee" if "testbed.evidence.referee" in words else "launcher" if "launcher" in words else "other"
    if inside == ["1"]:
        return "sandbox"
    if "launcher" not in words:
        return "helper"
    log = Path(f"/proc/{pid}/fd/1").readlink()
    return in_trials(run.spec).get((log.parent.name, log.stem), "other")


@cache
def in_trials(spec: str) -> dict[tuple[str, str], str]:
    """By a trial's id and the name of a process in it, its role. A process writes its log under these names."""
    return {(trial.id, name): trial.job.role(name) for trial in planned(spec) for name in trial.job.processes}


@cache
def planned(spec: str) -> tuple[Trial, ...]:
    """The trials of a spec."""
    return tuple(trials(read(spec, "spec.yaml", Path())))


@cache
def specs(only: Sequence[str]) -> tuple[str, ...]:
    """Specs that runs may run: all, or one for each trial that has a process of these roles."""
    if not is_inner(only):
        return SPECS
    found = []
    for spec in SPECS:
        whole = yaml.safe_load(spec)
        for arm, trial in zip(whole["arms"], planned(spec), strict=True):
            roles = {trial.job.role(name) for name in trial.job.processes}
            if roles & {*only}:
                kept = {key: value for key, value in whole.items() if key != "failover" or trial.survives}
                found.append(yaml.safe_dump({**kept, "arms": [arm]}))
    return tuple(found)


def is_inner(only: Sequence[str]) -> bool:
    """Whether these are roles that only processes of trials have."""
    return {*only} <= {*ON_NODES}


def node_of(pid: int) -> str:
    """The name of the node that a process runs on: its host name."""
    home = os.open("/proc/self/ns/uts", os.O_RDONLY)
    theirs = os.open(f"/proc/{pid}/ns/uts", os.O_RDONLY)
    try:
        kernel.setns(theirs, kernel.CLONE_NEWUTS)
        return os.uname().nodename
    finally:
        kernel.setns(home, kernel.CLONE_NEWUTS)
        os.close(home)
        os.close(theirs)


def note_duty(hit: Hit, run: Started, pid: int) -> None:
    """Note which trial a process belongs to, if the others of it must go on without it, or it must return; or if it
    must fail at once. It must be in the middle: all workers have begun to train, and none has done its last but one
    iteration."""
    log = Path(f"/proc/{pid}/fd/1").readlink()
    trial = next((one for one in planned(run.spec) if one.id == log.parent.name), None)
    if trial is None or log.stem not in trial.processes or hit.event not in ("kill", "stop", "down"):
        return
    work = run.out / "work" / trial.id
    if not trains(trial, work):
        return
    on_node = {name for name, node in trial.processes.items() if node == trial.processes[log.stem]}
    hit_too = on_node if hit.event == "down" else {log.stem}
    returns = hit.event != "down" and log.stem in trial.returns and (work / log.stem / "checkpoint").exists()
    if hit_too <= trial.survives or returns:
        hit.survived_by = trial.id
    elif hit.event == "kill":
        hit.failed_by = trial.id


def trains(trial: Trial, work: Path) -> bool:
    """Whether all workers of a trial, whose files are in ``work``, have begun to train, and none is about to end."""
    said = [work / name / SAMPLES for name in trial.job.workers]
    done = [path.read_text().count('"kind": "iteration"') if path.exists() else 0 for path in said]
    return 1 <= min(done) <= max(done) <= trial.job.iterations - 3


def limit_s(hit: Hit, whole_s: float) -> float:
    """How long the harness may go on after it was hit, if a run takes ``whole_s``."""
    if hit.event in ("Ctrl-C", "Ctrl-C twice", "SIGTERM", "hang-up", "stop and Ctrl-C"):
        return STOP_TIMEOUT_S + 5
    if hit.event in ("stop", "pause") and hit.victim in ("sandbox", "launcher"):
        return WORK_TIMEOUT_S + 2 * whole_s + SLACK_S  # the longest request that can be waited for
    if hit.event in ("stop", "pause") and hit.victim == "referee":
        return 30.0 + 2 * whole_s + SLACK_S
    return 2 * whole_s + 6 + 5 + SLACK_S  # start_timeout and the harness's grace; other trials go on


def strike(hit: Hit, run: Started, disk: Path, draw: random.Random, only: Sequence[str]) -> None:
    """Do it."""
    if hit.event in TO_A_PROCESS:
        roles = members_in_time(run, only, draw)
        if not roles:
            hit.victim = "too late"
            return
        if hit.event == "stop and Ctrl-C" and len(roles) > 1:
            roles.pop("harness", None)
        hit.victim = draw.choice(sorted(roles))
        pid = draw.choice(roles[hit.victim])
        hit.at_s = time.monotonic() - run.began_s
        with contextlib.suppress(OSError):
            hit.node = node_of(pid) if hit.victim in ON_NODES else ""
            if hit.node:
                note_duty(hit, run, pid)
        _signal(hit, run, pid)
    elif hit.event == "SIGTERM":
        os.kill(run.pid, signal.SIGTERM)
    elif hit.event == "hang-up":
        run.hang_up()
    elif hit.event == "disk full":
        fill(disk, draw.randrange(300_000))
    else:
        run.type_ctrl_c()
        if hit.event == "Ctrl-C twice":
            time.sleep(draw.uniform(0, 0.3))
            run.type_ctrl_c()


def members_in_time(run: Started, only: Sequence[str], draw: random.Random) -> dict[str, list[int]]:
    """The run's processes of some roles, as soon as there are any; if only processes of trials are wanted, at a random
    moment while its trial trains. None if the run ends before."""
    if is_inner(only):
        (trial,) = planned(run.spec)
        while not trains(trial, run.out / "work" / trial.id) and not run.has_ended:
            time.sleep(0.02)
        time.sleep(draw.uniform(0, TRAINS_S))
    while not (roles := run.members(only)) and not run.has_ended:
        time.sleep(0.02)
    return roles


def _signal(hit: Hit, run: Started, pid: int) -> None:
    """Kill or stop a process. A harness that is stopped cannot end by itself: it is killed, or goes on."""
    if hit.event == "down":
        if hit.node:
            subprocess.run(["nsenter", "-t", str(pid), "-n", "ip", "link", "set", "eth0", "down"], check=False)
        else:
            hit.victim = f"not cut off: {hit.victim}"
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL if hit.event == "kill" else signal.SIGSTOP)
        if hit.event == "pause":
            time.sleep(PAUSE_S)
            os.kill(pid, signal.SIGCONT)
        elif hit.event == "stop" and hit.victim == "harness":
            time.sleep(1)
            os.kill(pid, signal.SIGKILL)
        elif hit.event == "stop and Ctrl-C":
            time.sleep(1)
            run.type_ctrl_c()
            if hit.victim == "harness":
                os.kill(pid, signal.SIGCONT)


def wait_until_failed(hit: Hit, run: Started, struck_s: float) -> None:
    """Note when the trial has failed that must, if it does soon after it was struck."""
    record = run.out / "trials" / f"{hit.failed_by}.json"
    while time.monotonic() < struck_s + FAILS_S + SLACK_S:
        if record.exists():
            hit.failed_s = time.monotonic() - struck_s
            break
        time.sleep(0.005)
    if hit.failed_s is None or hit.failed_s > FAILS_S:
        told = "not yet" if hit.failed_s is None else f"after {hit.failed_s:.2f} s"
        hit.problems.append(f"{hit.node} was killed, and its trial has failed {told}, not within {FAILS_S:g} s")


def fill(disk: Path, rest: int) -> None:
    """Leave ``rest`` bytes on a disk."""
    free = os.statvfs(disk)
    with (disk / "filler").open("wb") as filler, contextlib.suppress(OSError):
        os.posix_fallocate(filler.fileno(), 0, max(1, free.f_bavail * free.f_frsize - rest))


def finished(out: Path, problems: list[str]) -> dict[str, tuple[bytes, bytes]]:
    """By id, record and samples of the trials that are done; what cannot be read is a problem."""
    found = {}
    for path in (out / "trials").glob("*.json"):
        try:
            record = json.loads(path.read_text())
            if record["status"] == "done":
                samples = out / "samples" / f"{path.stem}.parquet"
                if pd.read_parquet(samples).empty:
                    problems.append(f"{samples.name} is empty")
                found[path.stem] = path.read_bytes(), samples.read_bytes()
        except (OSError, ValueError) as error:
            problems.append(f"{path.name} is damaged: {error}")
    return found


def judge(hit: Hit, code: int | None, output: str, out: Path) -> None:
    """What the run itself said and left in its directory."""
    outcomes = {0: "done", 1: "a trial failed", 130: "interrupted", 2: "refused"}
    hit.outcome = "hangs" if code is None else outcomes.get(code, f"exit code {code}")
    early = hit.at_s < 0.3  # until the harness handles signals, these end it, as quietly
    expected = {"SIGTERM": {-15} if early else set(), "hang-up": {-1} if early else set()}.get(hit.event, set())
    expected |= {-2} if early and hit.event.startswith("Ctrl-C") else set()
    expected |= {0, 130} if "Ctrl-C" in hit.event or hit.event in ("SIGTERM", "hang-up") else {0, 1}
    if hit.failed_by:
        expected = {1}
    if hit.survived_by:
        expected = {0}
        hit.problems += unrecorded(hit, out / "trials" / f"{hit.survived_by}.json")
    if hit.victim == "harness":
        expected |= {-9}
    if code not in expected:
        hit.problems.append(f"{hit.outcome}, with: {output[-2000:]}")
    if "Traceback" in output:
        hit.problems.append(f"a traceback: {output[-2000:]}")
    for path in (out / "trials").glob("*.json"):
        with contextlib.suppress(ValueError):
            error = json.loads(path.read_text())["error"]
            if error and hit.node and hit.node not in error.split("\n")[0]:
                hit.problems.append(f"{hit.node} was hit and is not named: {error}")
    if code != -9 and code not in (-1, -2, -15):
        left = [str(path) for path in out.rglob("*") if path.name == "work" or path.name.endswith(".tmp")]
        hit.problems += [f"left in the directory: {left}"] if left else []


def unrecorded(hit: Hit, path: Path) -> list[str]:
    """What is wrong if a trial's record does not tell of a loss without which it had to go on."""
    try:
        record = json.loads(path.read_text())
        lost = [loss["node"] for loss in (record["failover"] or {}).get("losses", ())]
    except (OSError, ValueError) as error:
        return [f"{path.name} cannot be read: {error}"]
    if record["status"] != "done":
        return [f"{path.stem} had to go on without {hit.victim} on {hit.node}, and {record['status']}"]
    return (
        [] if hit.node in lost else [f"{path.stem}: {hit.node} was lost, and its record tells of {lost or 'no loss'}"]
    )


def resume(hit: Hit, folder: Path, out: Path) -> None:
    """Go on with the run, or start it if it had not made its directory, and look at what there is then."""
    before = finished(out, hit.problems)
    words = (
        ["--resume", str(out)] if (out / "resolved.json").exists() else [str(folder / "spec.yaml"), "--out", str(out)]
    )
    done = subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=RESUMED_S, check=False)
    if done.returncode != 0:
        hit.problems.append(f"--resume: exit code {done.returncode}: {done.stdout[-1000:]}{done.stderr[-1000:]}")
    after = finished(out, hit.problems)
    count = len(trials(read(hit.spec, "spec.yaml", Path())))
    if len(after) != count:
        hit.problems.append(f"--resume: {len(after)} of {count} trials are done")
    hit.problems += [f"{name} was changed by --resume" for name in before if before[name] != after.get(name)]
    left = [str(path) for path in out.rglob("*") if path.name == "work" or path.name.endswith(".tmp")]
    hit.problems += [f"left after --resume: {left}"] if left else []


@contextlib.contextmanager
def place(spec: str, disk_bytes: int | None) -> Iterator[tuple[Path, Path]]:
    """A folder with the spec, and one for the run's directory, which may be a small disk of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder, disk = Path(name), Path(name) / "disk"
        (folder / "spec.yaml").write_text(spec)
        (folder / "tmp").mkdir()
        disk.mkdir()
        if disk_bytes:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={disk_bytes}", "none", str(disk)], check=True)
        try:
            yield folder, disk
        finally:
            if disk_bytes:
                kernel.unmount(str(disk))


def once(event: str, whole_s: float, draw: random.Random, only: Sequence[str]) -> Hit:
    """One run, hit at a random moment, and everything that must hold afterwards."""
    waits_for_training = event in TO_A_PROCESS and is_inner(only)
    hit = Hit(event, draw.choice(specs(only)), at_s=0.0 if waits_for_training else draw.uniform(0, whole_s))
    before = leftovers.state()
    with place(hit.spec, DISK_BYTES if event == "disk full" else None) as (folder, disk):
        out = disk / "out"
        run = Started(folder, out, terminal=event in ("Ctrl-C", "Ctrl-C twice", "hang-up", "stop and Ctrl-C"))
        code = run.ended(hit.at_s)
        if code is None:
            strike(hit, run, disk, draw, only)
            struck_s = time.monotonic()
            if hit.failed_by:
                wait_until_failed(hit, run, struck_s)
            code = run.ended(limit_s(hit, whole_s))
            hit.ended_s = time.monotonic() - struck_s
        else:
            hit.victim = "too late"
        judge(hit, code, run.output.decode(errors="replace"), out)
        if code is None:
            os.kill(run.pid, signal.SIGKILL)
        run.hang_up()
        ended_s = time.monotonic()
        hit.problems += [f"a process is left: {line}" for line in leftovers.wait_until_alone(GONE_S)]
        hit.gone_s = time.monotonic() - ended_s
        if not leftovers.wait_until_one_namespace(FREED_S):
            hit.problems.append("a network namespace is left")
        hit.freed_s = time.monotonic() - ended_s
        left = [*(folder / "tmp").iterdir(), *leftovers.SHARED_MEMORY.iterdir()]
        hit.problems += [f"a temporary file is left: {path}" for path in left]
        (disk / "filler").unlink(missing_ok=True)
        resume(hit, folder, out)
    hit.problems += leftovers.differences(before, leftovers.state())
    return hit


def undisturbed_s(spec: str) -> float:
    """How long a run of a spec takes if nothing happens to it."""
    with place(spec, None) as (folder, disk):
        began_s = time.monotonic()
        run = Started(folder, disk / "out", terminal=False)
        code = run.ended(120)
        assert code == 0, run.output.decode()
        return time.monotonic() - began_s


def inside(chosen: argparse.Namespace) -> int:
    """All runs, in namespaces of our own; 1 if anything was not as it should be."""
    runs, draw = chosen.runs, random.Random(chosen.seed)
    whole_s = chosen.whole or undisturbed_s(specs(tuple(chosen.roles))[0])
    print(f"an undisturbed run takes {whole_s:.1f} s; {runs} runs, seed {chosen.seed}", flush=True)
    hits = []
    for number in range(runs):
        hit = once(chosen.only[number % len(chosen.only)], whole_s, draw, tuple(chosen.roles))
        hits.append(hit)
        must = ", without which its trial goes on," if hit.survived_by else ""
        must = f", without which its trial failed after {hit.failed_s:.2f} s," if hit.failed_s is not None else must
        text = (
            f"{hit.event} {hit.victim} {hit.node}{must} at {hit.at_s:.2f} s: {hit.outcome} after {hit.ended_s:.1f} s, "
        )
        text += f"gone {hit.gone_s:.2f} s and freed {hit.freed_s:.2f} s later"
        print(f"[{number + 1}/{runs}] {text}", *hit.problems, sep="\n    ", flush=True)
    print(f"\n{table(hits)}")
    wrong = sum(bool(hit.problems) for hit in hits)
    if failed := [hit.failed_s for hit in hits if hit.failed_s is not None]:
        print(f"\n{len(failed)} processes were killed without which nobody goes on. Their trials had failed by name")
        print(f"{statistics.median(failed):.2f} s later (median), {max(failed):.2f} s at most. Allowed: {FAILS_S:g} s")
    print(f"\n{wrong} of {runs} runs were not as they should be")
    return int(wrong > 0)


def table(hits: list[Hit]) -> str:
    """A row for each event and role."""
    groups: dict[tuple[str, str], list[Hit]] = defaultdict(list)
    for hit in hits:
        groups[hit.event, hit.victim].append(hit)
    header = ("event", "hit", "runs", "outcomes", "ended within", "gone after", "freed after", "wrong")
    rows = [
        [
            *key,
            str(len(group)),
            ", ".join(f"{name}: {count}" for name, count in Counter(hit.outcome for hit in group).most_common()),
            f"{max(hit.ended_s for hit in group):.1f} s",
            f"{max(hit.gone_s for hit in group):.2f} s",
            f"{max(hit.freed_s for hit in group):.2f} s",
            str(sum(bool(hit.problems) for hit in group)),
        ]
        for key, group in sorted(groups.items())
    ]
    return columns(header, rows, left=2)


def main() -> int:
    parser = argparse.ArgumentParser(description="Hit runs at random moments and look at what is left.")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=EVENTS, default=EVENTS)
    parser.add_argument("--roles", nargs="+", choices=ROLES, default=ROLES, help="whose processes are drawn")
    parser.add_argument("--whole", type=float, help="what an undisturbed run takes; one is measured otherwise")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells have it ignored in the background
    if chosen.inside:
        return inside(chosen)
    before = leftovers.state()
    status = leftovers.privately([__file__, *sys.argv[1:], "--inside"])
    changed = leftovers.differences(before, leftovers.state())
    print("the machine is as before" if not changed else "\n".join(["the machine changed:", *changed]))
    return status or int(bool(changed))


if __name__ == "__main__":
    sys.exit(main())
