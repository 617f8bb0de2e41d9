"""Time to a goal: when each training had reached what all of them reached, in accuracy or in what else tells how good
its weights are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Curve: TypeAlias = Sequence[tuple[float, float]]
"""(time in s, quality) after each iteration that was tested; not empty."""


@dataclass(frozen=True)
class Quality:
    """A number that says how good weights are: more is better.

    Attributes:
        metric: its name in a trial's record, under ``accuracy``.
        noun: what people call it.
        form: how it is written.
        defined: what it is, in a sentence.
        loss: what the training loss is, where this is the quality.
        is_told: whether a script tells it, so that nothing is known of its weights.
    """

    metric: str
    noun: str
    form: str
    defined: str
    loss: str
    is_told: bool = False

    def text(self, value: float) -> str:
        return format(value, self.form)


ACCURACY = Quality(
    "test_accuracy",
    "accuracy",
    ".1%",
    "Accuracy is the share of the test set that the weights after an iteration classify right. A single process found "
    "these weights: plain SGD over the same global batches, with gradients rounded as the arm's scheme rounds them.",
    "training loss (cross-entropy) of an iteration's batch",
)
LIKELIHOOD = Quality(
    "log_likelihood",
    "likelihood",
    ".4f",
    "Likelihood is the mean log-likelihood (nats) of a token of the held-out documents, given half of their tokens and "
    "the topics after an iteration. A single process found these topics: it sampled all shards from the same seeds.",
    "training loss of a worker's shard, minus the mean log-likelihood of a token given the topics of all others",
)
TOLD = Quality(
    "told_accuracy",
    "accuracy",
    ".4g",
    "Accuracy is what the script tells of itself, in its own unit, the mean over the ranks that tell one.",
    "training loss as the script tells it, the mean over the ranks that tell one",
    is_told=True,
)
QUALITIES: Mapping[str, Quality] = {one.metric: one for one in (ACCURACY, LIKELIHOOD, TOLD)}
"""Qualities by the name of the metric, which ``curve_of`` of a record gives; older records have curves of accuracy
alone."""


def quality(curve_of: str | None) -> Quality:
    """Return the quality that a record's curve is of."""
    return QUALITIES.get(curve_of or "", ACCURACY)


def goal(curves: Iterable[Curve]) -> float | None:
    """The best quality that all of them reached; None without any."""
    return min((max(value for _, value in curve) for curve in curves), default=None)


def reached_s(curve: Curve, wanted: float) -> float:
    """Return the time (s) at which ``curve`` was first as good as ``wanted``, which it reaches."""
    return next(time_s for time_s, known in curve if known >= wanted)
