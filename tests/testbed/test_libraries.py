"""Gloo and Open MPI in a real lab: the same training, the same weights, and what happens when a rank dies."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import SPEC, Called
from .test_run import Started, call, start

__all__ = ["start"]  # a fixture

pytestmark = pytest.mark.lab
needs_open_mpi = pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs mpirun: apt-get install openmpi-bin")

SCHEMES = ["gloo", "gloo(algorithm=reduce_broadcast)"]
MPI = ["openmpi", "openmpi(algorithm=ring)", "openmpi(algorithm=rabenseifner)"]


def spec(schemes: list[str], **changes: str) -> str:
    head = SPEC[: SPEC.index("arms:")].replace("200 Mbit/s", "500 Mbit/s")
    arms = "".join(f'  - {{topology: star(hosts=4), scheme: "{scheme}"}}\n' for scheme in schemes)
    text = f"{head}arms:\n{arms}timeout: 20 s\n"
    for old, new in changes.items():
        text = text.replace(f"{old}: 3", f"{old}: {new}")
    return text


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """By scheme, the trial's record, of a run with every library that is here."""
    folder = tmp_path_factory.mktemp("libraries")
    schemes = SCHEMES + (MPI if shutil.which("mpirun") else [])
    (folder / "spec.yaml").write_text(spec(["ring", *schemes]))
    done = call(folder, "run", "spec.yaml", "--out", "out")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (folder / "out" / "report.html").stat().st_size > 100_000
    found = [json.loads(path.read_text()) for path in (folder / "out" / "trials").iterdir()]
    return {record["scheme"]: record for record in found}


@pytest.mark.parametrize("scheme", [*SCHEMES, *(pytest.param(scheme, marks=needs_open_mpi) for scheme in MPI)])
def test_a_library_trains_as_our_engine_does(records: dict[str, dict[str, Any]], scheme: str) -> None:
    record = records[scheme]
    assert (record["status"], record["error"]) == ("done", None)
    assert record["accuracy"]["weights_equal"] is True
    assert record["accuracy"]["weights_error"] < 1e-5
    assert record["metrics"]["gst_theory_s"] == pytest.approx(records["ring"]["metrics"]["gst_theory_s"])
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
    for link in records[scheme]["links"]:
        assert link["bytes"] == pytest.approx(link["theory_bytes"], rel=0.03)
    assert check(records[scheme], "bytes on the wire")["value"] == pytest.approx(0, abs=0.03)


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


def check(record: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [one for one in record["fidelity"]["checks"] if one["name"] == name]
    return found


@pytest.mark.parametrize("scheme", ["gloo", pytest.param("openmpi", marks=needs_open_mpi)])
def test_a_rank_that_is_killed_is_named_and_the_next_trial_goes_on(start: Callable[..., Started], scheme: str) -> None:
    run = start(spec([scheme, "ring"], iterations="25"))
    run.until(lambda: run.trains(f"{scheme}-star4-b2"))
    os.kill(run.worker(f"{scheme}-star4-b2", "h2"), signal.SIGKILL)
    code, out, _ = run.end()
    assert code == 1
    assert f"[1/2] {scheme}-star4-b2: FAILED: the worker on h2 was killed by SIGKILL" in out
    assert "[2/2] ring-star4-b2: GST " in out


@needs_open_mpi
def test_an_mpirun_that_fails_is_told_with_what_it_says(tmp_path: Path) -> None:
    """An orted that is not there: mpirun's own words are in the log of rank 0, whose end the error quotes."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "mpirun").write_text("#!/bin/sh\necho 'no daemon can be started here' >&2\nexit 7\n")
    (tools / "mpirun").chmod(0o755)
    (tmp_path / "spec.yaml").write_text(spec(["openmpi"]))
    path = os.environ["PATH"]
    os.environ["PATH"] = f"{tools}:{path}"
    try:
        done = call(tmp_path, "run", "spec.yaml", "--out", "out")
    finally:
        os.environ["PATH"] = path
    assert done.returncode == 1
    assert (
        "the worker on h0 ended with exit status 1: mpirun ended with exit status 7 before it had started"
        in done.stdout
    )
    assert "| no daemon can be started here" in done.stdout


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
