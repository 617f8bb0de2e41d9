"""The numbers of one trial, or of one job of several: its metrics, and how good its weights and sums are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from testbed.analysis.numbers.goal import Quality, quality
from testbed.analysis.record.fields import SHARE, NotNegative, Part, optional, unread
from testbed.files.shape import COUNT, EACH, NUMBER, Kind
from testbed.files.writing import number

WEIGHTS = "share of the weights' norm"
NORM = "norm of weights"


@dataclass(frozen=True)
class Metrics(Part):
    """Metrics of a trial; None where it did not get so far, or a number does not apply."""

    bounds: ClassVar[Any] = {EACH: NUMBER}

    jct_s: float | None = optional(
        "job completion time: from the first worker's first start to the last worker's last end; scripts: from the "
        "beginning of the first iteration, after `setup_s`",
        column=8,
    )
    compute_s: float | None = optional(
        "of JCT, the time until the last worker had its gradient, over all iterations", column=9
    )
    sync_s: float | None = optional("of JCT, the rest", column=10)
    straggler_wait_s: float | None = optional(
        "mean time of an iteration that a worker waited from its own gradient to the last worker's", column=26
    )
    gst_median_s: float | None = optional(
        "median GST: from the moment the last worker has its gradient to the moment the last one has the sum, over the "
        "iterations after the warm-up",
        column=11,
    )
    gst_uncertainty_s: float | None = optional("by how much GST may be off where hosts have clocks of their own")
    gst_p95_s: float | None = optional("95th percentile of GST over the same iterations", column=12)
    gst_p99_s: float | None = optional("99th percentile of GST over the same iterations", column=13)
    gst_theory_s: float | None = optional("least GST that the links allow for a whole gradient", column=14)
    gst_ratio: float | None = optional(
        "median GST over the median of its lower bound: what was still to be sent; null if not known",
        "ratio",
        column=15,
    )
    iteration_median_s: float | None = optional("median time of an iteration after the warm-up", column=32)
    iteration_p99_s: float | None = optional("99th percentile of the time of an iteration after the warm-up", column=33)
    throughput_sps: float | None = optional(
        "samples that were trained on, per second of JCT; LDA: shards that were sampled; scripts: samples that they "
        "told of in iterations",
        column=16,
    )
    exposed_s: float | None = optional(
        "of an iteration of a script, the time that collectives held it: mean over the ranks, median over the "
        "iterations after the warm-up; null if it is not seen"
    )
    hidden_s: float | None = optional("the same for the time that collectives were on their way and it did not wait")
    setup_s: float | None = optional(
        "from the start of a script's first process to the beginning of its first iteration: imports, data, process "
        "group, and the copy of the weights; not part of JCT; scripts only, null in older records",
        column=44,
    )
    connect_s: float | None = optional(
        "start-up of a script's first collective: from the last rank's call until its first chunk had come on all "
        "ranks; part of `setup_s`, but for what is longer than an iteration's computing; null with Gloo, where it is "
        "not seen",
        column=45,
    )
    wire_bytes: float | None = optional(
        "bytes of gradients and chunk headers that all processes sent; null if not known", bound=COUNT, column=17
    )
    wire_bytes_theory: float | None = optional(
        "what these are by the scheme's plan; sums that Gloo makes beside a scheme are in neither", "B"
    )
    algbw_bps: float | None = optional(
        "algorithm bandwidth, as nccl-tests: size of the gradient over median GST; null where GST is not the time of "
        "the whole gradient: with overlap, with several sums in an iteration, and in asynchronous schemes"
    )
    busbw_bps: float | None = optional(
        "bus bandwidth, as nccl-tests: algorithm bandwidth times 2(n-1)/n; null where that is"
    )
    staleness_median: float | None = optional(
        "median of the updates that an update missed; asynchronous schemes only", "updates", column=27
    )
    staleness_p95: float | None = optional("its 95th percentile", "updates", column=28)
    staleness_max: float | None = optional("its maximum", "updates", column=29)
    gst_predicted_s: float | None = optional(
        "median GST of the same scheduler on an ideal network whose rates change alike; not if links were blocked or "
        "carried other traffic; MLfabric only"
    )
    jct_predicted_s: float | None = optional("its JCT")
    jct_bytes_s = unread(
        float, "where jobs share the network: what the busiest link takes for the bytes of all of them"
    )
    iteration_predicted_s: float | None = optional(
        "predicted time of an iteration (TopoOpt, section 5.1); not if links were disturbed or servers slowed down; "
        "strategies only",
        column=41,
    )
    mp_wait_forward_s: float | None = optional(
        "median over the iterations after the warm-up of the mean time for which a server had nothing to compute, "
        "because outputs of others' operators were missing; strategies only",
        column=42,
    )
    mp_wait_backward_s: float | None = optional("the same for gradients of outputs", column=43)
    scheduler_median_s: float | None = optional(
        "median time that the scheduler took to plan a batch of updates; MLfabric only"
    )
    scheduler_p99_s: float | None = optional("its 99th percentile")
    divergence_max: NotNegative | None = optional(
        "the most that the server's weights can have been away from the replica's (MLfabric, eq. 11); MLfabric with a "
        "replica only, as all below",
        NORM,
    )
    divergence_allowed: NotNegative | None = optional("its bound; null where the bound is one of updates", NORM)
    divergence_breaches: NotNegative | None = optional(
        "commits that went beyond that bound, as a single update may once the replica has all before it; null where "
        "the bound is one of updates",
        "commits",
    )
    replica_behind_max: float | None = optional("by how many updates the replica was behind at most", "updates")
    replica_behind_allowed: float | None = optional(
        "the bound of that; null where it is one of the divergence", "updates"
    )
    replica_bytes: float | None = optional("bytes of updates and sums that it got")
    replica_error: NotNegative | None = optional(
        "distance of its weights at the end from the server's, over their norm, as a few random sums tell it; 0 if "
        "they are equal",
        WEIGHTS,
    )
    takeover_behind: float | None = optional(
        "that a server had applied when it was lost, and its replica had not when it took over", "updates"
    )
    takeover_lost: float | None = optional("those of them that nobody has applied since", "updates")
    takeover_bound: NotNegative | None = optional("how far apart that was at most: the sum of norms of eq. 11", WEIGHTS)

    @classmethod
    def current(cls, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """All numbers as floats.

        Raises:
            ValueError: one is not.
        """
        return {name: None if value is None else number(name, value) for name, value in raw.items()}


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
