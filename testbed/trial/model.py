"""One trial as data: a network, the jobs that share it, and all that follows from the spec about both; and the digest
that tells whether a trial that ran is one that is asked for now.

What is of no concern is left out of the digest. Everything else that a result depends on counts, so that a key that is
new counts, too, and a scheme's forest counts as it reaches the workers, whatever it is made of.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from testbed.analysis.cell import Cell
from testbed.analysis.strikes import Strikes
from testbed.base.process_names import of_job
from testbed.lab import IN_EVERY_DIGEST
from testbed.perturb import targets
from testbed.perturb.kinds.base import COMPUTING, Context
from testbed.perturb.schedule import Schedule, background_pairs
from testbed.perturb.schedule import schedule as schedule_of
from testbed.perturb.strikes import of_computing, of_links
from testbed.spec import Spec
from testbed.spec.axes import Plain
from testbed.spec.options import LAB_OPTIONS
from testbed.topologies.model import Topology
from testbed.trial import order_finding
from testbed.trial.job import Job
from testbed.trial.network import Network, link_settings
from testbed.trial.ports import Ports
from testbed.workloads.finding import Finding
from testbed.workloads.kinds.process import WORKER, Process, merged
from testbed.workloads.sync.schemes import finding

PATIENCE = {"timeout_s", "start_timeout_s", "retries", "quiet_s"}
"""Settings of how long is waited, and how often is measured again, on which no trial's result depends."""
OF_NO_CONCERN = {"name", "where", "repeats", *PATIENCE}
"""Keys of a spec that change no trial's result."""
OF_OWN = {"own", "own_digest"}
"""Fields that a training has of a user's model and data: the digests of inputs tell of them."""
BEFORE = {"optimiser": "sgd"}
"""Fields of a training that were added, with the value that trainings had before: with this one, they are left out."""
OF_SOME = {"arms", "perturb", "draws", "failover_s", *LAB_OPTIONS}
"""Keys of a spec that are of concern to some of its trials only, or not in full."""


def identity(trial: Trial) -> str:
    """Return the digest, in hexadecimal; it is the same in every process, and for all repeats of a trial."""
    topology = trial.topology
    digest = hashlib.sha256(json.dumps(_settings(trial), sort_keys=True).encode())
    digest.update(repr((topology.nodes, topology.links, topology.panels)).encode())
    for job in trial.jobs:
        # A scheme of one's own as the spec names it: from elsewhere, its file has another path.
        plan = job.plan.built_by(job.written_scheme)
        arrays = job.kind.encode(plan) | {"routes": job.cost.link_bytes}
        if job.stragglers is not None:
            arrays |= vars(job.stragglers)
        for name, array in arrays.items():
            _add(digest, of_job(job.name, name), array)
    return digest.hexdigest()


def _settings(trial: Trial) -> dict[str, Any]:
    """Gather what the spec says of this trial, what each worker does, and the files that it names."""
    spec, arm = trial.spec, trial.network.arm
    settings: dict[str, Any] = spec.model_dump(exclude=OF_NO_CONCERN | OF_SOME)
    settings["workload"].pop("outputs", None)  # kept or not, a result is the same
    settings["arm"] = [arm.topology, arm.scheme]
    if not arm.schemes:
        for key in spec.workload.of_schemes:
            del settings["workload"][key]
    if "chunk_bytes" in settings["workload"]:  # whether it was asked for or not
        settings["workload"]["chunk_bytes"] = trial.jobs[0].chunk_bytes
    settings["perturb"] = [one.model_dump() for one in trial.network.perturbations]
    if spec.draws != "same" and trial.network.perturbations:
        settings["draws"] = trial.network.draws_seed
    if arm.order is not None:
        settings["order"] = arm.order
    if arm.checkpoint:
        settings["checkpoint"] = arm.checkpoint.model_dump()
    settings |= dict.fromkeys(IN_EVERY_DIGEST)  # not of all labs, or a new one would change digests
    if spec.lab_settings is not None:
        settings[spec.lab] = spec.lab_settings.model_dump()
    settings["failover"] = spec.failover_s if trial.goes_on or trial.survives else None
    settings["inputs"] = dict(trial.inputs)
    for job in trial.jobs:
        workload = settings["workload"]
        if job.slot is not None:
            told = {name: value for name, value in asdict(job.slot).items() if value is not None}
            settings[of_job(job.name, "slot")] = told
            workload = settings.setdefault(of_job(job.name, "workload"), {})
        if job.is_synchronised:
            given = asdict(job.training).items()
            training = {key: value for key, value in given if key not in OF_OWN and (key, value) not in BEFORE.items()}
            workload |= {"batch": job.batch, "compute": vars(job.compute)}
            settings |= {of_job(job.name, "training"): training, of_job(job.name, "gradient"): repr(job.gradient)}
    return settings


def _add(digest: hashlib._Hash, name: str, array: NDArray[np.generic]) -> None:
    """Add to a digest a name, and an array with what tells it from another that has the same bytes."""
    digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
    digest.update(array.tobytes())


@dataclass(frozen=True)
class Trial:
    """Jobs that run at the same time on one arm's network at one point of a sweep, run once.

    Attributes:
        name: a name that is the same in all repeats.
        jobs: at least one.
        point: values of swept fields in base units, by their names; an arm has none of a field that only others
            sweep.
        at: the point in words for people.
        mark: text that tells its id from that of another trial with the same name.
        inputs: the digests of the files that its result depends on, see :mod:`testbed.trial.inputs`.
        kept_ids: by repeat, ids that differ from those that are made here: another version of testbed began the run.
        expand: function that makes the trial that runs from this one and the plain settings that were found, by job.
        found: what was found, of the trial that runs; as the record has it.
    """

    name: str
    network: Network
    jobs: tuple[Job, ...]
    repeat: int = 0
    point: Mapping[str, Plain] = field(default_factory=dict)
    at: str = ""
    mark: str = ""
    inputs: Mapping[str, str] = field(default_factory=dict)
    kept_ids: Mapping[int, str] = field(default_factory=dict)
    expand: Callable[[Trial, Mapping[str, Mapping[str, Any]]], Trial] | None = field(
        default=None, compare=False, repr=False
    )
    found: tuple[Mapping[str, Any], ...] = ()

    @property
    def job(self) -> Job:
        """The only job, of a trial that has one."""
        (only,) = self.jobs
        return only

    @property
    def is_shared(self) -> bool:
        """Whether its arm has jobs: then each has its own hosts and its own rows in results."""
        return bool(self.network.arm.jobs)

    @property
    def findings(self) -> Mapping[str, Finding]:
        """Settings that are still to be found, by job."""
        arm = self.network.arm
        wanted = {job.name: finding(job.scheme_text) for job in self.jobs if arm.schemes}
        if asked := order_finding.sought(arm):
            scale, (job,) = self.spec.workload.scale, self.jobs
            wanted[job.name] = order_finding.finding(arm, asked, job.world, job.gradient_bytes, scale)
        return {name: one for name, one in wanted.items() if one is not None}

    @property
    def is_probed_before(self) -> bool:
        """Whether its links are measured by other processes before its own start: processes of several jobs do not wait
        for each other, those of a program measure nothing, and what is found depends on links."""
        return self.is_shared or any(job.workload.program for job in self.jobs) or bool(self.findings or self.found)

    @property
    def synchronised(self) -> list[Job]:
        """Its jobs whose workers do what the spec says in full; none where its processes are a program's."""
        return [job for job in self.jobs if job.is_synchronised]

    @property
    def iterations(self) -> int:
        """Number of iterations of the job that has most."""
        return max(job.iterations for job in self.jobs)

    @property
    def spec(self) -> Spec:
        """The whole spec at this point."""
        return self.network.spec

    @property
    def topology(self) -> Topology:
        return self.network.topology

    @property
    def id(self) -> str:
        """Name of the trial that people can read, unique in its experiment, and a name for files."""
        made = self.name + (f"-r{self.repeat + 1}" if self.spec.most_repeats > 1 else "") + self.mark
        return self.kept_ids.get(self.repeat, made)

    @property
    def label(self) -> str:
        return self.network.arm.title

    @property
    def batch(self) -> int:
        """Batch size of its cell; 0 where the workload has none. Of several jobs, that of the first: the batches of
        jobs may differ only where the spec has one batch."""
        return self.jobs[0].batch

    @property
    def cell(self) -> Cell:
        """The cell that all its repeats have in common."""
        return Cell.of(self.label, self.batch, self.point, self.at)

    @cached_property
    def members(self) -> dict[str, Process]:
        """The processes of all jobs, each with its parts in them, by name."""
        return merged(job.members for job in self.jobs)

    @cached_property
    def processes(self) -> dict[str, int]:
        """The node of each process of all jobs, by the process's name."""
        return {name: process.node for name, process in self.members.items()}

    @cached_property
    def homes(self) -> dict[str, int]:
        """The node of each process, and of each part of a process in a job, by name."""
        return self.processes | {part: node for job in self.jobs for part, node in job.processes.items()}

    def role(self, process: str) -> str:
        """Say in a word what a process is for. One that is of no job, such as one that measures links, is a worker."""
        each = ((member, part) for member in self.members.values() for part in member.parts)
        return next((part.role for member, part in each if process in (member.name, part.name)), WORKER)

    @cached_property
    def ports(self) -> Ports:
        """The port of each connection between its processes."""
        return Ports(self.members, len(self.topology.nodes))

    @property
    def goes_on(self) -> bool:
        """Whether there is a job that goes on when a node dies."""
        return any(job.goes_on for job in self.jobs)

    @property
    def survives(self) -> frozenset[str]:
        """The processes without which the others of their job go on by themselves."""
        return frozenset[str]().union(*(job.survives for job in self.jobs))

    @property
    def returns(self) -> frozenset[str]:
        """The processes that are started again when they were killed."""
        return frozenset[str]().union(*(job.returns for job in self.jobs))

    def does_without(self, names: Collection[str]) -> bool:
        """Whether the trial goes on when these nodes and processes are killed."""
        reached = {one for name in names for one in targets.reached(self.topology, self.processes, name)}
        return self.goes_on or reached & self.processes.keys() <= self.survives | self.returns

    @property
    def jct_theory_s(self) -> float | None:
        """The least that all jobs can take (s), as their queue is planned; None where that of one is not known."""
        each = [(job.planned_s, job.jct_theory_s) for job in self.jobs]
        known_s = [start_s + one_s for start_s, one_s in each if one_s is not None]
        return max(known_s) if len(known_s) == len(each) else None

    def schedule(self, *, while_probed: bool = False) -> Schedule:
        """Return what is to happen in the lab, from its beginning; or while hosts probe each other before that."""
        return schedule_of(self.network.perturbations, self._context, while_probed=while_probed)

    @cached_property
    def background(self) -> list[tuple[int, int]]:
        """Pairs (source, sink) of each process that sends what competes with the trial's jobs."""
        return background_pairs(self.network.perturbations, self._context)

    @property
    def _context(self) -> Context:
        """Context of its first perturbation."""
        spec, links = self.spec, link_settings(self.spec)
        limits, seed = spec.place.limits, self.network.draws_seed
        return Context(self.topology, spec.workload.scale, links, limits, seed, self.processes)

    def strikes(self, jct_s: float | None) -> list[Strikes]:
        """Return what its perturbations leave to chance, and how often they strike; those of links within ``jct_s``
        seconds (none of them where that is not known)."""
        found: list[Strikes | None] = []
        for number, one in enumerate(self.network.perturbations):
            if COMPUTING in one.effects:
                found.append(of_computing(one, [job.struck(number) for job in self.synchronised]))
            elif jct_s is not None:
                found.append(of_links(one, replace(self._context, number=number), jct_s))
        return [each for each in found if each is not None]

    @cached_property
    def identity(self) -> str:
        """A digest of everything that this trial's result depends on."""
        return identity(self)
