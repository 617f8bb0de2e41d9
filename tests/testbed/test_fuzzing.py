"""``benchmarks/fuzzing.py`` finds what a reader must not do, and goes on with the next input."""

from __future__ import annotations

import os
import time
from dataclasses import replace

import fuzzing
import pytest
from fuzzing import Subject, Take, fuzz

from testbed.base.errors import TestbedError


def take(content: bytes) -> None:
    if content == b"refused":
        raise TestbedError("no")
    if content == b"ends":
        os._exit(3)
    if content == b"hangs":
        time.sleep(60)
    if content == b"swells":
        bytearray(fuzzing.SWELL_BYTES + 2**24)
    if content == b"reserves":
        bytearray(4 * fuzzing.SWELL_BYTES)
    if content == b"wrong":
        raise KeyError("wrong")


def subject(*honest: bytes) -> Subject:
    return Subject("a reader", honest, lambda _, one: one, lambda: take)


@pytest.mark.parametrize(
    ("content", "outcome", "why"),
    [
        (b"wrong", "tracebacks", "KeyError: 'wrong'"),
        (b"ends", "tracebacks", "ends its process with 3"),
        (b"swells", "swellings", "it took 21"),
        (b"reserves", "swellings", "MemoryError"),
    ],
)
def test_each_finding_is_counted_and_shown(content: bytes, outcome: str, why: str) -> None:
    tally = fuzz(subject(content), 2, seed=1)
    assert (tally.inputs, tally.findings, tally.counts[outcome]) == (2, 2, 2)
    assert len(tally.shown) == 2
    assert "input 1" in tally.shown[1]
    assert why in tally.shown[1]


def test_an_input_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzzing, "HANG_S", 0.2)
    tally = fuzz(subject(b"hangs"), 1, seed=1)
    assert (tally.inputs, tally.counts["hangs"]) == (1, 1)
    assert tally.shown == ["input 0 takes more than 0.2 s"]


def test_what_is_taken_or_refused_is_no_finding() -> None:
    tally = fuzz(subject(b"taken", b"refused"), 40, seed=1)
    assert (tally.inputs, tally.findings) == (40, 0)
    assert tally.counts["named errors"] > 5
    assert tally.counts["accepted"] > 5


def test_a_reader_that_does_not_take_what_is_honest_is_named() -> None:
    def begin() -> Take:
        raise KeyError("honest")

    with pytest.raises(SystemExit, match=r"(?s)a reader: the reader does not begin.*KeyError: 'honest'"):
        fuzz(replace(subject(b""), begin=begin), 1, seed=1)
