"""Gloo and Open MPI in a real lab: the same training, the same weights, and what happens when a rank dies."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed.execution.so_far import SoFar
from testbed.lab.base import LARGE_PACKET_BYTES
from testbed.workloads.sync.connection import LAST_PACKET_BYTES
from testbed.workloads.sync.cost import goodput

from ..bench import Bench
from ..conftest import SPEC, Called
from ..records import carried_what_the_forest_says, check

pytestmark = pytest.mark.lab
needs_open_mpi = pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs mpirun: apt-get install openmpi-bin")

SCHEMES = ["gloo", "gloo(algorithm=reduce_broadcast)"]
PLAYED = """\
name: played
links: {rate: 40 Gbit/s}
workload: {kind: profile, model: resnet50, batch: 32, iterations: 20, scale: 200, compute: {pace: {32: 0.1 s}}}
arms: [{topology: star(hosts=4), scheme: SCHEME}]
timeout: 20 s
retries: 0
quiet: 0 s
"""
MPI = ["openmpi", "openmpi(algorithm=ring)", "openmpi(algorithm=rabenseifner)"]


def spec(schemes: list[str]) -> str:
    head = SPEC[: SPEC.index("arms:")].replace("200 Mbit/s", "50 Mbit/s").replace("lenet5", "resnet8")
    arms = "".join(f'  - {{topology: star(hosts=4), scheme: "{scheme}"}}\n' for scheme in schemes)
    return f"{head}arms:\n{arms}timeout: 20 s\nretries: 0\nquiet: 0 s\n"


@pytest.fixture(scope="module")
def records(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """By scheme, the record of a trial with every library that is here."""
    schemes = SCHEMES + (MPI if shutil.which("mpirun") else [])
    outcomes = bench.run(spec(["ring", *schemes]), tmp_path_factory.mktemp("libraries"))
    return {one.record["scheme"]: one.record for one in outcomes}


@pytest.mark.parametrize("scheme", [*SCHEMES, *(pytest.param(scheme, marks=needs_open_mpi) for scheme in MPI)])
def test_a_library_trains_as_our_engine_does(records: dict[str, dict[str, Any]], scheme: str) -> None:
    record = records[scheme]
    assert (record["status"], record["error"]) == ("done", None)
    assert record["accuracy"]["weights_equal"] is True
    assert record["accuracy"]["weights_error"] < 1e-5
    # A library's last packet is as long as TCP makes it, which passes before its time; our engine's stands alone.
    longer_bytes = LARGE_PACKET_BYTES[0] - LAST_PACKET_BYTES
    early_s = 8 * longer_bytes / (min(link["rate_bps"] for link in record["links"]) * goodput(1500))
    ours_s = records["ring"]["metrics"]["gst_theory_s"]
    assert record["metrics"]["gst_theory_s"] == pytest.approx(ours_s - early_s, rel=0.01)
    assert record["metrics"]["gst_ratio"] > 0.97
    assert record["metrics"]["wire_bytes"] is None  # a library does not say
    assert record["congestion_control"] == ["reno"]
    assert len(record["probes"]) == 4


@pytest.mark.parametrize(
    "scheme",
    [
        "gloo",
        pytest.param("openmpi(algorithm=ring)", marks=needs_open_mpi),
        pytest.param("openmpi(algorithm=rabenseifner)", marks=needs_open_mpi),
    ],
)
def test_the_kernel_counts_the_bytes_of_the_forest_that_a_library_follows(
    records: dict[str, dict[str, Any]], scheme: str
) -> None:
    carried_what_the_forest_says(records[scheme])


@needs_open_mpi
def test_of_an_algorithm_that_is_not_ours_the_bytes_are_not_known(records: dict[str, dict[str, Any]]) -> None:
    record = records["openmpi"]
    assert {link["theory_bytes"] for link in record["links"]} == {None}
    assert record["metrics"]["wire_bytes_theory"] is None
    found = check(record, "bytes on the wire")
    assert (found["value"], found["detail"][:9]) == (None, "not known")


@needs_open_mpi
def test_a_library_that_polls_is_only_believed_where_links_set_the_time(records: dict[str, dict[str, Any]]) -> None:
    for scheme in MPI:
        record = records[scheme]
        found = check(record, "CPU headroom")
        assert found["ok"] == (record["metrics"]["gst_ratio"] <= 1.05)
        assert found["detail"].startswith("openmpi polls while it waits")
        assert "run queue" not in {one["name"] for one in record["fidelity"]["checks"]}


@pytest.mark.parametrize("scheme", ["gloo", pytest.param("openmpi", marks=[needs_open_mpi, pytest.mark.rehearse])])
def test_a_rank_that_is_killed_is_named(bench: Bench, tmp_path: Path, scheme: str) -> None:
    def tick(iterations: int, _: SoFar) -> None:
        if iterations > 2:
            bench.lab.signal("h2", signal.SIGKILL)

    (outcome,) = bench.run(PLAYED.replace("SCHEME", scheme), tmp_path, tick)
    assert outcome.record["error"].startswith("the worker on h2 was killed by SIGKILL")


@needs_open_mpi
def test_an_mpirun_that_fails_is_told_with_what_it_says(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An orted that is not there: mpirun's own words are in the log of rank 0, whose end the error quotes."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "mpirun").write_text("#!/bin/sh\necho 'no daemon can be started here' >&2\nexit 7\n")
    (tools / "mpirun").chmod(0o755)
    bench.close()
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")  # for a new lab's processes
    (outcome,) = bench.run(PLAYED.replace("SCHEME", "openmpi"), tmp_path)
    error = outcome.record["error"]
    assert error.startswith(
        "the worker on h0 ended with exit status 1: mpirun ended with exit status 7 before it had started"
    )
    assert "| no daemon can be started here" in error


def test_without_open_mpi_nothing_is_started(
    testbed: Callable[..., Called], spec_file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spec_file.write_text(spec(["ring", "openmpi"]))
    monkeypatch.setenv("PATH", str(tmp_path))
    called = testbed("run", "spec.yaml", "--out", "out")
    assert (called.code, called.err) == (
        2,
        "error: scheme openmpi needs mpirun, which is not installed\n  fix: sudo apt-get install openmpi-bin\n",
    )
    assert not (tmp_path / "out").exists()
