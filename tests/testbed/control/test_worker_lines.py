"""Lines of a trial's processes that are not as processes write them."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.control.worker_lines import check_said, said

SAMPLE = {"kind": "iteration", "i": 0, "rank": 0, "node": 0, "start": 1.0, "ready": 1.1, "sum": 1.2, "end": 1.3}
SAMPLE |= {"loss": None, "compute_s": 0.1, "wait_s": None}


def test_what_a_worker_writes_is_taken() -> None:
    check_said(SAMPLE)
    check_said(SAMPLE | {"loss": float("nan")})  # training may diverge, and is told of elsewhere
    check_said({"kind": "request", "rings": "whatever"})


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ({"kind": "joke"}, "no process writes a line of the kind 'joke'"),
        ({key: value for key, value in SAMPLE.items() if key != "sum"}, "a line of the kind iteration has no sum"),
        (SAMPLE | {"rank": "0"}, r"iteration\.rank is '0', no whole number"),
        (SAMPLE | {"end": float("inf")}, r"iteration\.end is inf, no moment"),
        (SAMPLE | {"end": 1e300}, r"iteration\.end is 1e\+300, no moment"),
        (SAMPLE | {"cpu_s": [1]}, r"iteration\.cpu_s is \[1\], no finite number"),
        (SAMPLE | {"x": 1}, "a line of the kind iteration has 'x'"),
    ],
)
def test_what_none_writes_is_named(line: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        check_said(line)


@pytest.mark.parametrize("line", [b"5", b"[]", b"{}", b'{"kind": 1}', pytest.param(b"[" * 100_000, id="deep"), b"x"])
def test_a_line_is_an_object_of_some_kind(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        said(line)
