"""One trial in one lab: build the network, start the workers, wait, gather what was seen into the trial's record."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.metrics import rounds
from testbed import fidelity
from testbed.base.errors import DiskFullError, TrialError
from testbed.evidence import calibration, sum_check
from testbed.evidence.bounds import bounds as bounds_of
from testbed.evidence.calibration import Calibrated
from testbed.evidence.referee import REFERENCE, ROUNDED, Referee
from testbed.evidence.spot_checks import Readings
from testbed.experiment.directory import WORK
from testbed.files.removal import remove
from testbed.files.writing import named_errors, names_in, opened_folder
from testbed.lab.base import Counters, Lab
from testbed.machine.monitor import CpuLog
from testbed.machine.room import blame_full_disk, check_room, most_said_bytes, needed_bytes
from testbed.perturb.circuits import History, moved_cost
from testbed.perturb.conductor import Conductor, Record, timeline
from testbed.recovery import phases
from testbed.recovery.deaths import Course, undisturbed
from testbed.recovery.deaths import record as record_of_deaths
from testbed.recovery.failover import Coordinator
from testbed.trial import job_files, observing, programs, results, supervise
from testbed.trial.inputs import check_unchanged
from testbed.trial.job_files import Files
from testbed.trial.model import Trial, link_settings
from workloads.job import Training
from workloads.kinds.base import Told
from workloads.sync.cost import goodput
from workloads.sync.tcp_info import Sent

Lines = list[dict[str, Any]]


@dataclass
class Observed:
    """What one trial left behind: each process's lines, the kernel's counts, the CPUs' log, the lab as read back with
    how many workers trained on which device, what the idle network did before, how the kernel's settings differed from
    what was asked for after, and what was read of them meanwhile, what was done to it on purpose, the bytes that each
    of its background flows sent, who died in it, and the circuits that it met."""

    lines: dict[str, Lines]
    counters: list[Counters]
    cpu: CpuLog
    lab: dict[str, Any]
    idle: Calibrated
    differs: str | None
    readings: Readings
    events: list[Record]
    background: list[int]
    course: Course
    circuits: History

    def of(self, kind: str) -> Lines:
        """The lines of one kind, each with its process's ``name``."""
        return [{**line, "name": name} for name, lines in self.lines.items() for line in lines if line["kind"] == kind]


@dataclass(frozen=True)
class Outcome:
    """A finished trial: its record (the trial's JSON), its samples, and the lab as read back."""

    record: dict[str, Any]
    samples: pd.DataFrame | None
    lab: dict[str, Any]


def execute(
    trial: Trial, lab: Lab, referee: Referee, run_dir: Path, congestion_control: str, tick: Callable[[int], None]
) -> Outcome:
    """Run a trial; one that fails has an Outcome too, with ``status`` failed and the reason, and its lab is closed.

    Raises:
        PrivilegeError, DiskFullError, OutputError: what would fail every other trial as well.
        ChangedError: a file that the trial reads was changed since it was planned, or while it ran.
    """
    check_unchanged(trial)
    started, began_s = datetime.now(UTC), time.monotonic()
    record = blank(trial) | {"started": started.isoformat(timespec="seconds")}
    samples, described = None, {}
    check_room(run_dir, needed_bytes(trial))
    with working_files(run_dir, trial) as files:
        lab.share(files.work, [trial.folder] if trial.spec.workload.program else [])
        try:
            if trial.kind.writes_samples:
                seen = observe(trial, lab, files, congestion_control, tick)
                described = seen.lab
                with _told_by_workers():
                    told = attributed(trial, seen)
                    samples = told.samples
                    _judge(trial, seen, told, referee, files, record)
            else:
                ran = programs.observe(trial, lab, files, congestion_control)
                described = ran.observed.lab
                record |= programs.summary(trial, ran)
            record["status"] = "done"
        except DiskFullError:
            raise
        except TrialError as error:
            lab.close()
            blame_full_disk(trial, run_dir)
            record |= {"error": str(error), "events": list(error.events), "by_perturb": error.by_perturb}
    check_unchanged(trial)
    record["duration_s"] = round(time.monotonic() - began_s, 3)
    return Outcome(record, samples, described)


@contextmanager
def _told_by_workers() -> Iterator[None]:
    """Lines of workers that have the right form may still not go together.

    Raises:
        TrialError: they do not.
    """
    try:
        yield
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise TrialError(
            f"what the workers wrote does not go together ({type(error).__name__}: {error!s:.200})",
            fix="see whether a worker writes something else than its samples; then run the trial again",
        ) from error


def _judge(trial: Trial, seen: Observed, told: Told, referee: Referee, files: Files, record: dict[str, Any]) -> None:
    """Add to the record what a trial's samples say, and whether its sums and weights are right.

    Raises:
        TrialError: training diverged, or sums or weights are wrong.
    """
    if not trial.work.is_trained:
        record |= summary(trial, seen, told)
        record["sums"] = sums(trial, seen)
        check_sums(seen.of("done"), trial.network.floats)
        return
    check_loss(told.samples)
    record |= summary(trial, seen, told)
    if trial.kind.sums_together:
        looked_at = added(trial, seen)
        record["sums"] = storable(looked_at.record())
        sum_check.check(looked_at, expected_sums(trial, seen.course))
    found = accuracy(trial, seen, told, referee, files)
    record["accuracy"] = storable(found)
    check_weights(found)


def blank(trial: Trial) -> dict[str, Any]:
    """The record of a trial that has not got anywhere."""
    return {
        "schema": results.SCHEMA,
        "id": trial.id,
        "identity": trial.identity,
        "inputs": dict(trial.inputs),
        "label": trial.label,
        "topology": trial.network.topology_text,
        "scheme": trial.network.scheme_text,
        "kind": trial.spec.workload.kind,
        "moves": trial.kind.name,
        "model": trial.work.model if trial.kind.writes_samples else None,
        "scale": trial.work.scale if trial.kind.writes_samples else None,
        "batch": trial.batch,
        "repeat": trial.repeat,
        "point": dict(trial.point),
        "at": trial.at,
        "iterations": trial.iterations,
        "world": trial.network.world,
        "status": "failed",
        "error": None,
        "by_perturb": False,
        "metrics": None,
        "accuracy": None,
        "sums": None,
        "loss": None,
        "fidelity": None,
        "probes": [],
        "round_trips": [],
        "links": [],
        "events": [],
        "failover": None,
        "waited": None,
        "attempts": [],
        "links_settings": trial.spec.links.model_dump(),
    }


def observe(trial: Trial, lab: Lab, files: Files, congestion_control: str, tick: Callable[[int], None]) -> Observed:
    """Build, run and take down; a lab in which that failed is for the caller to close.

    Raises:
        TrialError: the lab is not as asked, a worker died, or nothing happened for too long.
    """
    settings = link_settings(trial.spec, congestion_control)
    lab.up(trial.network.topology, settings, job_files.host_pairs(trial.network, trial.background))
    with named_errors(files.work):
        agent = lab.agent() if trial.kind.needs_agent(trial.network.forest) else ()
        launches = job_files.write(trial, files, congestion_control, agent)
    idle = calibration.measure(trial.network.topology, lab, settings)
    names = [launch.process for launch in launches]
    coordinator = Coordinator(trial, files, lab, congestion_control) if trial.survives else None

    def train(_: Conductor) -> None:
        lab.launch(launches)
        spec = trial.spec
        supervise.wait(lab, launches, files, spec.timeout_s, tick, spec.start_timeout_s, coordinator)

    forest = trial.network.forest
    written = {forest.nodes[worker]: files.samples(forest.nodes[worker]) for worker in forest.workers}
    _, around = observing.observe(trial, lab, files, train, written, [files.samples(name) for name in names])
    seen = Observed(
        lines={name: supervise.read_checked(files.samples(name), most_said_bytes(trial), trial.kind) for name in names},
        counters=around.counters,
        cpu=around.cpu,
        lab=around.lab,
        idle=idle,
        differs=around.differs,
        readings=around.readings,
        events=around.events,
        background=around.sent,
        course=coordinator.course if coordinator else undisturbed(trial),
        circuits=around.history,
    )
    seen.lab |= {"devices": Counter(line["device"] for line in seen.of("hello") if line["device"])}
    lab.down()
    return seen


def attributed(trial: Trial, seen: Observed) -> Told:
    """The samples that counted, as the trial's processes tell of them together.

    Raises:
        WorkerError: one is missing, or processes contradict each other.
    """
    table = results.table(seen.of("iteration"))
    if trial.kind.sums_together:
        table = phases.attribute(table, seen.course.phases, seen.course.dead, seen.course.behind)
    return trial.kind.told(trial.network.forest, table, seen.of("done"), trial.iterations)


def summary(trial: Trial, seen: Observed, told: Told) -> dict[str, Any]:
    """Metrics, loss, links and fidelity of a trial whose workers all ended well."""
    samples = told.samples
    trial = as_run(trial, seen.circuits, told)
    if not seen.course.deaths:
        seen = replace(seen, course=undisturbed(trial))  # whose network is the one that the trial met
    probes = seen.of("probe")
    ours = [probed_bytes(trial, probes), observing.background_bytes(trial, seen.background)]
    others = {link: sum(one.get(link, 0.0) for one in ours) for link in {*ours[0], *ours[1]}}
    course, start_s, end_s = seen.course, float(samples["start_s"].min()), float(samples["end_s"].max())
    events = timeline(seen.events, start_s)
    bounds = bounds_of(trial, samples, course.phases, events) if trial.kind.sums_together else None
    extra = extra_bytes(trial, seen.of("done"), probes)
    loss = rounds(samples).groupby("iteration")["loss"].mean()
    found = fidelity.Seen(
        trial=trial,
        samples=samples,
        window=(start_s, end_s),
        rates=[*map(results.burst, probes), *seen.idle.rates],
        expected_rates=len(trial.network.topology.bursts) + len(seen.idle.rates),
        round_trips=seen.idle.round_trips,
        links=results.links(trial, course.phases, seen.counters, others, extra),
        cpu=seen.cpu,
        done=seen.of("done"),
        aggregators={line["name"] for line in seen.of("hello") if line["rank"] is None},
        differs=seen.readings.differs(start_s, seen.differs),
        in_mid_run=seen.readings.within(start_s, end_s),
        events=events,
        course=course,
        bounds=bounds,
        clocks_s=seen.lab.get("clock_uncertainty_s") or 0.0,
    )
    # What a process that died had sent is not known.
    sent = None if course.deaths else sent_bytes([line["wire_bytes"] for line in seen.of("done")])
    return {
        "metrics": results.measure(trial, samples, course.phases, bounds, sent)
        | {"gst_uncertainty_s": seen.lab.get("clock_uncertainty_s")},
        "loss": None if samples["loss"].isna().all() else [float(loss.iloc[0]), float(loss.iloc[-1])],
        "links": found.links,
        "events": events,
        "probes": found.rates,
        "round_trips": found.round_trips,
        "fidelity": fidelity.judge(found),
        "failover": record_of_deaths(trial, course, samples),
        "congestion_control": sorted({line["congestion_control"] for line in seen.of("hello")}),
        "max_rss_bytes": max(line["max_rss_bytes"] for line in seen.of("done")),
    }


def as_run(trial: Trial, history: History, told: Told) -> Trial:
    """The trial with the cost of what its synchronisations met, if circuits moved meanwhile, or if that is known only
    afterwards."""
    network = trial.network
    found = trial.kind.cost_as_run(network.forest, network.topology, trial.gradient_bytes, told)
    if found is None and len(history) > 1:
        by = told.samples.groupby("iteration")
        windows = list(zip(by["ready_s"].min(), by["sum_s"].max(), strict=True))
        found = moved_cost(network.forest, history, windows, trial.gradient_bytes)
    return trial if found is None else replace(trial, network=replace(network, cost=found))


def sent_bytes(counts: Sequence[int | None]) -> int | None:
    """What all processes together handed to TCP; None where a library does not say."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def accuracy(trial: Trial, seen: Observed, told: Told, referee: Referee, files: Files) -> dict[str, Any]:
    """Test accuracy, and how far the weights are from those of the reference and from each other."""
    training = job_files.training(trial, files)
    assert isinstance(training, Training)  # the one task whose weights the referee repeats
    scales = [phase.network.kind.scale(phase.network.forest) for phase in seen.course.phases]
    worlds = [(phase.first, phase.network.world) for phase in seen.course.phases]
    last = seen.course.phases[-1].network.forest
    weights = files.weights(last.nodes[last.workers[0]])
    found = referee.check(training, worlds, trial.compute.mode, weights, scales, told.order)
    hashes = {line["weights_sha256"] for line in seen.of("done") if line.get("weights_sha256")}
    rounded = min((scale for scale in scales if scale is not None), default=None)
    named = REFERENCE if rounded is None else ROUNDED.format(1 / rounded)
    return {**found, "weights_equal": len(hashes) == 1, "reference": trial.kind.reference or named}


def added(trial: Trial, seen: Observed) -> sum_check.Checked:
    """What became of the sums of a trial that trained."""
    return sum_check.checked(seen.of("done"), seen.course.phases, trial.network.floats, trial.work.chunk_bytes)


def expected_sums(trial: Trial, course: Course) -> int:
    """How many sums of a trial that trained can be checked; of one in which nodes died, some."""
    if course.deaths:
        return 0
    return 1 if trial.compute.mode == "none" else trial.iterations


def sums(trial: Trial, seen: Observed) -> dict[str, int]:
    """How many elements of how many sums were looked at, by all workers together, and how many were wrong."""
    wrong = sum(count for line in seen.of("done") for _, count in line.get("wrong", ()))
    checked = trial.network.floats * sum(line["checked"] for line in seen.of("done") if "checked" in line)
    return {"checked_elements": checked, "wrong_elements": wrong}


def check_sums(lines: Lines, floats: int) -> None:
    """
    Raises:
        TrialError: a worker counted wrong elements in a sum; names the first iteration in which any did.
    """
    wrong = [(i, line["name"], count) for line in lines for i, count in line.get("wrong", ())]
    if wrong:
        i, name, count = min(wrong)
        raise TrialError(
            f"{count:,} of {floats:,} elements of the sum are wrong on {name} in iteration {i}",
            fix="the scheme did not give every worker the sum of every worker's gradient once; read its code",
        )


def storable(found: Mapping[str, Any]) -> dict[str, Any]:
    """The same with None for what is no finite number, which JSON cannot say."""
    return {key: None if isinstance(one, float) and not math.isfinite(one) else one for key, one in found.items()}


def check_loss(samples: pd.DataFrame) -> None:
    """
    Raises:
        TrialError: training diverged, so that neither losses nor weights are numbers.
    """
    lost = samples.loc[~np.isfinite(samples["loss"]), "iteration"]
    if not lost.empty:
        raise TrialError(
            f"training diverged: the loss of iteration {lost.min()} is not a finite number",
            fix="take a lower workload.learning_rate",
        )


def check_weights(found: Mapping[str, Any]) -> None:
    """
    Raises:
        TrialError: the workers' weights differ from each other, or from those that they must have; or rounding to fixed
            point leaves too little of the gradients.
    """
    if not found["weights_equal"]:
        raise TrialError(
            "the workers ended with different weights",
            fix="the scheme did not give every worker the same sum; read its code",
        )
    if not found["coarseness"] <= found["coarsest"]:
        raise TrialError(
            f"scale too coarse: rounding to fixed point changed the sums by {found['coarseness']:.2g} of their norm; "
            f"{found['coarsest']:g} is allowed",
            fix=f"give the scheme scale={found['scale_needed']:g}",
        )
    if not found["training_error"] <= found["training_allowed"]:  # also true for NaN
        raise TrialError(
            f"the weights differ from those of {found['reference']} by {found['training_error']:.3g} of what training "
            f"changed; rounding explains {found['training_allowed']:.2g}",
            fix="mend the scheme, or whatever else made the workers train on other samples or take other steps",
        )


def probed_bytes(trial: Trial, probes: Sequence[Mapping[str, Any]]) -> dict[int, float]:
    """By directed link, the bytes that the burst put on it, headers included: every NIC reports what it received."""
    topology = trial.network.topology
    received = {(line["name"], line["port_address"]): line["bytes"] for line in probes}
    load: dict[int, float] = {}
    for burst, _, address in job_files.burst_addresses(topology):
        count = received.get((topology.nodes[burst.dst].name, address), 0) / goodput(trial.spec.links.mtu)
        for path in topology.paths(burst.src, burst.dst):
            for link in path.links:
                load[link] = load.get(link, 0.0) + count * path.weight
    return load


def extra_bytes(
    trial: Trial, done: Sequence[Mapping[str, Any]], probes: Sequence[Mapping[str, Any]]
) -> dict[int, float]:
    """By directed link, what TCP has put on it beyond streams in full packets, as far as processes' connections are
    known: acknowledgements, and what was sent again. Of that, a link may have carried less: what was lost before."""
    topology, share = trial.network.topology, goodput(trial.spec.links.mtu)
    load: dict[int, float] = {}

    def add(src: int, dst: int, count: float) -> None:
        for path in topology.paths(src, dst):
            for link in path.links:
                load[link] = load.get(link, 0.0) + count * path.weight

    for line in done:
        for other, sent in (line["sent"] or {}).items():
            add(trial.processes[line["name"]], int(other), Sent(**sent).extra_bytes(share))
    by_nic = {(line["name"], line["port_address"]): line for line in probes}
    names = [node.name for node in topology.nodes]
    for burst, local, remote in job_files.burst_addresses(topology):
        sender, receiver = by_nic.get((names[burst.src], local)), by_nic.get((names[burst.dst], remote))
        if sender is not None and receiver is not None:  # else the process of one of them died
            add(burst.src, burst.dst, max(0.0, sender["sent_bytes"] - receiver["bytes"] / share))
            add(burst.dst, burst.src, receiver["acknowledged_bytes"])
    return load


@contextmanager
def working_files(run_dir: Path, trial: Trial) -> Iterator[Files]:
    """Directories for a trial's files; those that are only needed meanwhile are removed, the logs stay.

    Raises:
        DiskFullError, OutputError: they cannot be made, or would be behind a link.
    """
    path = run_dir.resolve()
    nodes = trial.network.topology.nodes
    homes = {process: nodes[node].name for process, node in trial.processes.items()}
    files = Files(work=path / WORK / trial.id, logs=path / "logs" / trial.id, homes=homes)
    with named_errors(files.work), opened_folder(path) as run:
        for name in (WORK, "logs"):
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=run)
            with opened_folder(name, run) as folder:
                remove(trial.id, folder)
                os.mkdir(trial.id, 0o700, dir_fd=folder)  # nobody runs what a process may make of its log meanwhile
        files.make(trial.network.topology)
    try:
        yield files
    finally:
        with suppress(OSError), opened_folder(path) as run:  # what cannot be removed is told when the run is closed
            remove(WORK, run)
        with suppress(OSError), opened_folder(path) as run, opened_folder("logs", run) as logs:
            publish(trial.id, logs)


def publish(name: str, logs: int) -> None:
    """Let others read a trial's logs, in the folder that is open as ``logs``. Processes that wrote to them may have
    made programs of them, which would run with our rights whoever calls them.

    Raises:
        OSError: the system refuses.
    """
    with opened_folder(name, logs) as folder:
        for log in names_in(folder):
            descriptor = os.open(log, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            os.fchmod(descriptor, 0o644)
            os.close(descriptor)
        os.fchmod(folder, 0o755)
