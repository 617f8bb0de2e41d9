"""A trial whose workload is a command: a rank a host, started as torchrun would start it, and nothing of it changed.
Under a scheme, ranks are told of it, and processes of ours that only add run beside them (:mod:`.scripts`).

Every rank's environment has what torchrun sets (RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, ...), and the
interface that Gloo is to take. Links are measured before the ranks start, and counted while they run.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed import fidelity
from testbed.base.errors import TrialTimeoutError
from testbed.control import endings
from testbed.control.conductor import timeline
from testbed.control.feed import Feed
from testbed.evidence import calibration
from testbed.evidence.calibration import Calibrated
from testbed.evidence.links import link_records
from testbed.evidence.spot_checks import Readings
from testbed.execution import bursts, link_load, observing, queues, results, scripts, supervise
from testbed.execution.observing import Observation
from testbed.execution.search import search_path
from testbed.files.writing import named_errors
from testbed.lab.base import Lab
from testbed.lab.programs import Exit, Launch, Program
from testbed.recovery.deaths import undisturbed
from testbed.spec.workload.launchers import Started, without_launcher
from testbed.topologies.addressing import plan
from testbed.trial import job_files
from testbed.trial.files import Files
from testbed.trial.model import Trial
from testbed.trial.network import link_settings
from testbed.workloads.kinds.ranks import Failed
from testbed.workloads.rank_job import VARIABLE

MASTER_PORT = 29500
"""What torchrun takes unless told otherwise."""
COUNT_S = 1.0
"""How often the links are looked at, to see whether anything moves."""


@dataclass(frozen=True)
class Ran:
    """What a command left behind: when each rank started and ended, bursts and what the idle network did before, and
    what was seen while it ran."""

    exits: list[Exit]
    probes: list[dict[str, Any]]
    idle: Calibrated
    observed: Observation


def observe(trial: Trial, lab: Lab, files: Files, congestion_control: str) -> Ran:
    """Build, measure the links, run the command to its end, take down; a lab in which that failed is for the caller to
    close.

    Raises:
        TrialError: the lab is not as asked, a rank failed, or nothing happened for too long.
    """
    topology = trial.topology
    settings = link_settings(trial.spec, congestion_control)
    lab.up(topology, settings, job_files.host_pairs(trial))
    with named_errors(files.work):
        probers = bursts.probers(trial, files, congestion_control)
        later = scripts.later(files)
        ranks = launches(trial, later)
        servers = scripts.write(trial, later, congestion_control) if trial.network.arm.scheme else []
    idle = calibration.measure(topology, lab, settings)
    probes = bursts.measured(trial, lab, files, probers)  # now, for ranks can write to the same folders

    def run(feed: Feed, _: Readings) -> list[Exit]:
        lab.launch([*servers, *ranks])
        feed.begin()
        return _wait(lab, feed, [*ranks, *servers], later, trial.spec.timeout_s)

    processes = [one.process for one in (*ranks, *servers)]
    exits, observed = observing.observe(trial, lab, files, run, dict.fromkeys(processes))
    lab.down()
    of_ranks = [one for one in exits if one.process in {rank.process for rank in ranks}]
    return Ran(of_ranks, probes, idle, observed)


def launches(trial: Trial, files: Files) -> list[Launch]:
    """The command, once a host that has a rank."""
    topology, program, nodes = trial.network.topology, trial.spec.workload.program, trial.job.plan.workers
    assert program is not None  # or nothing would tell of iterations
    addresses, is_scripted = plan(topology), bool(trial.network.arm.scheme)
    started = without_launcher(program.words, len(nodes)) if is_scripted else Started(program.words)
    found = []
    for rank, node in enumerate(nodes):
        name, first = topology.nodes[node].name, addresses.flow(node, nodes[0])[1] if rank else addresses.of(node, 0)
        environment = {
            **rank_environment(rank, len(nodes), first),
            **{variable: f"eth{topology.port_at_tail(topology.ports[node][0])}" for variable in INTERFACES},
            **started.environment,
            **({VARIABLE: str(files.job(name))} if is_scripted else {}),
        }
        one = Program(started.words, environment, str(trial.network.folder.resolve()))
        found.append(Launch(name, node, str(files.job(name)) if is_scripted else "", str(files.log(name)), one))
    return found


INTERFACES = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")


def rank_environment(rank: int, world: int, master: str) -> dict[str, str]:
    """What torchrun gives a rank that is alone on its host (torch.distributed.run, "Environment Variables")."""
    numbers = {
        "RANK": rank,
        "WORLD_SIZE": world,
        "LOCAL_RANK": 0,
        "LOCAL_WORLD_SIZE": 1,
        "GROUP_RANK": rank,
        "GROUP_WORLD_SIZE": world,
        "ROLE_RANK": rank,
        "ROLE_WORLD_SIZE": world,
        "MASTER_PORT": MASTER_PORT,
        "OMP_NUM_THREADS": 1,  # torchrun's own default
        "TORCHELASTIC_RESTART_COUNT": 0,
        "TORCHELASTIC_MAX_RESTARTS": 0,
    }
    return {"MASTER_ADDR": master, "PATH": search_path(), **{name: str(number) for name, number in numbers.items()}}


def _wait(lab: Lab, feed: Feed, ranks: Sequence[Launch], files: Files, timeout_s: float) -> list[Exit]:
    """Until every process has ended well: ``ranks`` in their order, and then those of ours.

    Raises:
        WorkerError: one ended otherwise; names it, with the end of its log.
        TrialTimeoutError: no log grew and no link carried anything for ``timeout_s``.
        TrialError: a controller failed.
    """
    called = {
        one.process: f"rank {rank} on {one.process}" if one.program else files.called(one.process)
        for rank, one in enumerate(ranks)
    }
    ended: list[Exit] = []
    seen, moved_s = _signs(lab, ranks), time.monotonic()
    looked_s = moved_s
    while feed.running:
        time.sleep(supervise.POLL_S)
        exits = lab.exits()
        ended += exits
        feed.note(exits)
        if feed.failed:
            raise endings.died(*supervise.settle(lab, feed.failed, feed.running), files, called.__getitem__)
        now = time.monotonic()
        if now - looked_s >= COUNT_S:
            looked_s, before, seen = now, seen, _signs(lab, ranks)
            moved_s = now if seen != before else moved_s
            supervise.check_logs(Path(one.log) for one in ranks)
        if feed.running and now - moved_s > timeout_s:
            raise _stuck(lab, [called[one] for one in feed.running], files.log(feed.running[0]), timeout_s)
    return ended


def _signs(lab: Lab, ranks: Sequence[Launch]) -> tuple[int, ...]:
    """What changes while something gets done: lengths of logs, bytes on the links. Raises TrialError: a log is none."""
    return (*(endings.size_bytes(Path(one.log)) for one in ranks), *(count.bytes for count in lab.counters()))


def _stuck(lab: Lab, running: Sequence[str], log: Path, timeout_s: float) -> TrialTimeoutError:
    """``log`` is that of the first of those that are still ``running``."""
    return TrialTimeoutError(
        f"for {timeout_s:g} s no rank wrote anything and no link carried anything; still running: "
        f"{', '.join(running[:5])}{supervise.stopped(lab)}\n"
        f"{endings.tail(log)}",
        fix=f"read {log}, or give a longer timeout",
    )


def window(ran: Ran) -> tuple[float, float]:
    """From the first start of a rank to the last end."""
    return min(one.started_s for one in ran.exits), max(one.ended_s for one in ran.exits)


def summary(trial: Trial, ran: Ran, failed: Sequence[Failed] | None = None) -> dict[str, Any]:
    """Metrics, links and fidelity of a command whose ranks all ended well. JCT: first start to last end. ``failed`` are
    the collectives that did, where ranks tell of them."""
    start_s, end_s = window(ran)
    others = link_load.background_bytes(trial, ran.observed.sent)
    events = timeline(ran.observed.events, start_s)
    seen = fidelity.Seen(
        trial=trial,
        job=trial.job,
        samples=None,
        window=(start_s, end_s),
        rates=[*map(results.burst, ran.probes), *ran.idle.rates],
        expected_rates=len(trial.topology.bursts) + len(ran.idle.rates),
        round_trips=ran.idle.round_trips,
        links=link_records(trial, [undisturbed(job).phases for job in trial.jobs], ran.observed.counters, others, {}),
        cpu=ran.observed.cpu,
        processes=ran.observed.processes,
        done=(),
        aggregators=(),
        differs=ran.observed.readings.differs(start_s, ran.observed.differs),
        in_mid_run=ran.observed.readings.within(start_s, end_s),
        events=events,
        course=undisturbed(trial.job),
        bounds=None,
        failed=failed,
    )
    return {
        "metrics": {"jct_s": end_s - start_s},
        "links": seen.links,
        "queues": queues.record(ran.observed.queues),
        "events": events,
        "probes": seen.rates,
        "round_trips": seen.round_trips,
        "fidelity": fidelity.judge(seen),
    }
