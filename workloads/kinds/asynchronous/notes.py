"""Notes in reports on the numbers of asynchronous trials that mean something else than those of other kinds."""

from __future__ import annotations

NOTES = {
    "gst": (
        "If an arm's workers do not wait for each other, each update has its own GST: the time from a worker's "
        "gradient to newer weights, without the time for which the server held them back because the worker was too "
        "far ahead. Theory is then the time of the fastest way to the server and back while no other worker sends."
    ),
    "accuracy": (
        "If an arm's workers do not wait for each other, an iteration is a round: as many updates, one after the "
        "other, as there are workers. A single process that makes the same updates in the same order finds their "
        "accuracy."
    ),
    "waiting": (
        "If workers do not wait for each other's gradients, a wait is the time for which the server held newer weights "
        "back, because the worker was too far ahead, or because no iteration was left to begin."
    ),
    "timeline": (
        "If workers do not wait for each other, an iteration is a round of as many updates as there are workers, and "
        "its GST is the median of theirs."
    ),
    "workers": (
        "Workers that do not wait for each other's gradients are drawn as waiting for as long as the server held "
        "newer weights back; their rows begin and end with the rounds that are drawn."
    ),
    "jct": (
        "If an arm's workers do not wait for each other, synchronisation is the time from a worker's gradients to "
        "newer weights, averaged over the workers. Compute is the rest."
    ),
}
"""Notes, by the question of the report that they are part of."""
