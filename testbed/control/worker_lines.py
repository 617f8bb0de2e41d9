"""The lines that a trial's processes write, as they are to be: what a trial is judged by was written by its workers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from testbed.analysis.record.tables import declared, in_lines
from testbed.base.bounded_json import LARGEST_NUMBER, parse_json
from testbed.files.shape import COUNT, EACH, NAME, TEXT, TRUTH, Shape, check, is_number
from testbed.files.shape import Kind as Form
from testbed.workloads.kinds.base import AnyKind

_FINITE = Form(
    "finite number",
    lambda value: is_number(value) and math.isfinite(value) and abs(value) <= LARGEST_NUMBER,
)
_MOMENT = Form("moment", lambda value: is_number(value) and 0 <= value < 1e12)
_LOSS = Form("number", is_number)
_PAIRS = Form(
    "list of pairs of counts",
    lambda value: (
        isinstance(value, list)
        and all(isinstance(one, list) and len(one) == 2 and all(COUNT.has(number) for number in one) for one in value)
    ),
)
_LOST = Form(
    "list of lost nodes",
    lambda value: (
        isinstance(value, list)
        and all(
            isinstance(one, list)
            and len(one) in (3, 4)
            and type(one[0]) is int
            and _MOMENT.has(one[1])
            and (one[2] is None or _MOMENT.has(one[2]))
            and all(_PAIRS.has(updates) for updates in one[3:])
            for one in value
        )
    ),
)
_SKETCHES = Form(
    "list of sketches",
    lambda value: (
        isinstance(value, list)
        and all(
            isinstance(one, list) and len(one) == 2 and type(one[0]) is int and isinstance(one[1], list)
            for one in value
        )
    ),
)
_MOMENTS = ("start", "ready", "sum", "end")
_SHAPES: Mapping[str, Mapping[str, Shape]] = {
    "hello": {"rank": COUNT, "node": COUNT, "device": NAME, "congestion_control": NAME, "mover": NAME},
    "probe": {
        "node": COUNT,
        "round": COUNT,
        "port_address": NAME,
        "rate_bps": _FINITE,
        **dict.fromkeys(("asked_bps", "bytes", "sent_bytes", "acknowledged_bytes"), COUNT),
    },
    "echo": {**dict.fromkeys(("node", "round", "peer", "sent", "answered", "left_out"), COUNT), "rtt_s": _MOMENT},
    "begin": {"time": _MOMENT},
    "iteration": {
        **{field.more["line"]: COUNT if field.kind is COUNT else _FINITE for field in in_lines()},
        **dict.fromkeys(_MOMENTS, _MOMENT),
        "loss": _LOSS,
    },
    "done": {
        "wire_bytes": COUNT,
        "sent": {EACH: {"payload_bytes": COUNT, "wire_bytes": COUNT}},
        "payload_bytes": {EACH: COUNT},
        "max_rss_bytes": COUNT,
        **dict.fromkeys(("cpu_s", "late_s", "stalled_s", "halted_s", "watched_s"), _FINITE),
        **dict.fromkeys(("sent_segments", "resent_segments", "needless_segments", "checked"), COUNT),
        **dict.fromkeys(("checkpoints", "checkpoint_bytes"), COUNT),
        "checkpoint_s": _FINITE,
        "weights_sha256": NAME,
        "wrong": [[COUNT]],
        "updates": [[COUNT]],
        "replicated": [[COUNT]],
        "part_sha256": NAME,
        "lost": _LOST,
        "time": _MOMENT,
        "clock_s": _MOMENT,
        "own": _SKETCHES,
        "summed": _SKETCHES,
    },
    "journal": {},  # held against the others' accounts by their kind of trial, which says who writes one
    "error": {"error": TEXT, "fix": TEXT, "elsewhere": TRUTH},
    "request": {},  # held against its schema by who carries it out
}
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "hello": ("rank", "device", "congestion_control"),
    "probe": ("port_address", "rate_bps", "asked_bps", "bytes", "sent_bytes", "acknowledged_bytes"),
    "echo": ("round", "rtt_s"),
    "iteration": ("i", "rank", "node", *_MOMENTS, "loss"),
    "done": ("wire_bytes", "sent", "max_rss_bytes", "cpu_s", "late_s", "stalled_s", "halted_s", "sent_segments"),
    "error": ("error",),
}


def said(line: bytes) -> dict[str, Any]:
    """A line as an object of some ``kind``. Raises ValueError: it is none."""
    found = parse_json(line, finite=False, most_values=len(line))  # whose file is bounded by what its trial needs
    if not isinstance(found, dict) or not isinstance(found.get("kind"), str):
        raise ValueError(f"{found!r:.40} has no kind")
    return found


def check_said(line: Mapping[str, Any], of: AnyKind | None = None) -> None:
    """Hold a line against what processes write of its kind; ``of`` is the kind of trial, whose samples may say more.
    Raises ValueError: it is of another kind, lacks something, or something in it is not what it should be."""
    kind = line["kind"]
    if kind not in _SHAPES:
        raise ValueError(f"no process writes a line of the kind {kind!r:.40}")
    lacking = [name for name in _NEEDED.get(kind, ()) if name not in line]
    if lacking:
        raise ValueError(f"a line of the kind {kind} has no {lacking[0]}")
    shape = _SHAPES[kind]
    if of is not None and kind == "iteration":
        names = {name: declared(name) for name in line}
        shape = {
            **shape,
            **{name: COUNT for name, key in names.items() if {name, key} & of.own_samples.counts},
            **{name: _FINITE for name, key in names.items() if {name, key} & of.own_samples.numbers},
        }
    check(line, shape, kind)
    unknown = line.keys() - shape.keys() - {"kind"} if kind == "iteration" else ()
    if unknown:  # each would be a column of the table of samples
        raise ValueError(f"a line of the kind iteration has {min(unknown)!r:.40}")
