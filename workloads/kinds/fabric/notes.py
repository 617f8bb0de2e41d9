"""Notes in reports on the numbers of trials with scheduled transfers that mean something else than those of other
kinds."""

from __future__ import annotations

NOTES = {
    "gst": (
        "If a scheduler plans an arm's transfers, each update has its own GST: the time from a worker's gradient to "
        "newer weights, with all waiting for the update's turn. Theory is the time of an update to the server and of "
        "weights back while no other worker sends."
    ),
    "fates": (
        "If a scheduler plans an arm's transfers, a direct update came straight to the server, and an aggregated one "
        "was added to others on its way. A dropped update was not sent, because it would have been too stale, because "
        "others would have waited for it. A late one was too stale when it came, and was not applied."
    ),
    "accuracy": (
        "If a scheduler plans an arm's transfers, an iteration is a round: as many applied updates, one after the "
        "other, as there are workers. A single process that makes the same updates and sums in the same order finds "
        "their accuracy."
    ),
    "waiting": (
        "If a scheduler plans transfers, a wait is the time for which newer weights were held back, because the worker "
        "was too far ahead, or because no iteration was left to begin."
    ),
    "timeline": (
        "If a scheduler plans transfers, an iteration is a round of as many applied updates as there are workers, and "
        "its GST is the median of theirs."
    ),
    "workers": (
        "Workers whose transfers are scheduled are drawn as waiting for as long as newer weights were held back; their "
        "rows begin and end with the rounds that are drawn."
    ),
    "jct": (
        "If a scheduler plans transfers, synchronisation is the time from a worker's gradients to newer weights, "
        "averaged over the workers. Compute is the rest."
    ),
}
"""Notes, by the question of the report that they are part of."""
