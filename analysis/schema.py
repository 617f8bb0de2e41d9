"""The shapes of a run directory's JSON files, as far as they are read: see :mod:`testbed.files.shape`."""

from __future__ import annotations

from collections.abc import Mapping

from testbed.analysis.jobs import JOBS
from testbed.analysis.record.fields import shape_of
from testbed.analysis.record.trial import Slot, TrialRecord
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
    Kind,
    Listed,
    Shape,
    count_to,
)

_NAMES = Kind(
    "list of names",
    lambda value: isinstance(value, dict) or (isinstance(value, list) and all(isinstance(one, str) for one in value)),
)
_PAIR = Kind(
    "pair of whole numbers", lambda value: isinstance(value, list) and [type(one) for one in value] == [int, int]
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
_ALONE = {key: shape for key, shape in shape_of(TrialRecord).items() if key != JOBS}
RECORD: Shape = {**_ALONE, JOBS: [{**_ALONE, **shape_of(Slot)}]}
"""A job's results are those of a trial that has it alone."""
