"""The columns of a trial's tables: of samples, of what waited at egresses, of transfers."""

from __future__ import annotations

import re
from collections.abc import Iterable

from testbed.analysis.record.fields import SHARE, Field, Part, unread
from testbed.workloads.kinds.transfers import Purpose

_NUMBER = re.compile(r"_[1-9][0-9]{0,5}\Z")
"""End of the name of a column that is one of several."""


class Sample(Part):
    """A row for each worker and iteration; ``is_checked`` of columns that every table has."""

    rank = unread(int, "number of the worker, from 0 on", is_checked=True, line="rank")
    name = unread(str, "name of the worker's node")
    node = unread(int, "number of that node in the topology", line="node")
    iteration = unread(int, "number of the iteration, from 0 on, the warm-up included", is_checked=True, line="i")
    start_s = unread(float, "begin, from the trial's first start", is_checked=True, line="start", is_moment=True)
    ready_s = unread(
        float,
        "when the worker had its gradient; before `start_s` if others were still in a script's set-up",
        is_checked=True,
        line="ready",
        is_moment=True,
    )
    sum_s = unread(
        float,
        "when it had the whole sum (asynchronous schemes: the new weights)",
        is_checked=True,
        line="sum",
        is_moment=True,
    )
    end_s = unread(float, "when the optimiser's step was done", is_checked=True, line="end", is_moment=True)
    loss = unread(
        float,
        "training loss of its batch; LDA: minus the mean log-likelihood of a token of the shard, given the topics of "
        "all others; empty for profiles",
        "nats",
        is_checked=True,
        line="loss",
    )
    compute_s = unread(float, "what computing the gradient took, without the wait for the pace", line="compute_s")
    overrun_s = unread(
        float,
        "by how much that was longer than the pace; strategies: as far as it can have made anything longer",
        line="overrun_s",
    )
    factor = unread(float, "by what a perturbation stretched the pace", "ratio", line="factor")
    extra_s = unread(float, "what a perturbation added to it", line="extra_s")
    cpu_s = unread(float, "CPU time of the process between gradient and sum", line="cpu_s")
    wait_s = unread(float, "how long it waited for a core between gradient and sum", line="wait_s")
    sync_halted_s = unread(float, "how long it stood still between gradient and sum", line="sync_halted_s")
    rested_s = unread(float, "how long it rested after its end, so that others got the cores", line="rested_s")
    world = unread(int, "how many there were in this iteration", "workers")
    update = unread(int, "number of this update at the (first) server; asynchronous schemes only, as all below")
    version = unread(int, "updates that were in the (first) server's weights that the gradient is of")
    updates = unread(
        int, "with several servers: the number of this update at each other one, from 1 on", key="update_*"
    )
    versions = unread(int, "the version of its weights that the gradient is of", key="version_*")
    staleness = unread(
        int, "updates of others that the server applied in between; with several, of the most stale part", "updates"
    )
    exposed_s = unread(
        float, "for how long collectives held a script, in its calls and waits; scripts only, as the next four"
    )
    hidden_s = unread(float, "for how long collectives were on their way while it did not wait")
    setup_busy_s = unread(
        float, "in the first iteration's row, for how long collectives were on their way before it began; else 0"
    )
    sum_error = unread(
        float,
        "largest difference of a sum from Gloo's, over what rounding allows; null if none was compared",
        "ratio",
    )
    nonfinite = unread(int, "arrays with numbers that are not finite", "arrays")
    held_s = unread(float, "for how long the servers made the worker wait for weights")
    mp_wait_forward_s = unread(
        float, "time without anything to compute, because outputs of others' operators were missing; strategies only"
    )
    mp_wait_backward_s = unread(float, "the same for gradients of outputs")
    late_s = unread(float, "by how much all passes were done after the last one was due; strategies only")
    planned_s = unread(float, "from the gradient until the server was to have the update, as planned; MLfabric only")
    arrived_s = unread(float, "from the gradient until the server had the update, alone or in a sum; MLfabric only")
    behind = unread(
        float, "by how many updates the replica was behind the server, with this one; MLfabric only", "updates"
    )
    divergence = unread(
        float, "the most that their weights can have been apart then (MLfabric, eq. 11)", "norm of weights"
    )
    layer_ready_s = unread(
        float,
        "when a layer's gradient was ready, by layer in the order of the backward pass, from 1 on; `pbox` with "
        "`overlap: layer` only, as the next two",
        key="ready_s_*",
        is_moment=True,
    )
    layer_pushed_s = unread(
        float, "when the last of its bytes had gone to the kernel", key="pushed_s_*", is_moment=True
    )
    layer_back_s = unread(float, "when all of its weights were back", key="back_s_*", is_moment=True)
    sent_bytes = unread(
        int,
        "payload that it sent in the iteration, by neighbour's node, from 1 on; as the next three; tuned schemes only",
        key="sent_bytes_*",
    )
    busy_s = unread(float, "for how long the kernel had something to send to it, or to be acknowledged", key="busy_s_*")
    rtt_s = unread(float, "smoothed round trip to the neighbour at the iteration's end", key="rtt_s_*")
    rate_bps = unread(
        float, "TCP's delivery rate to it; empty if the application sent less than could be carried", key="rate_bps_*"
    )
    plan = unread(int, "the number of the told plan that the iteration followed; 0 of the first; tuned schemes only")
    fate = unread(
        int, "what became of the update; MLfabric only: 0 applied, 1 applied in a sum, 2 dropped, 3 late, 4 lost"
    )


class Window(Part):
    """A row for each directed link and window of time in which something waited or was dropped."""

    link = unread(int, "number of the directed link, as in the trial's JSON")
    start_s = unread(float, "start of the window, from the trial's first start on")
    window_s = unread(float, "length of the window")
    most_bytes = unread(int, "the most that a reading found at the link's egress, frames with their headers")
    mean_bytes = unread(float, "mean of the readings in the window")
    full_share = unread(float, "readings in which 90 % of the queue's limit or more was in use", SHARE)
    drops = unread(int, "packets for which the queue had no room", "packets")
    marks = unread(int, "packets that the queue marked (ECN)", "packets")


class CollectiveCall(Part):
    """A row for each collective of each rank of a script, in the order in which they were asked for."""

    rank = unread(int, "number of the rank")
    kind = unread(int, "number of its kind, type and size among the `collectives` of the trial's JSON, from 0 on")
    group = unread(int, "number of its group of ranks; 0 has all")
    sequence = unread(int, "which of the group's collectives it is; of sends and receives, which of this rank's")
    asked_s = unread(float, "when the script asked for it, from the trial's first start; below 0 in the set-up")
    came_s = unread(float, "when its first chunk from another rank was there; empty if that is not seen")
    done_s = unread(float, "when the rank had the result, with the last byte")
    held_s = unread(float, "for how long it held the script, in the call and in waits; empty if that is not seen")


class Transfer(Part):
    """A row for each transfer that was planned and began."""

    source = unread(int, "number of the node that sends, in the topology", key="from")
    target = unread(int, "number of the node that receives", key="to")
    purpose = unread(int, "what it is: " + ", ".join(f"{purpose:d} {purpose.text}" for purpose in Purpose))
    members = unread(int, "how many updates are in it; 0 of what workers get back", "updates")
    size_bytes = unread(float, "payload, without headers")
    start_s = unread(float, "when it was to begin, as planned last before it began, from the trial's first start")
    end_s = unread(float, "when it was to be there, by the same plan")
    arrived_s = unread(float, "when it was there; empty where nobody told")
    shard = unread(int, "which part of the model, by the number of the server that has it, from 0")


def columns(table: type[Part], *, required: bool = False) -> tuple[str, ...]:
    """The names of a table's columns in their order, or of those that every table has."""
    return tuple(field.key for field in table.all_fields if field.is_checked or not required)


def declared(name: str) -> str:
    """Return the key under which a column is declared: ``update_*`` for ``update_3``."""
    return _NUMBER.sub("_*", name)


def moments(names: Iterable[str]) -> list[str]:
    """Return those of these columns of samples that are moments."""
    keys = {field.key for field in Sample.all_fields if field.more.get("is_moment")}
    return [name for name in names if name in keys or declared(name) in keys]


def in_lines() -> tuple[Field, ...]:
    """The columns of samples that are in the lines of workers of all kinds."""
    return tuple(field for field in Sample.all_fields if "line" in field.more)
