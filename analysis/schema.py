"""The shapes of a run directory's JSON files, as far as they are read: see :mod:`testbed.files.shape`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from testbed.base.limits import MOST_ARMS, MOST_JOBS
from testbed.files.shape import (
    COUNT,
    EACH,
    NAME,
    NO_NULL,
    NOT_NEGATIVE,
    NUMBER,
    OBJECT,
    PLAIN,
    TEXT,
    TRUTH,
    Kind,
    Listed,
    Shape,
    count_to,
)

SCHEMA = 1
"""The version of records, of the environment and of the resolved spec: what is written, and the newest that is read."""
_JOB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
"""A part of the names of files."""


def _are_names(value: list[object]) -> bool:
    return all(isinstance(one, str) for one in value)


_NAMES = Kind("list of names", lambda value: isinstance(value, dict) or (isinstance(value, list) and _are_names(value)))
_PAIR = Kind(
    "pair of whole numbers", lambda value: isinstance(value, list) and [type(one) for one in value] == [int, int]
)
_POINT = Kind(
    "pair of an iteration and its accuracy or likelihood",
    lambda value: isinstance(value, list) and len(value) == 2 and COUNT.has(value[0]) and NUMBER.has(value[1]),
)
_IMPROVEMENT = Kind(
    "pair of a step and the seconds of an iteration",
    lambda value: isinstance(value, list) and len(value) == 2 and COUNT.has(value[0]) and NOT_NEGATIVE.has(value[1]),
)
_LAB: Shape = {
    "hosts": {NO_NULL: OBJECT},
    "sysctls": {NO_NULL: OBJECT},
    "impaired_by": {"way": NAME},
    "devices": _NAMES,
    "movers": _NAMES,
}
_MACHINE: Mapping[str, Shape] = {
    "cpu": OBJECT,
    "limits": OBJECT,
    "sysctls": {EACH: PLAIN},
    "packages": {EACH: PLAIN},
    "congestion_control": NAME,
    "lab": {EACH: _LAB},
}
ENVIRONMENT: Shape = {**_MACHINE, "parts": {NO_NULL: _MACHINE}}
_SEARCH: Shape = {"steps": COUNT, "costs_s": [_IMPROVEMENT], "rounds_s": [NOT_NEGATIVE]}
RESOLVED: Shape = {
    "name": NAME,
    "lab": NAME,
    "arms": Listed(
        {
            **dict.fromkeys(("label", "topology", "scheme"), NAME),
            "jobs": Listed({"name": NAME, "copies": count_to(MOST_JOBS)}, MOST_JOBS),
        },
        MOST_ARMS,
    ),
    "workload": {"kind": NAME, "model": NAME, "scale": NUMBER, "warmup": COUNT},
    "links": {"rate_bps": NUMBER},
    "sweep": {NO_NULL: []},
    "planned": COUNT,
    "folder": TEXT,
    "overrides": [TEXT],
    "part": _PAIR,
    "fitted": {NO_NULL: NUMBER},
    "found": {EACH: {"topology": TEXT, "scheme": TEXT, "search": _SEARCH}},
}
BASELINE: Shape = {
    "baseline": NAME,
    "conditions": {EACH: PLAIN},
    "arms": {NO_NULL: OBJECT},
    "cells": [
        {
            "label": NAME,
            "batch": COUNT,
            "at": NAME,
            "point": {EACH: PLAIN},
            "trials": [
                {
                    **dict.fromkeys(("id", "started", "verdict"), NAME),
                    "repeat": COUNT,
                    "gst_s": [NUMBER],
                    "iterations": COUNT,
                    "gradient_sums": COUNT,
                }
            ],
        }
    ],
}
_METRICS: Shape = {EACH: NUMBER}
_CHECK: Shape = {
    **dict.fromkeys(("name", "unit"), NAME),
    "detail": TEXT,
    **dict.fromkeys(("ok", "asked", "machine", "needed", "watched"), TRUTH),
    **dict.fromkeys(("value", "limit"), NUMBER),
    "threatens": [NAME],
}
_LINK: Shape = {
    **dict.fromkeys(("link", "bytes", "drops"), COUNT),
    **dict.fromkeys(("from", "to"), NAME),
    **dict.fromkeys(("rate_bps", "theory_bytes"), NOT_NEGATIVE),
}
_EXCHANGED: Shape = {
    **dict.fromkeys(("from", "to"), NAME),
    **dict.fromkeys(("bytes", "theory_bytes", "mp_bytes"), COUNT),
}
_STAGE: Shape = {**dict.fromkeys(("what", "where"), TEXT), **dict.fromkeys(("start_s", "end_s"), NOT_NEGATIVE)}
_COLLECTIVE: Shape = {
    **dict.fromkeys(("op", "dtype", "by"), NAME),
    **dict.fromkeys(("bytes", "ranks", "count"), COUNT),
    **dict.fromkeys(("median_s", "waited_s", "algbw_bps", "busbw_bps", "least_s"), NOT_NEGATIVE),
}
_EVENT: Shape = {
    **dict.fromkeys(("kind", "what", "error"), TEXT),
    **dict.fromkeys(("planned_s", "begun_s", "done_s", "takes_s", "free_s"), NUMBER),
    "links": {"rate_bps": {EACH: NOT_NEGATIVE}, "blocked": {EACH: TRUTH}},
}
_STRIKES: Shape = {**dict.fromkeys(("perturbation", "of"), TEXT), **dict.fromkeys(("struck", "chances"), COUNT)}
_RECOVERY: Shape = {
    "without": [NAME],
    **dict.fromkeys(("first", "world"), COUNT),
    "scheme": NAME,
    **dict.fromkeys(("called_s", "recovered_s"), NUMBER),
}
_LOSS: Shape = {
    "node": NAME,
    "roles": [NAME],
    "how": TEXT,
    **dict.fromkeys(("hit_s", "noticed_s", "recovered_s"), NUMBER),
    "lost_updates": [[COUNT]],
}
_ATTEMPT: Shape = {"verdict": NAME, "reasons": [TEXT], "started": NAME, "metrics": _METRICS}
_ACCURACY: Shape = {
    **dict.fromkeys(("test_accuracy", "test_loss", "weights_error", "training_error", "rounding_error"), NOT_NEGATIVE),
    **dict.fromkeys(("checked_sums", "checked_elements", "wrong_elements"), COUNT),
    **dict.fromkeys(("takeover_apart", "takeover_allowed", "takeover_rounded"), NOT_NEGATIVE),
    "weights_equal": TRUTH,
    "log_likelihood": NUMBER,
    "reference": NAME,
    "curve": [_POINT],
    "curve_of": NAME,
    "curve_s": [NUMBER],
}
_RESULTS: Mapping[str, Shape] = {
    **dict.fromkeys(("scheme", "status", "kind", "moves"), NAME),
    **dict.fromkeys(("batch", "iterations", "warmup", "world"), COUNT),
    "error": TEXT,
    "metrics": _METRICS,
    "accuracy": _ACCURACY,
    "sums": _ACCURACY,
    "fidelity": {"verdict": NAME, "checks": [_CHECK]},
    "pairs": [_EXCHANGED],
    "critical_path": [_STAGE],
    "collectives": [_COLLECTIVE],
    "left_out": [TEXT],
    "gradient_sums": COUNT,
    "failed_collectives": [
        {**dict.fromkeys(("rank", "count"), COUNT), **dict.fromkeys(("host", "first"), NAME), "error": TEXT}
    ],
    "events": [_EVENT],
    "failover": {"recoveries": [_RECOVERY], "losses": [_LOSS]},
    "checkpoints": {**dict.fromkeys(("processes", "count", "bytes"), COUNT), "longest_s": NOT_NEGATIVE},
}
_JOB: Shape = {
    **_RESULTS,
    "job": Kind("name of a job", lambda value: isinstance(value, str) and _JOB_NAME.fullmatch(value) is not None),
    "hosts": [NAME],
    "after": [NAME],
    **dict.fromkeys(("planned_s", "submitted_s", "started_s", "begun_s", "queued_s", "dark_s"), NOT_NEGATIVE),
}
RECORD: Shape = {
    **_RESULTS,
    **dict.fromkeys(("id", "label", "topology", "at", "started"), NAME),
    "repeat": COUNT,
    "duration_s": NUMBER,
    "links": [_LINK],
    "queues": {"readings": COUNT, "cost_s": NOT_NEGATIVE, "problem": TEXT},
    "attempts": [_ATTEMPT],
    "strikes": [_STRIKES],
    "point": {EACH: PLAIN},
    "jobs": [_JOB],
}
