"""The lab machines beside the lab netns, an underlay that is too slow, and kills of machines and controllers.

    python benchmarks/machines.py ratio [--rounds 4] [--repeats 2]
    python benchmarks/machines.py slow [--repeats 20]
    python benchmarks/machines.py kills [--rounds 20] [--seed 1]

As root. Machines are three rehearsed hosts (tests/rehearsal/rehearsal.py), so they share this machine's cores. A ring
of six hosts on ``spine_leaf``, two hosts on each machine, at 100 Mbit/s.

- ``ratio``: runs in the two labs take turns. Reached: the ratio of GST is 1 within 1 %.
- ``slow``: the NIC of the machine with the spine carries half of what the ring sends over it. Reached: the check
  *underlay* fails in every trial, and names that machine.
- ``kills``: an agent or the controller is killed at a random moment of a run. Reached: each time nothing is left on the
  machines whose agent was not killed: no process, no file, no setting. If the controller is killed, machines keep the
  files of the trial for ``testbed hosts collect``, and nothing is left after ``testbed clean``.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # where the tests are

from testbed.base.columns import columns
from testbed.base.python import module_command
from testbed.machine.processes import first_child
from tests.patience import until
from tests.rehearsal.rehearsal import PATH, SETTLE_S, Rehearsal

MACHINES, MTU = 3, 1600
NEAR = 0.01
RATE_MBPS, SIZE_MB, WHOLE_MB = 100, 4.0, 203.3
"""Rate of links, and of AlexNet's gradient the part that is trained, and all of it."""
SPEC = f"""\
name: machines
links: {{rate: {RATE_MBPS * WHOLE_MB / SIZE_MB:.0f} Mbit/s}}
workload:
  {{kind: profile, model: alexnet, scale: {WHOLE_MB / SIZE_MB}, batch: 2, iterations: 8,
   compute: {{pace: {{2: 0.2 s}}}}}}
arms: [{{topology: "spine_leaf(racks=3,hosts_per_rack=2,spines=1)", scheme: ring}}]
retries: 0
machines: {{place: {{spine0: node1, leaf0: node1, leaf1: node2, leaf2: node3}}}}
"""
SLOW_MBPS = RATE_MBPS
"""Half of what crosses the NIC of the machine with the spine: the ring's way out of, and into, two racks."""
AGENT = "testbed.lab.machines.on_machine.agent"
LONGEST_S = 20.0
"""The most seconds after the begin of an agent at which something is killed: about as long as a trial takes."""
BEGIN_S = 120.0
"""The most seconds in which an agent begins."""
COMPILED = "__pycache__"
"""Word of files that Python leaves when testbed runs there for the first time, and that belong to what was prepared."""
ENDED = "ended before"
KEPT = "var/lib/testbed/work"
"""Folder that machines keep if the controller is killed."""
SHARED_S = 90.0
"""Seconds within which SSH ends the connection of a killed controller: those of its ``ControlPersist``, and some."""


def main(words: Sequence[str] | None = None) -> int:
    """Print a table; 0 when what is said above is reached."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("which", choices=("ratio", "slow", "kills"))
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(words)
    with prepared() as machines:
        if asked.which == "ratio":
            reached = ratio(machines, asked.rounds or 4, asked.repeats or 2)
        elif asked.which == "slow":
            reached = slow(machines, asked.repeats or 20)
        else:
            reached = kills(machines, asked.rounds or 20, random.Random(asked.seed))
    print("reached" if reached else "NOT REACHED")
    return 0 if reached else 1


@contextmanager
def prepared() -> Iterator[Rehearsal]:
    """Machines with testbed on them, and room for tunnels on their NICs."""
    with tempfile.TemporaryDirectory() as folder, Rehearsal(Path(folder), MACHINES) as machines:
        machines.testbed("hosts", "prepare", "--inventory", str(machines.inventory), check=True)
        machines.widen(MTU)
        (Path(folder) / "spec.yaml").write_text(SPEC)
        yield machines


def words_of(machines: Rehearsal, lab: str, repeats: int, out: Path) -> list[str]:
    """The command that runs the experiment in a lab."""
    there = ["--inventory", str(machines.inventory)] if lab == "machines" else []
    spec = str(machines.folder / "spec.yaml")
    words = ["run", spec, "--backend", lab, "--set", f"repeats={repeats}", "--out", str(out), "--json", *there]
    command = module_command("testbed", *words)
    return machines.command(command) if there else command


def records(machines: Rehearsal, lab: str, repeats: int) -> list[dict[str, Any]]:
    """Records of a run in a lab."""
    with tempfile.TemporaryDirectory() as folder:
        words = words_of(machines, lab, repeats, Path(folder) / "run")
        done = subprocess.run(words, text=True, capture_output=True, env=PATH)
        if done.returncode:
            sys.exit(done.stdout[-3000:] + done.stderr[-3000:])
    found: list[dict[str, Any]] = json.loads(done.stdout)["trials"]
    return found


def ratio(machines: Rehearsal, rounds: int, repeats: int) -> bool:
    """Whether GST is alike in the two labs."""
    rows, ratios = [], []
    for number in range(rounds):
        gst_s = {}
        for lab in ("machines", "netns") if number % 2 else ("netns", "machines"):
            found = records(machines, lab, repeats)
            gst_s[lab] = statistics.median(one["metrics"]["gst_median_s"] for one in found)
            over = gst_s[lab] / found[0]["metrics"]["gst_theory_s"]
            verdicts = " ".join(one["fidelity"]["numbers"]["gst"]["verdict"] for one in found)
            rows.append((str(number), lab, f"{gst_s[lab]:.4f} s", f"{over:.4f}", verdicts))
        ratios.append(gst_s["machines"] / gst_s["netns"])
        print(f"round {number}: {ratios[-1]:.4f}", file=sys.stderr, flush=True)
    print(columns(("round", "lab", "GST", "over bound", "verdicts"), rows, left=2))
    middle = float(statistics.median(ratios))
    print(
        f"GST in machines over netns: {middle:.4f} (median of {rounds}; {min(ratios):.4f} to {max(ratios):.4f}), "
        f"asked: 1 within {NEAR:.0%}"
    )
    return abs(middle - 1) <= NEAR


def slow(machines: Rehearsal, repeats: int) -> bool:
    """Whether an underlay with half of what crosses is found in every trial."""
    shape = ["root", "tbf", "rate", f"{SLOW_MBPS}mbit", "burst", "64kb", "latency", "50ms"]
    machines.run(["tc", "qdisc", "add", "dev", "t0-0", *shape], check=True)
    subprocess.run(machines.on(0, ["tc", "qdisc", "add", "dev", "eth1", *shape]), check=True)
    rows, count = [], 0
    for one in records(machines, "machines", repeats):
        check = next(each for each in one["fidelity"]["checks"] if each["name"] == "underlay")
        verdict = one["fidelity"]["numbers"]["gst"]["verdict"]
        count += not check["ok"] and check["detail"].count("node1's eth1") > 0 and verdict == "INVALID"
        rows.append((one["id"], verdict, check["detail"]))
    print(columns(("trial", "GST", "underlay"), rows, left=3))
    print(f"found in {count} of {repeats}")
    return count == repeats


def kills(machines: Rehearsal, rounds: int, draws: random.Random) -> bool:
    """Whether nothing is left after each of so many kills. A run that ended before its kill does not count, but nothing
    may be left of it either."""
    before = [machines.snapshot(number) for number in range(MACHINES)]
    rows: list[tuple[str, ...]] = []
    left = killed = 0
    while killed < rounds and len(rows) < 2 * rounds:
        at_s, victim = draws.uniform(0.0, LONGEST_S), draws.choice((None, *range(MACHINES)))
        was = hit(machines, at_s, victim)
        killed += was != ENDED
        others = [at for at in range(MACHINES) if at != victim]
        but_for, settle_s = ((COMPILED,), SETTLE_S) if victim is not None else ((COMPILED, KEPT), SHARED_S)
        seen = [(at, line) for at in others for line in machines.differs(at, before[at], but_for, settle_s)]
        machines.testbed("clean", "--inventory", str(machines.inventory), "--yes")
        seen += [(at, f"cleaned: {line}") for at in others for line in machines.differs(at, before[at], (COMPILED,))]
        told = "; ".join(f"node{at + 1}: {line}" for at, line in seen)
        left += bool(told)
        who = "controller" if victim is None else f"agent of node{victim + 1}"
        rows.append((str(len(rows)), who, f"{at_s:.1f} s", was, told or "nothing"))
        print(*rows[-1], file=sys.stderr, flush=True)
        if victim is not None:
            before[victim] = machines.snapshot(victim)
    print(columns(("round", "killed", "after", "run", "left"), rows, left=5))
    print(f"something was left after {left} of {len(rows)} runs, of which {killed} had a kill; asked: 0, {rounds}")
    return not left and killed == rounds


def hit(machines: Rehearsal, at_s: float, victim: int | None) -> str:
    """Run the experiment, and kill the agent of a machine, or the controller, so long after agents have begun; return
    how far the run was."""
    with tempfile.TemporaryDirectory() as folder:
        words = words_of(machines, "machines", 1, Path(folder) / "run")
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=PATH) as run:
            until(lambda: agents(machines, MACHINES - 1), BEGIN_S)
            with suppress(subprocess.TimeoutExpired):
                run.wait(at_s)
            was = "trained" if list(Path(folder).glob("run/work/*/h*/samples.jsonl")) else "began"
            if victim is None:
                controller = None if run.poll() is not None else first_child(run.pid) or run.pid
                if controller is None:
                    return ENDED
                os.kill(controller, signal.SIGKILL)
            else:
                kill = machines.on(victim, ["kill", "-KILL", *agents(machines, victim)])
                if subprocess.run(kill, capture_output=True).returncode:
                    was = ENDED
            run.wait()
    return was


def agents(machines: Rehearsal, number: int) -> list[str]:
    """PIDs of a machine's agent, as it sees them; none if there is no agent."""
    return subprocess.run(machines.on(number, ["pgrep", "-f", AGENT]), text=True, capture_output=True).stdout.split()


if __name__ == "__main__":
    sys.exit(main())
