"""What a report says of the numbers of asynchronous trials, where they mean something else than those of others."""

from __future__ import annotations

NOTES = {
    "gst": (
        "Of arms whose workers do not wait for each other, each update has a GST of its own: from a worker's "
        "gradient to newer weights, without the time for which these were held back because the worker was too "
        "far ahead. Theory is then what the fastest way to the server and back takes when nobody else sends."
    ),
    "accuracy": (
        "For iterations, arms whose workers do not wait for each other have rounds: as many updates, one after "
        "the other, as there are workers. Their accuracy is found with a single process that makes the same "
        "updates in the same order."
    ),
    "waiting": (
        "Where workers do not wait for each other's gradients, it is for how long the server held newer weights "
        "back, because the worker was too far ahead, or because no iteration was left to begin."
    ),
    "timeline": (
        "Where workers do not wait for each other, an iteration is a round of as many updates as there are "
        "workers, and its GST the median of theirs."
    ),
    "workers": (
        "Workers that do not wait for each other's gradients are drawn as waiting for as long as the server held "
        "newer weights back; their rows begin and end with the rounds that are drawn."
    ),
    "jct": (
        "Of arms whose workers do not wait for each other, synchronisation is the time from a worker's gradients "
        "to newer weights, on average over the workers, and compute the rest."
    ),
}
"""By the question of the report that they are part of."""
