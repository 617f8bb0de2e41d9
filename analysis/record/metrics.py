"""The numbers of one trial, or of one job of several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from testbed.analysis.record.fields import NotNegative, Part, told, unread
from testbed.files.shape import COUNT, EACH, NUMBER
from testbed.files.writing import number

WEIGHTS = "share of the weights' norm"
NORM = "norm of weights"


@dataclass(frozen=True)
class Metrics(Part):
    """None where a trial did not get so far, or a number does not apply."""

    bounds: ClassVar[Any] = {EACH: NUMBER}

    jct_s: float | None = told(
        "job completion time: from the first worker's first start to the last worker's last end; scripts: from the "
        "beginning of the first iteration, after `setup_s`",
        column=8,
    )
    compute_s: float | None = told(
        "of JCT, the time until the last worker had its gradient, over all iterations", column=9
    )
    sync_s: float | None = told("of JCT, the rest", column=10)
    straggler_wait_s: float | None = told(
        "mean time of an iteration that a worker waited from its own gradient to the last worker's", column=26
    )
    gst_median_s: float | None = told(
        "median GST: from the moment the last worker has its gradient to the moment the last one has the sum, over the "
        "iterations after the warm-up",
        column=11,
    )
    gst_uncertainty_s: float | None = told("by how much GST may be off where hosts have clocks of their own")
    gst_p95_s: float | None = told("95th percentile of GST over the same iterations", column=12)
    gst_p99_s: float | None = told("99th percentile of GST over the same iterations", column=13)
    gst_theory_s: float | None = told("least GST that the links allow for a whole gradient", column=14)
    gst_ratio: float | None = told(
        "median GST over the median of its lower bound: what was still to be sent; null if not known",
        "ratio",
        column=15,
    )
    iteration_median_s: float | None = told("median time of an iteration after the warm-up", column=32)
    iteration_p99_s: float | None = told("99th percentile of the time of an iteration after the warm-up", column=33)
    throughput_sps: float | None = told(
        "samples that were trained on, per second of JCT; LDA: shards that were sampled; scripts: samples that they "
        "told of in iterations",
        column=16,
    )
    exposed_s: float | None = told(
        "of an iteration of a script, the time that collectives held it: mean over the ranks, median over the "
        "iterations after the warm-up; null if it is not seen"
    )
    hidden_s: float | None = told("the same for the time that collectives were on their way and it did not wait")
    setup_s: float | None = told(
        "from the start of a script's first process to the beginning of its first iteration: imports, data, process "
        "group, and the copy of the weights; not part of JCT; scripts only, null in older records",
        column=44,
    )
    connect_s: float | None = told(
        "start-up of a script's first collective: from the last rank's call until its first chunk had come on all "
        "ranks; part of `setup_s`, but for what is longer than an iteration's computing; null with Gloo, where it is "
        "not seen",
        column=45,
    )
    wire_bytes: float | None = told(
        "bytes of gradients and chunk headers that all processes sent; null if not known", bound=COUNT, column=17
    )
    wire_bytes_theory: float | None = told(
        "what these are by the scheme's plan; sums that Gloo makes beside a scheme are in neither", "B"
    )
    algbw_bps: float | None = told(
        "algorithm bandwidth, as nccl-tests: size of the gradient over median GST; null where GST is not the time of "
        "the whole gradient: with overlap, with several sums in an iteration, and in asynchronous schemes"
    )
    busbw_bps: float | None = told(
        "bus bandwidth, as nccl-tests: algorithm bandwidth times 2(n-1)/n; null where that is"
    )
    staleness_median: float | None = told(
        "median of the updates that an update missed; asynchronous schemes only", "updates", column=27
    )
    staleness_p95: float | None = told("its 95th percentile", "updates", column=28)
    staleness_max: float | None = told("its maximum", "updates", column=29)
    gst_predicted_s: float | None = told(
        "median GST of the same scheduler on an ideal network whose rates change alike; not if links were blocked or "
        "carried other traffic; MLfabric only"
    )
    jct_predicted_s: float | None = told("its JCT")
    jct_bytes_s = unread(
        float, "where jobs share the network: what the busiest link takes for the bytes of all of them"
    )
    iteration_predicted_s: float | None = told(
        "predicted time of an iteration (TopoOpt, section 5.1); not if links were disturbed or servers slowed down; "
        "strategies only",
        column=41,
    )
    mp_wait_forward_s: float | None = told(
        "median over the iterations after the warm-up of the mean time for which a server had nothing to compute, "
        "because outputs of others' operators were missing; strategies only",
        column=42,
    )
    mp_wait_backward_s: float | None = told("the same for gradients of outputs", column=43)
    scheduler_median_s: float | None = told(
        "median time that the scheduler took to plan a batch of updates; MLfabric only"
    )
    scheduler_p99_s: float | None = told("its 99th percentile")
    divergence_max: NotNegative | None = told(
        "the most that the server's weights can have been away from the replica's (MLfabric, eq. 11); MLfabric with a "
        "replica only, as all below",
        NORM,
    )
    divergence_allowed: NotNegative | None = told("its bound; null where the bound is one of updates", NORM)
    divergence_breaches: NotNegative | None = told(
        "commits that went beyond that bound, as a single update may once the replica has all before it; null where "
        "the bound is one of updates",
        "commits",
    )
    replica_behind_max: float | None = told("by how many updates the replica was behind at most", "updates")
    replica_behind_allowed: float | None = told("the bound of that; null where it is one of the divergence", "updates")
    replica_bytes: float | None = told("bytes of updates and sums that it got")
    replica_error: NotNegative | None = told(
        "distance of its weights at the end from the server's, over their norm, as a few random sums tell it; 0 if "
        "they are equal",
        WEIGHTS,
    )
    takeover_behind: float | None = told(
        "that a server had applied when it was lost, and its replica had not when it took over", "updates"
    )
    takeover_lost: float | None = told("those of them that nobody has applied since", "updates")
    takeover_bound: NotNegative | None = told("how far apart that was at most: the sum of norms of eq. 11", WEIGHTS)

    @classmethod
    def current(cls, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """All numbers as floats.

        Raises:
            ValueError: one is not.
        """
        return {name: None if value is None else number(name, value) for name, value in raw.items()}
