"""Whether a trial that ran is one that is asked for now: a digest of everything that its result depends on.

What is of no concern is left out, and everything else counts, so that a key that is new counts, too, and a scheme's
forest counts as it reaches the workers, whatever it is made of.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from testbed.base.process_names import of_job
from testbed.lab import IN_EVERY_DIGEST
from testbed.spec.labs import LAB_OPTIONS

if TYPE_CHECKING:
    from testbed.trial.model import Trial

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
