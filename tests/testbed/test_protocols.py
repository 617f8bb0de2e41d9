"""A few hundred inputs for each reader of a connection; ``benchmarks/fuzz_protocols.py`` gives each 100,000."""

from __future__ import annotations

import functools

import pytest
from fuzzing import Subject, fuzz

from benchmarks import fuzz_protocols

NAMES = [
    *("agents, requests", "agents, answers", "hosts, facts", "hosts, bursts", "up, requests", "exec, answers"),
    *("docker wire", "workers, greetings", "engine, ring", "engine, server", "compiled, ring"),
    *("compiled, server", "engine, switch"),
    *("engine, below a switch", "parameter server", "its workers", "two parameter servers", "their workers"),
    *("server with a replica", "replica", "box, core", "box, core of a rack", "box, manager", "box, worker"),
]


@functools.cache
def protocols() -> dict[str, Subject]:
    return {one.called: one for one in fuzz_protocols.protocols()}


def test_all_are_tried() -> None:
    assert list(protocols()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_what_was_tampered_with_is_taken_or_refused_by_name(name: str) -> None:
    tally = fuzz(protocols()[name], 200, seed=1)
    assert not tally.findings, "\n".join(tally.shown)
    assert tally.inputs == 200
    assert tally.counts["named errors"] > 0
