"""Lines that ranks of a script write, in the form that they are to have: our backend wrote them in the user's
process."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from testbed.base.bounded_json import LARGEST_NUMBER
from testbed.base.errors import TrialError
from testbed.base.printable import printable
from testbed.control import endings
from testbed.files.shape import COUNT, EACH, NAME, TEXT, TRUTH, Kind, Shape, check, is_number
from testbed.workloads.kinds.ranks import Call, Compared, Failed, Logged, RankRows

MOST_BYTES = 2**27
"""Bytes of a rank's file at most: half a million collectives."""
MOST_SKEW_S = 1e-3
"""Seconds by which moments of one rank may be out of order: they are of one clock, but for their rounding."""
LONGEST_WORD = 40
LONGEST_WHY = 300
"""Characters of an error that are kept of a collective."""

_MOMENT = Kind("moment", lambda value: is_number(value) and 0 <= value < 1e12)
_SPAN = Kind("span of time", lambda value: is_number(value) and 0 <= value < 1e9)
_WORD = Kind("word", lambda value: isinstance(value, str) and 0 < len(value) <= LONGEST_WORD and value.isprintable())
_RATIO = Kind("ratio", lambda value: is_number(value) and value >= 0)
_VALUE = Kind("number", is_number)
_NUMBER = Kind("number", lambda value: is_number(value) and (not math.isfinite(value) or abs(value) <= LARGEST_NUMBER))
_TOTAL: Shape = {EACH: [COUNT]}
_SHAPES: Mapping[str, Mapping[str, Shape]] = {
    "hello": {
        **{"rank": COUNT, "node": COUNT, "device": NAME, "congestion_control": NAME, "time": _MOMENT, "torch": NAME},
        "slow_rows": TRUTH,
    },
    "group": {"group": COUNT, "ranks": [COUNT], "by": _WORD},
    "call": {
        **dict.fromkeys(("seq", "group", "bytes", "ranks", "root"), COUNT),
        **dict.fromkeys(("op", "dtype", "by"), _WORD),
        **dict.fromkeys(("asked_s", "begun_s", "came_s", "done_s"), _MOMENT),
        **{"asking_s": _SPAN, "waited_s": _SPAN, "chained": TRUTH, "other": TRUTH},
    },
    "mark": {"iteration": COUNT, "time": _MOMENT},
    "log": {"iteration": COUNT, "time": _MOMENT, "values": {EACH: _VALUE}},
    "check": {"group": COUNT, "seq": COUNT, "dtype": _WORD, "largest_relative": _RATIO},
    "nonfinite": {"group": COUNT, "seq": COUNT, "where": _WORD, "count": COUNT},
    "failed": {"op": _WORD, **dict.fromkeys(("group", "seq"), COUNT), "time": _MOMENT, "error": TEXT},
    "pace": {"time": _MOMENT, "overrun_s": _SPAN},
    "shape": {},  # told for people who read the file
    "done": {
        "wire_bytes": COUNT,
        "sent": {EACH: {"payload_bytes": COUNT, "wire_bytes": COUNT}},
        **dict.fromkeys(("max_rss_bytes", "sent_segments", "resent_segments", "needless_segments", "shapes"), COUNT),
        **dict.fromkeys(("cpu_s", "late_s", "stalled_s", "halted_s"), _NUMBER),
        "calls": _TOTAL,
        "gloo_calls": _TOTAL,
    },
    "error": {"error": TEXT, "fix": TEXT, "elsewhere": TRUTH},
}
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "hello": ("rank", "congestion_control", "time"),
    "group": ("group", "ranks"),
    "call": ("seq", "group", "op", "dtype", "bytes", "asked_s", "done_s", "by", "ranks"),
    "mark": ("time",),
    "log": ("time", "values"),
    "pace": ("time", "overrun_s"),
    "check": ("group", "seq", "dtype", "largest_relative"),
    "nonfinite": ("group", "seq", "where"),
    "failed": ("op", "group", "error"),
    "done": ("max_rss_bytes",),
    "error": ("error",),
}
_VITALS = (
    *("wire_bytes", "sent", "cpu_s", "late_s", "stalled_s", "halted_s"),
    *("sent_segments", "resent_segments", "needless_segments"),
)
"""Fields that workers of ours tell in their last line, and a rank may leave out."""


def read(path: Path) -> list[dict[str, Any]]:
    """Read the lines of a rank's file, each with all that a rank writes of its kind; none where there is no file.

    Raises:
        TrialError: it is no file, too large, or a line in it is not as ranks write it.
    """
    lines = endings.read(path, MOST_BYTES)
    try:
        for line in lines:
            _check(line)
    except ValueError as error:
        raise TrialError(
            f"{Path(*path.parts[-2:])}: damaged ({error})",
            fix="see what the script does to that file; then run the trial again",
        ) from None
    return [{**dict.fromkeys(_VITALS), **line} if line["kind"] == "done" else line for line in lines]


def _check(line: Mapping[str, Any]) -> None:
    """
    Raises:
        ValueError: ranks write no such line.
    """
    kind = line["kind"]
    if kind not in _SHAPES:
        raise ValueError(f"no rank writes a line of the kind {kind!r:.40}")
    for name in _NEEDED.get(kind, ()):
        if line.get(name) is None:
            raise ValueError(f"a line of the kind {kind} has no {name}")
    check(line, _SHAPES[kind], kind)
    if kind == "call" and line["done_s"] < line["asked_s"] - MOST_SKEW_S:
        raise ValueError(f"call.done_s is {line['done_s']}, before it was asked for")


def check_end(lines: Iterable[Mapping[str, Any]], name: str) -> None:
    """
    Raises:
        TrialError: a rank that made a process group has not said its last line, so others may be missing; or it told
            of an error and ended well all the same.
    """
    by_kind = {line["kind"]: line for line in lines}
    if error := by_kind.get("error"):
        raise TrialError(f"the rank on {name}: {error['error']}", fix=error.get("fix"))
    if "hello" in by_kind and "done" not in by_kind:
        raise TrialError(
            f"the rank on {name} ended without its last collectives being told",
            fix="let the process that makes the process group end by itself: os._exit() and os.exec...() skip what "
            "Python does at its end",
        )


def rows(lines: Iterable[Mapping[str, Any]], rank: int, node: int) -> RankRows | None:
    """Gather what the lines say of one rank; None if it never made a process group.

    Raises:
        ValueError: another rank wrote them.
    """
    by: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for line in lines:
        by[line["kind"]].append(line)
    if not by["hello"]:
        return None
    hello = by["hello"][0]
    if hello["rank"] != rank:
        raise ValueError(f"rank {hello['rank']} wrote the file of rank {rank}")
    return RankRows(
        rank=rank,
        node=node,
        met_s=hello["time"],
        slow_rows_of=str(hello.get("torch", "")) if hello.get("slow_rows") else None,
        calls=[_call(line) for line in by["call"]],
        marks_s=sorted(line["time"] for line in by["mark"]),
        logged=[
            Logged(line["time"], {name: float(value) for name, value in line["values"].items()})
            for line in sorted(by["log"], key=lambda line: float(line["time"]))
        ],
        groups={line["group"]: tuple(line["ranks"]) for line in by["group"]},
        compared=[
            Compared(line["group"], line["seq"], line["dtype"], float(line["largest_relative"])) for line in by["check"]
        ],
        overruns=[(line["time"], line["overrun_s"]) for line in by["pace"]],
        nonfinite=[(line["group"], line["seq"], line["where"]) for line in by["nonfinite"]],
        failed=[
            Failed(rank, line["group"], line["op"], line.get("seq"), printable(" ".join(why.split())))
            for line in sorted(by["failed"], key=lambda line: float(line.get("time") or 0.0))
            for why in [line["error"][:LONGEST_WHY]]  # a printable line, whatever a rank has written
        ],
    )


def _call(line: Mapping[str, Any]) -> Call:
    asked_s, done_s = line["asked_s"], max(line["done_s"], line["asked_s"])
    return Call(
        group=line["group"],
        sequence=line["seq"],
        op=line["op"],
        dtype=line["dtype"],
        nbytes=line["bytes"],
        asked_s=asked_s,
        done_s=done_s,
        waited_s=line.get("waited_s"),
        by=line["by"],
        ranks=max(1, line["ranks"]),
        root=line.get("root"),
        chained=bool(line.get("chained")),
        is_other=bool(line.get("other")),
        asking_s=line.get("asking_s") or 0.0,
        came_s=None if line.get("came_s") is None else min(max(line["came_s"], asked_s), done_s),
    )
