"""How good the trained weights of a trial are, and whether its sums are right."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.analysis.numbers.goal import Quality, quality
from testbed.analysis.record.fields import SHARE, NotNegative, Part, optional, unread
from testbed.analysis.record.metrics import WEIGHTS
from testbed.files.shape import COUNT, NUMBER, Kind

_POINT = Kind(
    "pair of an iteration and its accuracy or likelihood",
    lambda value: isinstance(value, list) and len(value) == 2 and COUNT.has(value[0]) and NUMBER.has(value[1]),
)
MOST_EXPLAINED = 1e-4
"""A share of the weights' norm; weights that are further from the reference's may be any."""


@dataclass(frozen=True)
class Sums(Part):
    """How many sums, or elements of a profile's sums, were looked at, and what was found; None in older records."""

    checked_sums: int | None = optional("sums of gradients that were compared with their terms", "sums")
    sums_error = unread(NotNegative, "largest difference of such a sum to its terms, over their norms", SHARE)
    sums_allowed = unread(NotNegative, "the most that rounding explains", SHARE)
    checked_elements: int | None = optional("elements of a profile's sums that were looked at", "elements")
    wrong_elements: int | None = optional("those of them that were wrong", "elements", column=25)


@dataclass(frozen=True)
class Accuracy(Sums):
    """How good the trained weights are, and how far they and the sums are from what they should be. In a record, the
    sums are an object of their own."""

    test_accuracy: NotNegative | None = optional(
        "share of the test set that the trained weights classify right", SHARE, column=18
    )
    test_loss: NotNegative | None = optional("cross-entropy of the trained weights on the test set", "nats")
    log_likelihood: float | None = optional(
        "mean log-likelihood of a token of the held-out documents, given half of their tokens; LDA only", "nats"
    )
    told_accuracy: float | None = optional("last accuracy that a script told, in its own unit", column=46)
    weights_error: NotNegative | None = optional(
        "distance of the weights to the reference's, over the latter's norm", WEIGHTS, column=19
    )
    weights_equal: bool | None = optional("whether all workers ended with the same weights")
    training_error: NotNegative | None = optional("the same distance, as a share of what training changed", SHARE)
    training_allowed = unread(NotNegative, "how much of that rounding explains", SHARE)
    rounding_error: NotNegative | None = optional(
        "in records made before fixed point had a limit: how far from the reference's it was allowed to lead", WEIGHTS
    )
    coarseness = unread(NotNegative, "norm of what fixed point changed in all sums, over theirs; 0 for floats", SHARE)
    coarsest = unread(NotNegative, "the most that this may be", SHARE)
    scale_needed = unread(float, "the least power of ten as a scale of fixed point that keeps it well below", "ratio")
    takeover_apart: NotNegative | None = optional(
        "distance of a lost server's weights from its replica's when that took over, as repeated; null where none did",
        WEIGHTS,
    )
    takeover_allowed: NotNegative | None = optional(
        "how much of that the updates explain that the replica lacked", WEIGHTS
    )
    takeover_rounded: NotNegative | None = optional("how much of it roundings explain", WEIGHTS)
    reference: str | None = optional("what repeated the training")
    curve: list[list[float]] | None = optional(
        "after an iteration, the accuracy of the reference on the test set, the log-likelihood, or what a script told",
        "iteration, share or nats",
        bound=[_POINT],
    )
    curve_of: str | None = optional("which of them: `test_accuracy`, `log_likelihood` or `told_accuracy`")
    curve_s = unread(
        list[float], "when the last worker had ended each of these iterations, from the trial's start", is_checked=True
    )

    @property
    def quality(self) -> Quality:
        """The number that tells how good the weights are."""
        return quality(self.curve_of)

    @property
    def apart(self) -> bool:
        """The weights are not the reference's: rounding led too far for that."""
        led_away = self.training_error is not None and self.curve is None
        return led_away or (self.rounding_error or 0.0) > MOST_EXPLAINED

    @property
    def own_curve(self) -> list[list[float]] | None:
        """The curve, if it is the trial's: older records have one whatever fixed point had made of the weights."""
        return self.curve if (self.weights_equal or self.quality.is_told) and not self.apart else None
