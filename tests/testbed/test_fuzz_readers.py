"""A hundred files and more that were tampered with; ``benchmarks/fuzz_readers.py`` has 100,000 for each reader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fuzzing import Subject, fuzz

from benchmarks import fuzz_readers

INPUTS, REPORTS = 8, 1
SEED = 7


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("run")
    fuzz_readers.honest_run(folder)
    return folder


@pytest.fixture(scope="module")
def readers(run: Path) -> dict[str, Subject]:
    return {reader.called: reader for reader in fuzz_readers.readers(run)}


def test_no_reader_ends_in_a_traceback_hangs_or_swells(readers: dict[str, Subject]) -> None:
    refused = 0
    for reader in readers.values():
        tally = fuzz(reader, REPORTS if reader.share < 0.1 else INPUTS, SEED)
        assert not tally.findings, f"{reader.called}: {tally.counts}\n{''.join(tally.shown)}"
        refused += tally.counts["named errors"]
    assert refused > 45
