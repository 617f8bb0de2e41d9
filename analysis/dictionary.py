"""What every field of a trial's JSON, and every column of its samples and of results.csv, means, and in which unit.

``docs/generate/dictionary.py`` makes a page of it. Tests hold the records of real trials against it with
:func:`faults`, so a field cannot be written without a definition. Readers of runs, whose files others may have written,
use the looser :mod:`testbed.analysis.schema`.

Paths are those of JSON: ``links[].bytes`` is a key of each entry of a list, ``*`` stands for any key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from testbed.analysis.verdicts import CALLED, NUMBERS
from testbed.files.shape import COUNT, NAME, NOT_NEGATIVE, NUMBER, PLAIN, TEXT, TRUTH, Kind
from testbed.workloads.kinds.transfers import Purpose

NO_UNIT = ""
SHARE = "share"
WEIGHTS = f"{SHARE} of the weights' norm"


@dataclass(frozen=True)
class Field:
    """One field: the kind of its value where it has one (any may be null), its unit, and its definition."""

    kind: Kind
    unit: str
    meaning: str


def _below(path: str, fields: Mapping[str, Field]) -> dict[str, Field]:
    return {f"{path}{name}": field for name, field in fields.items()}


METRICS: Mapping[str, Field] = {
    "jct_s": Field(
        NUMBER,
        "s",
        "job completion time: from the first worker's first start to the last worker's last end; scripts: from the "
        "beginning of the first iteration, after `setup_s`",
    ),
    "compute_s": Field(NUMBER, "s", "of JCT, the time until the last worker had its gradient, over all iterations"),
    "sync_s": Field(NUMBER, "s", "of JCT, the rest"),
    "straggler_wait_s": Field(
        NUMBER, "s", "mean time of an iteration that a worker waited from its own gradient to the last worker's"
    ),
    "gst_median_s": Field(
        NUMBER,
        "s",
        "median GST: from the moment the last worker has its gradient to the moment the last one has the sum, over the "
        "iterations after the warm-up",
    ),
    "gst_p95_s": Field(NUMBER, "s", "95th percentile of GST over the same iterations"),
    "gst_p99_s": Field(NUMBER, "s", "99th percentile of GST over the same iterations"),
    "gst_theory_s": Field(NUMBER, "s", "least GST that the links allow for a whole gradient"),
    "gst_ratio": Field(
        NUMBER, "ratio", "median GST over the median of its lower bound: what was still to be sent; null if not known"
    ),
    "gst_uncertainty_s": Field(NUMBER, "s", "by how much GST may be off where hosts have clocks of their own"),
    "iteration_median_s": Field(NUMBER, "s", "median time of an iteration after the warm-up"),
    "iteration_p99_s": Field(NUMBER, "s", "99th percentile of the time of an iteration after the warm-up"),
    "throughput_sps": Field(
        NUMBER,
        "samples/s",
        "samples that were trained on, per second of JCT; LDA: shards that were sampled; scripts: samples that they "
        "told of in iterations",
    ),
    "exposed_s": Field(
        NUMBER,
        "s",
        "of an iteration of a script, the time that collectives held it: mean over the ranks, median over the "
        "iterations after the warm-up; null if it is not seen",
    ),
    "hidden_s": Field(NUMBER, "s", "the same for the time that collectives were on their way and it did not wait"),
    "setup_s": Field(
        NUMBER,
        "s",
        "from the start of a script's first process to the beginning of its first iteration: imports, data, process "
        "group, and the copy of the weights; not part of JCT; scripts only, null in older records",
    ),
    "connect_s": Field(
        NUMBER,
        "s",
        "start-up of a script's first collective: from the last rank's call until its first chunk had come on all "
        "ranks; part of `setup_s`, but for what is longer than an iteration's computing; null with Gloo, where it is "
        "not seen",
    ),
    "wire_bytes": Field(COUNT, "B", "bytes of gradients and chunk headers that all processes sent; null if not known"),
    "wire_bytes_theory": Field(
        NUMBER, "B", "what these are by the scheme's plan; sums that Gloo makes beside a scheme are in neither"
    ),
    "algbw_bps": Field(
        NUMBER,
        "bit/s",
        "algorithm bandwidth, as nccl-tests: size of the gradient over median GST; null where GST is not the time of "
        "the whole gradient: with overlap, with several sums in an iteration, and in asynchronous schemes",
    ),
    "busbw_bps": Field(
        NUMBER, "bit/s", "bus bandwidth, as nccl-tests: algorithm bandwidth times 2(n-1)/n; null where that is"
    ),
    "staleness_median": Field(
        NUMBER, "updates", "median of the updates that an update missed; asynchronous schemes only"
    ),
    "staleness_p95": Field(NUMBER, "updates", "its 95th percentile"),
    "staleness_max": Field(NUMBER, "updates", "its maximum"),
    "gst_predicted_s": Field(
        NUMBER,
        "s",
        "median GST of the same scheduler on an ideal network whose rates change alike; not if links were blocked or "
        "carried other traffic; MLfabric only",
    ),
    "jct_predicted_s": Field(NUMBER, "s", "its JCT"),
    "jct_bytes_s": Field(
        NUMBER, "s", "where jobs share the network: what the busiest link takes for the bytes of all of them"
    ),
    "iteration_predicted_s": Field(
        NUMBER,
        "s",
        "predicted time of an iteration (TopoOpt, section 5.1); not if links were disturbed or servers slowed down; "
        "strategies only",
    ),
    "mp_wait_forward_s": Field(
        NUMBER,
        "s",
        "median over the iterations after the warm-up of the mean time for which a server had nothing to compute, "
        "because outputs of others' operators were missing; strategies only",
    ),
    "mp_wait_backward_s": Field(NUMBER, "s", "the same for gradients of outputs"),
    "scheduler_median_s": Field(
        NUMBER, "s", "median time that the scheduler took to plan a batch of updates; MLfabric only"
    ),
    "scheduler_p99_s": Field(NUMBER, "s", "its 99th percentile"),
    "divergence_max": Field(
        NOT_NEGATIVE,
        "norm of weights",
        "the most that the server's weights can have been away from the replica's (MLfabric, eq. 11); MLfabric with a "
        "replica only, as all below",
    ),
    "divergence_allowed": Field(NOT_NEGATIVE, "norm of weights", "its bound; null where the bound is one of updates"),
    "divergence_breaches": Field(
        NOT_NEGATIVE,
        "commits",
        "commits that went beyond that bound, as a single update may once the replica has all before it; null where "
        "the bound is one of updates",
    ),
    "replica_behind_max": Field(NUMBER, "updates", "by how many updates the replica was behind at most"),
    "replica_behind_allowed": Field(NUMBER, "updates", "the bound of that; null where it is one of the divergence"),
    "replica_bytes": Field(NUMBER, "B", "bytes of updates and sums that it got"),
    "replica_error": Field(
        NOT_NEGATIVE,
        WEIGHTS,
        "distance of its weights at the end from the server's, over their norm, as a few random sums tell it; 0 if "
        "they are equal",
    ),
    "takeover_behind": Field(
        NUMBER, "updates", "that a server had applied when it was lost, and its replica had not when it took over"
    ),
    "takeover_lost": Field(NUMBER, "updates", "those of them that nobody has applied since"),
    "takeover_bound": Field(NOT_NEGATIVE, WEIGHTS, "how far apart that was at most: the sum of norms of eq. 11"),
}
_ACCURACY: Mapping[str, Field] = {
    "test_accuracy": Field(NOT_NEGATIVE, SHARE, "share of the test set that the trained weights classify right"),
    "test_loss": Field(NOT_NEGATIVE, "nats", "cross-entropy of the trained weights on the test set"),
    "log_likelihood": Field(
        NUMBER, "nats", "mean log-likelihood of a token of the held-out documents, given half of their tokens; LDA only"
    ),
    "weights_error": Field(NOT_NEGATIVE, WEIGHTS, "distance of the weights to the reference's, over the latter's norm"),
    "weights_equal": Field(TRUTH, NO_UNIT, "whether all workers ended with the same weights"),
    "training_error": Field(NOT_NEGATIVE, SHARE, "the same distance, as a share of what training changed"),
    "training_allowed": Field(NOT_NEGATIVE, SHARE, "how much of that rounding explains"),
    "coarseness": Field(NOT_NEGATIVE, SHARE, "norm of what fixed point changed in all sums, over theirs; 0 for floats"),
    "coarsest": Field(NOT_NEGATIVE, SHARE, "the most that this may be"),
    "scale_needed": Field(NUMBER, "ratio", "the least power of ten as a scale of fixed point that keeps it well below"),
    "takeover_apart": Field(
        NOT_NEGATIVE,
        WEIGHTS,
        "distance of a lost server's weights from its replica's when that took over, as repeated; null where none did",
    ),
    "takeover_allowed": Field(NOT_NEGATIVE, WEIGHTS, "how much of that the updates explain that the replica lacked"),
    "takeover_rounded": Field(NOT_NEGATIVE, WEIGHTS, "how much of it roundings explain"),
    "reference": Field(NAME, NO_UNIT, "what repeated the training"),
    "curve[][]": Field(
        NUMBER,
        "iteration, share or nats",
        "after an iteration, the accuracy of the reference on the test set, or the log-likelihood",
    ),
    "curve_of": Field(NAME, NO_UNIT, "which of the two: `test_accuracy` or `log_likelihood`"),
    "curve_s[]": Field(NUMBER, "s", "when the last worker had ended each of these iterations, from the trial's start"),
}
_SUMS: Mapping[str, Field] = {
    "checked_sums": Field(COUNT, "sums", "sums of gradients that were compared with their terms"),
    "sums_error": Field(NOT_NEGATIVE, SHARE, "largest difference of such a sum to its terms, over their norms"),
    "sums_allowed": Field(NOT_NEGATIVE, SHARE, "the most that rounding explains"),
    "checked_elements": Field(COUNT, "elements", "elements of a profile's sums that were looked at"),
    "wrong_elements": Field(COUNT, "elements", "those of them that were wrong"),
}
_CHECK: Mapping[str, Field] = {
    "name": Field(NAME, NO_UNIT, "name of the check"),
    "ok": Field(TRUTH, NO_UNIT, "whether it did not fail: see `watched`"),
    "value": Field(NUMBER, "see `unit`", "what was measured"),
    "limit": Field(NUMBER, "see `unit`", "the most (or least) that passes"),
    "unit": Field(NAME, NO_UNIT, "unit of value and limit"),
    "detail": Field(TEXT, NO_UNIT, "the finding in words"),
    "asked": Field(TRUTH, NO_UNIT, "whether the spec asks for it, so that it is told and not judged"),
    "threatens[]": Field(NAME, NO_UNIT, "the numbers that it makes INVALID if it fails"),
    "machine": Field(TRUTH, NO_UNIT, "whether it is about the machine: then a certified number stays VALID"),
    "needed": Field(TRUTH, NO_UNIT, "whether a number that it threatens is UNWATCHED without it, unless certified"),
    "watched": Field(TRUTH, NO_UNIT, "false if the check was not made; `detail` then says why"),
}
_NUMBER: Mapping[str, Field] = {
    "verdict": Field(
        NAME, NO_UNIT, "`VALID`, `INVALID`, or `UNWATCHED`: nothing failed, but nobody watched the processes"
    ),
    "error": Field(NUMBER, SHARE, "by how much the number can be off at most; null if not known"),
    "bound_s": Field(NUMBER, "s", "the lower bound that this is from"),
    "certified": Field(
        TRUTH, NO_UNIT, "whether the bound is so near that the machine cannot have changed the number much"
    ),
    "from": Field(NAME, "ISO 8601", "when the attempt began that it is from, if not the one that the samples are of"),
    "spoilt_by[]": Field(NAME, NO_UNIT, "checks that make it INVALID"),
    "excused[]": Field(NAME, NO_UNIT, "failed checks of the machine that do not count against it"),
    "unwatched[]": Field(NAME, NO_UNIT, "checks that it needs and that were not made"),
}
_LINK: Mapping[str, Field] = {
    "link": Field(COUNT, NO_UNIT, "number of the directed link: 2 i and 2 i + 1 are the two directions of cable i"),
    "from": Field(NAME, NO_UNIT, "node that sends on it"),
    "to": Field(NAME, NO_UNIT, "node that receives"),
    "rate_bps": Field(NOT_NEGATIVE, "bit/s", "its rate"),
    "bytes": Field(COUNT, "B", "counted by the kernel at its egress while the trial trained, headers included"),
    "other_bytes": Field(COUNT, "B", "bursts and background flows, which `bytes` does not have"),
    "drops": Field(COUNT, "packets", "dropped at its egress"),
    "theory_bytes": Field(NOT_NEGATIVE, "B", "what the scheme's plan says for `bytes`"),
    "extra_bytes": Field(COUNT, "B", "what TCP may have added: acknowledgements, and what it sent again"),
}
_COLLECTIVE: Mapping[str, Field] = {
    "op": Field(NAME, NO_UNIT, "kind of collective that a script asked for, such as `allreduce`"),
    "dtype": Field(NAME, NO_UNIT, "type of its numbers"),
    "bytes": Field(COUNT, "B", "size of the whole array"),
    "by": Field(
        NAME,
        NO_UNIT,
        "what moved it: `scheme`, `ring` where the scheme cannot, `gloo`, or `direct` from rank to rank",
    ),
    "ranks": Field(COUNT, "ranks", "number of ranks in its group"),
    "count": Field(COUNT, NO_UNIT, "how many of them there were"),
    "median_s": Field(NUMBER, "s", "median time from the last rank that asked for it to the last rank that had it"),
    "waited_s": Field(
        NUMBER, "s", "mean time that it held a rank: the call itself, and the wait; null if that is not seen"
    ),
    "algbw_bps": Field(NUMBER, "bit/s", "size over median time; null without bytes"),
    "busbw_bps": Field(NUMBER, "bit/s", "the same times the factor that nccl-tests has for its kind"),
    "least_s": Field(NUMBER, "s", "time that its busiest link takes for its bytes; null if not known"),
}
_PAIR: Mapping[str, Field] = {
    "from": Field(NAME, NO_UNIT, "server that sent"),
    "to": Field(NAME, NO_UNIT, "server that received"),
    "bytes": Field(COUNT, "B", "counted by the sender in the whole trial, without headers"),
    "theory_bytes": Field(COUNT, "B", "what the strategy's plan says for `bytes`"),
    "mp_bytes": Field(COUNT, "B", "of these, outputs of operators and gradients of outputs"),
}
_STAGE: Mapping[str, Field] = {
    "what": Field(TEXT, NO_UNIT, "pass, transfer or AllReduce of an operator, and how many more there follow it"),
    "where": Field(NAME, NO_UNIT, "server, or directed link by its ends"),
    "start_s": Field(NUMBER, "s", "begin in the predicted iteration"),
    "end_s": Field(NUMBER, "s", "end in the predicted iteration"),
}
_EVENT: Mapping[str, Field] = {
    "kind": Field(TEXT, NO_UNIT, "kind of perturbation"),
    "what": Field(TEXT, NO_UNIT, "what was done, in words"),
    "planned_s": Field(NUMBER, "s", "when it was to happen, from the trial's start"),
    "free_s": Field(NUMBER, "s", "from when on it could begin, if that was later"),
    "begun_s": Field(NUMBER, "s", "when it began"),
    "done_s": Field(NUMBER, "s", "when it was in effect"),
    "takes_s": Field(NUMBER, "s", "how long it was meant to take"),
    "error": Field(TEXT, NO_UNIT, "why it failed"),
    "links.rate_bps.*": Field(NUMBER, "bit/s", "by directed link, the rate that it was given"),
    "links.blocked.*": Field(TRUTH, NO_UNIT, "by directed link, whether it was blocked"),
}
_STRIKES: Mapping[str, Field] = {
    "perturbation": Field(TEXT, NO_UNIT, "name of a perturbation that strikes by chance"),
    "struck": Field(COUNT, NO_UNIT, "how many of its chances it took"),
    "chances": Field(COUNT, NO_UNIT, "how many it had"),
    "of": Field(TEXT, NO_UNIT, "what a chance is: an iteration of a worker, or a draw of a link's rate"),
}
_FAILOVER: Mapping[str, Field] = {
    "deaths[].name": Field(NAME, NO_UNIT, "process that died"),
    "deaths[].how": Field(TEXT, NO_UNIT, "how it died"),
    "deaths[].at_s": Field(NUMBER, "s", "when it died, from the trial's start"),
    "losses[].node": Field(NAME, NO_UNIT, "node without whose processes the others went on by themselves"),
    "losses[].processes[]": Field(NAME, NO_UNIT, "processes that ended there"),
    "losses[].roles[]": Field(NAME, NO_UNIT, "what those of them were for that were lost first, such as `server`"),
    "losses[].how": Field(TEXT, NO_UNIT, "how they ended"),
    "losses[].hit_s": Field(NUMBER, "s", "when something was done to it, from the trial's start; else when it ended"),
    "losses[].noticed_s": Field(NUMBER, "s", "when the others noticed"),
    "losses[].recovered_s": Field(NUMBER, "s", "from then to the next change of the weights"),
    "losses[].lost_updates[][]": Field(
        COUNT,
        NO_UNIT,
        "updates that were lost with a server, whether it was started again or its replica took over: rank, iteration",
    ),
    "recoveries[].without[]": Field(NAME, NO_UNIT, "processes that had died"),
    "recoveries[].first": Field(COUNT, NO_UNIT, "iteration with which the others went on"),
    "recoveries[].world": Field(COUNT, "workers", "how many went on"),
    "recoveries[].scheme": Field(NAME, NO_UNIT, "by which scheme"),
    "recoveries[].behind[]": Field(NAME, NO_UNIT, "nodes that took over the weights of others"),
    "recoveries[].called_s": Field(NUMBER, "s", "when the deaths were noticed, from the trial's start"),
    "recoveries[].sent_on_s": Field(NUMBER, "s", "when the others were told to go on"),
    "recoveries[].recovered_s": Field(NUMBER, "s", "from the first death to the end of the next iteration"),
    "phases[].first": Field(COUNT, NO_UNIT, "first iteration between two deaths"),
    "phases[].stop": Field(COUNT, NO_UNIT, "iteration after the last one"),
    "phases[].world": Field(COUNT, "workers", "how many there were"),
    "phases[].scheme": Field(NAME, NO_UNIT, "by which scheme they synchronised"),
    **{f"phases[].{name}": METRICS[name] for name in ("gst_median_s", "gst_theory_s", "throughput_sps")},
}
_WAITED: Mapping[str, Field] = {
    "waited_s": Field(NUMBER, "s", "how long the trial waited for other programs to leave the cores"),
    "calm": Field(TRUTH, NO_UNIT, "whether they did"),
    "busy": Field(NUMBER, SHARE, "of the cores' time, what others took at worst"),
    "stolen": Field(NUMBER, SHARE, "of the cores' time, what the host took at worst"),
}
JOB: Mapping[str, Field] = {
    "job": Field(
        NAME,
        NO_UNIT,
        "name of a job that shares the network with others; its other fields, such as `jobs[].metrics.jct_s`, are "
        "those of a trial that has the job alone",
    ),
    "hosts[]": Field(NAME, NO_UNIT, "its hosts"),
    "after[]": Field(NAME, NO_UNIT, "the jobs that had these hosts before"),
    "planned_s": Field(NUMBER, "s", "when it was to begin by prediction, from the trial's beginning"),
    "submitted_s": Field(NUMBER, "s", "when it was submitted, from the trial's beginning"),
    "started_s": Field(NUMBER, "s", "when its processes began to be started, from the trial's beginning"),
    "begun_s": Field(NUMBER, "s", "when its first iteration began, from the trial's beginning"),
    "queued_s": Field(
        NUMBER,
        "s",
        "how long it waited for hosts and for its circuits: from `submitted_s` until it had both; not for the start of "
        "other jobs' processes, which may come before `started_s`",
    ),
    "dark_s": Field(
        NUMBER, "s", "of a job with circuits of its own, from when its hosts were free until its circuits carried light"
    ),
}
"""What a job of several has for itself."""
RECORD: Mapping[str, Field] = {
    "schema": Field(COUNT, NO_UNIT, "version of this file's format"),
    "id": Field(NAME, NO_UNIT, "name of the trial and of its files"),
    "identity": Field(NAME, NO_UNIT, "digest of all that the trial depends on: `--resume` keeps trials with the same"),
    "inputs.*": Field(NAME, NO_UNIT, "by file that the trial uses, a digest of its content"),
    "label": Field(NAME, NO_UNIT, "name of its arm"),
    "topology": Field(NAME, NO_UNIT, "the network, as an expression"),
    "scheme": Field(NAME, NO_UNIT, "the synchronisation scheme, as an expression"),
    "kind": Field(NAME, NO_UNIT, "kind of workload: `train`, `profile`, `lda` or `command`"),
    "moves": Field(
        NAME, NO_UNIT, "kind of trial: `forest`, `library`, `command`, `script`, another one, or an added one"
    ),
    "model": Field(NAME, NO_UNIT, "model that was trained or played back"),
    "scale": Field(NUMBER, "ratio", "by what a profile's bytes and the links' rates were divided"),
    "batch": Field(COUNT, "samples", "batch size of each worker in an iteration"),
    "repeat": Field(COUNT, NO_UNIT, "which round it ran in, from 0 on"),
    "point.*": Field(PLAIN, "base unit", "by field that a sweep varies, its value: bit/s, B, s or a plain number"),
    "at": Field(NAME, NO_UNIT, "the same for people"),
    "iterations": Field(COUNT, "iterations", "number of iterations that the spec asks for; that a script did"),
    "warmup": Field(
        COUNT,
        "iterations",
        "number of first iterations that are left out of medians; scripts only, which may do fewer than are asked for",
    ),
    "world": Field(COUNT, "workers", "number of workers that began"),
    "status": Field(NAME, NO_UNIT, "`done` or `failed`"),
    "error": Field(TEXT, NO_UNIT, "why it failed"),
    "by_perturb": Field(TRUTH, NO_UNIT, "whether a perturbation made it fail"),
    "started": Field(NAME, "ISO 8601", "when the last attempt began"),
    "duration_s": Field(NUMBER, "s", "how long it took, with building and taking down the network"),
    **_below("metrics.", METRICS),
    **_below("accuracy.", _ACCURACY),
    **_below("sums.", _SUMS),
    "loss[]": Field(NUMBER, "nats", "training loss of the first and of the last iteration, mean over the workers"),
    "fidelity.verdict": Field(NAME, NO_UNIT, "`VALID` if all numbers are"),
    **_below("fidelity.checks[].", _CHECK),
    **_below("fidelity.numbers.*.", _NUMBER),
    "probes[].name": Field(NAME, NO_UNIT, "node that received a burst before the training"),
    "probes[].port_address": Field(NAME, NO_UNIT, "of the port that it received it on"),
    "probes[].rate_bps": Field(NUMBER, "bit/s", "rate at which the burst arrived"),
    "probes[].asked_bps": Field(NUMBER, "bit/s", "rate that the link was given"),
    "round_trips[].from": Field(NAME, NO_UNIT, "node that sent"),
    "round_trips[].to": Field(NAME, NO_UNIT, "node that answered"),
    "round_trips[].least_s": Field(NUMBER, "s", "least round trip that the links' delays allow"),
    "round_trips[].most_s": Field(NUMBER, "s", "longest that they explain"),
    "round_trips[].median_s": Field(NUMBER, "s", "median that was measured on the idle network"),
    **_below("links[].", _LINK),
    **_below("pairs[].", _PAIR),
    **_below("critical_path[].", _STAGE),
    **_below("collectives[].", _COLLECTIVE),
    "gradient_sums": Field(COUNT, NO_UNIT, "how many sums of gradients each rank of a script got; scripts only"),
    "failed_collectives[].rank": Field(COUNT, NO_UNIT, "rank of a script of which collectives failed"),
    "failed_collectives[].host": Field(NAME, NO_UNIT, "its host"),
    "failed_collectives[].count": Field(COUNT, NO_UNIT, "how many of its collectives failed"),
    "failed_collectives[].first": Field(NAME, NO_UNIT, "the first of them, such as `allreduce 12 of group 0`"),
    "failed_collectives[].error": Field(TEXT, NO_UNIT, "its error, which the script may have caught"),
    "logged.*[][]": Field(
        NUMBER, "as printed", "by metric of the spec and rank, the numbers that were found in its log"
    ),
    "left_out[]": Field(
        TEXT, NO_UNIT, "which numbers of a script, told or printed, are not all there or not used, and why"
    ),
    "links_settings.rate_bps": Field(NUMBER, "bit/s", "rate of a link"),
    "links_settings.delay_s": Field(NUMBER, "s", "delay of a link, one way"),
    "links_settings.jitter_s": Field(NUMBER, "s", "jitter of the delay"),
    "links_settings.loss": Field(NUMBER, SHARE, "packets that are lost"),
    "links_settings.reorder": Field(NUMBER, SHARE, "packets that are reordered"),
    "links_settings.mtu": Field(COUNT, "B", "largest packet"),
    "links_settings.queue_bytes": Field(COUNT, "B", "length of the queue at each egress"),
    "links_settings.congestion_control": Field(
        NAME, NO_UNIT, "congestion control that the spec asks for; null for the machine's own"
    ),
    "links_settings.ecn.mark_at_bytes": Field(COUNT, "B", "length of a queue from which on it marks packets"),
    "links_settings.*.rate_bps": Field(NUMBER, "bit/s", "rate of the links of that name; null for that of all"),
    "links_settings.*.delay_s": Field(NUMBER, "s", "delay of the links of that name; null for that of all"),
    "queues.readings": Field(COUNT, "readings", "how often the queues were read"),
    "queues.cost_s": Field(NUMBER, "s", "how long all readings took"),
    "queues.problem": Field(TEXT, NO_UNIT, "why the readings ended early"),
    **_below("events[].", _EVENT),
    **_below("strikes[].", _STRIKES),
    **_below("failover.", _FAILOVER),
    **_below("waited.", _WAITED),
    "attempts[].started": Field(NAME, "ISO 8601", "when an earlier attempt began"),
    "attempts[].duration_s": Field(NUMBER, "s", "how long it took"),
    "attempts[].verdict": Field(NAME, NO_UNIT, "what came of it"),
    "attempts[].numbers.*": Field(NAME, NO_UNIT, "the verdict of each of its numbers"),
    "attempts[].reasons[]": Field(TEXT, NO_UNIT, "which of its checks failed"),
    **_below("attempts[].waited.", _WAITED),
    **_below("attempts[].metrics.", METRICS),
    "checkpoints.processes": Field(COUNT, NO_UNIT, "how many processes wrote checkpoints"),
    "checkpoints.count": Field(COUNT, NO_UNIT, "how many each of them wrote"),
    "checkpoints.bytes": Field(COUNT, "B", "what they wrote in all"),
    "checkpoints.longest_s": Field(NUMBER, "s", "for how long the one that took longest wrote in all"),
    "congestion_control[]": Field(NAME, NO_UNIT, "congestion control that workers' connections had"),
    "max_rss_bytes": Field(COUNT, "B", "largest resident memory of a process"),
    **_below("jobs[].", JOB),
}
"""Of ``trials/*.json``, by path."""
SAMPLES: Mapping[str, Field] = {
    "rank": Field(COUNT, NO_UNIT, "number of the worker, from 0 on"),
    "name": Field(NAME, NO_UNIT, "name of the worker's node"),
    "node": Field(COUNT, NO_UNIT, "number of that node in the topology"),
    "iteration": Field(COUNT, NO_UNIT, "number of the iteration, from 0 on, the warm-up included"),
    "start_s": Field(NUMBER, "s", "when it began, from the trial's first start"),
    "ready_s": Field(
        NUMBER, "s", "when the worker had its gradient; before `start_s` if others were still in a script's set-up"
    ),
    "sum_s": Field(NUMBER, "s", "when it had the whole sum (asynchronous schemes: the new weights)"),
    "end_s": Field(NUMBER, "s", "when the optimiser's step was done"),
    "loss": Field(
        NUMBER,
        "nats",
        "training loss of its batch; LDA: minus the mean log-likelihood of a token of the shard, given the topics of "
        "all others; empty for profiles",
    ),
    "compute_s": Field(NUMBER, "s", "what computing the gradient took, without the wait for the pace"),
    "overrun_s": Field(
        NUMBER, "s", "by how much that was longer than the pace; strategies: as far as it can have made anything longer"
    ),
    "factor": Field(NUMBER, "ratio", "by what a perturbation stretched the pace"),
    "extra_s": Field(NUMBER, "s", "what a perturbation added to it"),
    "cpu_s": Field(NUMBER, "s", "CPU time of the process between gradient and sum"),
    "wait_s": Field(NUMBER, "s", "how long it waited for a core between gradient and sum"),
    "sync_halted_s": Field(NUMBER, "s", "how long it stood still between gradient and sum"),
    "world": Field(COUNT, "workers", "how many there were in this iteration"),
    "update": Field(
        COUNT, NO_UNIT, "number of this update at the (first) server; asynchronous schemes only, as all below"
    ),
    "version": Field(COUNT, NO_UNIT, "updates that were in the (first) server's weights that the gradient is of"),
    "update_*": Field(COUNT, NO_UNIT, "with several servers: the number of this update at each other one, from 1 on"),
    "version_*": Field(COUNT, NO_UNIT, "the version of its weights that the gradient is of"),
    "staleness": Field(
        COUNT, "updates", "updates of others that the server applied in between; with several, of the most stale part"
    ),
    "exposed_s": Field(
        NUMBER, "s", "for how long collectives held a script, in its calls and waits; scripts only, as the next four"
    ),
    "hidden_s": Field(NUMBER, "s", "for how long collectives were on their way while it did not wait"),
    "setup_busy_s": Field(
        NUMBER, "s", "in the first iteration's row, for how long collectives were on their way before it began; else 0"
    ),
    "sum_error": Field(
        NUMBER, "ratio", "largest difference of a sum from Gloo's, over what rounding allows; null if none was compared"
    ),
    "nonfinite": Field(COUNT, "arrays", "arrays with numbers that are not finite"),
    "held_s": Field(NUMBER, "s", "for how long the servers made the worker wait for weights"),
    "mp_wait_forward_s": Field(
        NUMBER,
        "s",
        "time without anything to compute, because outputs of others' operators were missing; strategies only",
    ),
    "mp_wait_backward_s": Field(NUMBER, "s", "the same for gradients of outputs"),
    "late_s": Field(NUMBER, "s", "by how much all passes were done after the last one was due; strategies only"),
    "planned_s": Field(
        NUMBER, "s", "from the gradient until the server was to have the update, as planned; MLfabric only"
    ),
    "arrived_s": Field(
        NUMBER, "s", "from the gradient until the server had the update, alone or in a sum; MLfabric only"
    ),
    "behind": Field(
        NUMBER, "updates", "by how many updates the replica was behind the server, with this one; MLfabric only"
    ),
    "divergence": Field(
        NUMBER, "norm of weights", "the most that their weights can have been apart then (MLfabric, eq. 11)"
    ),
    "fate": Field(
        COUNT,
        NO_UNIT,
        "what became of the update; MLfabric only: 0 applied, 1 applied in a sum, 2 dropped, 3 late, 4 lost",
    ),
}
"""Of ``samples/*.parquet``."""
RESULTS: Mapping[str, Field] = {
    "trial": RECORD["id"],
    **{name: RECORD[name] for name in ("label", "topology", "scheme", "batch", "iterations", "world", "status")},
    **{name: METRICS[name] for name in ("jct_s", "compute_s", "sync_s", "gst_median_s", "gst_p95_s")},
    **{name: METRICS[name] for name in ("gst_p99_s", "gst_theory_s")},
    **{name: METRICS[name] for name in ("gst_ratio", "throughput_sps", "wire_bytes")},
    **{name: _ACCURACY[name] for name in ("test_accuracy", "weights_error")},
    "fidelity": RECORD["fidelity.verdict"],
    "reasons": Field(TEXT, NO_UNIT, "why it is INVALID or UNWATCHED, or why it failed"),
    **{name: RECORD[name] for name in ("kind", "model", "scale")},
    "wrong_elements": _SUMS["wrong_elements"],
    "straggler_wait_s": METRICS["straggler_wait_s"],
    **{name: METRICS[name] for name in ("staleness_median", "staleness_p95", "staleness_max")},
    "repeat": RECORD["repeat"],
    "attempts": Field(COUNT, "attempts", "how often it was measured"),
    **{name: METRICS[name] for name in ("iteration_median_s", "iteration_p99_s")},
    **{name: METRICS[name] for name in ("iteration_predicted_s", "mp_wait_forward_s", "mp_wait_backward_s")},
    **{name: METRICS[name] for name in ("setup_s", "connect_s")},
    **{f"{name}_verdict": Field(NAME, NO_UNIT, f"verdict of {CALLED[name]}") for name in NUMBERS},
    **{f"{name}_error": Field(NUMBER, SHARE, f"by how much {CALLED[name]} can be off at most") for name in NUMBERS},
    "gst_p95_verdict": Field(NAME, NO_UNIT, "verdict of the 95th percentile of GST"),
    **{name: JOB[name] for name in ("job", "submitted_s", "started_s", "queued_s", "dark_s")},
}
"""Of ``results.csv``."""
QUEUES: Mapping[str, Field] = {
    "link": Field(COUNT, NO_UNIT, "number of the directed link, as in the trial's JSON"),
    "start_s": Field(NUMBER, "s", "start of the window, from the trial's first start on"),
    "window_s": Field(NUMBER, "s", "length of the window"),
    "most_bytes": Field(COUNT, "B", "the most that a reading found at the link's egress, frames with their headers"),
    "mean_bytes": Field(NUMBER, "B", "mean of the readings in the window"),
    "full_share": Field(NUMBER, SHARE, "readings in which 90 % of the queue's limit or more was in use"),
    "drops": Field(COUNT, "packets", "packets for which the queue had no room"),
    "marks": Field(COUNT, "packets", "packets that the queue marked (ECN)"),
}
"""Of ``queues/*.parquet``."""
TRANSFERS: Mapping[str, Field] = {
    "from": Field(COUNT, NO_UNIT, "number of the node that sends, in the topology"),
    "to": Field(COUNT, NO_UNIT, "number of the node that receives"),
    "purpose": Field(COUNT, NO_UNIT, "what it is: " + ", ".join(f"{one:d} {one.text}" for one in Purpose)),
    "members": Field(COUNT, "updates", "how many updates are in it; 0 of what workers get back"),
    "size_bytes": Field(NUMBER, "B", "payload, without headers"),
    "start_s": Field(
        NUMBER, "s", "when it was to begin, as planned last before it began, from the trial's first start"
    ),
    "end_s": Field(NUMBER, "s", "when it was to be there, by the same plan"),
    "arrived_s": Field(NUMBER, "s", "when it was there; empty where nobody told"),
    "shard": Field(COUNT, NO_UNIT, "which part of the model, by the number of the server that has it, from 0"),
}
"""Of ``transfers/*.parquet``."""
FILES: Mapping[str, tuple[str, Mapping[str, Field]]] = {
    "results.csv": (
        "A row for each trial. After these columns come the fields that a sweep varies, by their names.",
        RESULTS,
    ),
    "samples/*.parquet": (
        "A row for each worker and iteration. An added kind of trial may have more columns.",
        SAMPLES,
    ),
    "queues/*.parquet": (
        "A row for each directed link and window of time in which something waited or was dropped. Queues are read "
        "every 20 ms, or less often where that would take more than about 1 % of a core. A trial has at most 2,000 "
        "windows, and no file if its lab cannot read queues. Packets that netem delays wait in the same queue.",
        QUEUES,
    ),
    "transfers/*.parquet": (
        "A row for each transfer that was planned and began, by the moment at which it was to begin. Only kinds of "
        "trial that plan their transfers have this file (MLfabric). An update has one row, or two if it went in a "
        "sum: its own, and that of the sum. Weights that go over another host have a row for each part of their way.",
        TRANSFERS,
    ),
    "trials/*.json": ("One trial. Fields are of the last attempt, unless they name another.", RECORD),
}
"""By file, what it has, and its fields."""


def faults(record: object) -> list[str]:
    """What a trial's JSON has that is not defined here, or of another kind; by path."""
    found = []
    for path, value in (leaf for part in _parts(record) for leaf in _leaves(part)):
        field = RECORD.get(path)
        if field is None:
            found.append(f"{path}: no such field")
        elif value is not None and not field.kind.has(value):
            found.append(f"{path} is {value!r:.40}, no {field.kind.name}")
    return found


def _parts(record: object) -> Iterator[object]:
    """A record with what its jobs have for themselves; and the rest of each job, which is as of a trial."""
    jobs = record.get("jobs") if isinstance(record, Mapping) else None
    if not isinstance(record, Mapping) or not jobs:
        yield record
        return
    own = {name.removesuffix("[]") for name in JOB}
    yield {**record, "jobs": [{key: value for key, value in job.items() if key in own} for job in jobs]}
    yield from ({key: value for key, value in job.items() if key not in own} for job in jobs)


def _leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Each value that is neither an object nor a list, with its path; of an object that is null, nothing."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{_any(path, str(key))}".strip("."))
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, f"{path}[]")
    elif value is not None or not any(known.startswith((f"{path}.", f"{path}[]")) for known in RECORD):
        yield path, value


def _any(path: str, key: str) -> str:
    """``*`` where any key may stand that has no definition of its own."""
    own = f"{path}.{key}"
    if any(known == own or known.startswith((f"{own}.", f"{own}[")) for known in RECORD):
        return key
    return "*" if any(known.startswith(f"{path}.*") for known in RECORD) else key
