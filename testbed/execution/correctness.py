"""Whether what a job computed is right: its sums, its losses, and the weights that it ended with."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from testbed.analysis.metrics import ends_s
from testbed.base.errors import TrialError
from testbed.evidence import sum_check
from testbed.evidence.referee import REFERENCE, ROUNDED, Referee, read_weights
from testbed.files.foreign import UnfitError
from testbed.recovery.deaths import Course
from testbed.trial import job_files
from testbed.trial.files import Files
from testbed.trial.job import Job
from testbed.workloads.kinds.base import Told

Lines = Sequence[Mapping[str, Any]]


def accuracy(job: Job, course: Course, done: Lines, told: Told, referee: Referee, files: Files) -> dict[str, Any]:
    """Test accuracy, and how far the weights are from those of the reference and from each other."""
    training, each = job_files.training(job, files), course.phases
    scales = [phase.job.kind.arithmetic.scale(phase.job.plan) for phase in each]
    worlds = [(phase.first, phase.job.world) for phase in each]
    known = each[-1].job
    before = {known.workers[rank] for rank in told.ended_before}
    alive = [name for name in known.workers if known.processes[name] not in course.dead and name not in before]
    weights = whole(known, files, (alive or known.workers)[0])
    found = referee.check(training, worlds, job.compute.mode, weights, scales, told.order)
    rounded = min((scale for scale in scales if scale is not None), default=None)
    named = REFERENCE if rounded is None else ROUNDED.format(1 / rounded)
    return {
        "reference": named,
        **found,
        "curve_s": _reached_s(found["curve"], told.samples),
        "weights_equal": known.held is not None or are_equal(done, before),
        "takeover_allowed": told.most_apart,
        **({"reference": reference} if (reference := job.kind.wording.reference) else {}),
    }


def are_equal(done: Lines, before: Collection[str]) -> bool:
    """Whether all workers that tell of their weights have the same. Those that have a lost server's weights, which
    ``before`` names, are compared among themselves."""
    told = [(line["name"] in before, line["weights_sha256"]) for line in done if line.get("weights_sha256")]
    return bool(told) and len({*told}) == len({group for group, _ in told})


def _reached_s(curve: Sequence[Sequence[float]] | None, samples: pd.DataFrame) -> list[float] | None:
    """Return when the last worker had ended each iteration of a curve, in seconds from the trial's start; None if one
    of these moments is not known."""
    if curve is None:
        return None
    at_s = ends_s(samples).reindex([int(iteration) for iteration, _ in curve])
    return None if at_s.isna().any() else at_s.tolist()


def added(job: Job, course: Course, done: Lines) -> sum_check.Checked:
    """Check the sums of a job that trained."""
    return sum_check.checked(done, course.phases, job.floats, job.chunk_bytes)


def expected_sums(job: Job, course: Course) -> int:
    """Return how many sums of a job that trained can be checked at least; 0 of one in which nodes died, where only some
    can."""
    if course.deaths:
        return 0
    return 1 if job.compute.mode == "none" else job.iterations


def sums(job: Job, done: Lines) -> dict[str, int]:
    """Count the elements of sums that all workers together looked at, and those that were wrong."""
    wrong = sum(count for line in done for _, count in line.get("wrong", ()))
    checked = job.floats * sum(line["checked"] for line in done if "checked" in line)
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
    """Put None in place of numbers that are not finite, which JSON cannot say."""
    return {key: None if isinstance(one, float) and not math.isfinite(one) else one for key, one in found.items()}


def check_loss(samples: pd.DataFrame, ranks: Collection[int]) -> None:
    """Check that losses are finite numbers; ``ranks`` are those that compute one.

    Raises:
        TrialError: training diverged, so that neither losses nor weights are numbers.
    """
    lost = samples.loc[~np.isfinite(samples["loss"]) & samples["rank"].isin(ranks), "iteration"]
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
    apart, most, rounded = (found.get(f"takeover_{name}") for name in ("apart", "allowed", "rounded"))
    if apart is not None and most is not None and not apart <= most + rounded:
        raise TrialError(
            f"when the server was lost, its weights were {apart:.3g} away from the replica's; the updates that the "
            f"replica lacked explain {most:.3g}, and roundings {rounded:.3g}",
            fix="report it: the protocol is broken",
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


def whole(job: Job, files: Files, keeper: str) -> Path:
    """Return the file with all weights: the ``keeper``'s, unless each worker has a part of them only.

    Raises:
        TrialError: a worker's file holds something else than its part, or workers that hold the same part differ.
    """
    if (model := job.kind.model_parallel) is None:
        return files.weights(keeper)
    found = []
    for worker, count in zip(job.workers, model.held(job.plan), strict=True):
        try:
            found.append(read_weights(files.weights(worker), count))
        except UnfitError as error:
            raise TrialError(
                f"the weights of {worker}: {error}", fix=f"see what {files.called(worker)} did to its file"
            ) from error
    path = files.collected(job.name)
    np.save(path, model.collected(job.plan, found))
    return path
