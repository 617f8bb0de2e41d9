"""Whole trials, with the nodes of each network on two and on three machines: as in the lab ``netns``."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from testbed.base.python import module_command
from tests.rehearsal.rehearsal import PATH, Rehearsal

pytestmark = [pytest.mark.lab, pytest.mark.rehearse]
SPEC = """\
name: alike
links: {rate: 100 Mbit/s}
workload: {kind: profile, model: lenet5, batch: 2, iterations: 2, compute: {pace: {2: 0.1 s}}}
arms:
  - {topology: star(hosts=9), scheme: [ring, ps]}
  - {topology: "bcube(n=3,k=2)", scheme: bml}
  - {topology: "patch_panel(servers=6,degree=2)", scheme: ring}
retries: 0
quiet: 0 s
"""
NEAR = 0.01
"""By how much the bytes of a link may differ in two labs: packets that only acknowledge are as many as chance makes."""


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The trials in ``netns``."""
    return records(tmp_path_factory.mktemp("netns"), "--backend", "netns")


def records(folder: Path, *more: str) -> list[dict[str, Any]]:
    (folder / "spec.yaml").write_text(SPEC)
    words = ["run", str(folder / "spec.yaml"), "--out", str(folder / "run"), "--json", *more]
    done = subprocess.run(module_command("testbed", *words), text=True, capture_output=True, env=PATH)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found: list[dict[str, Any]] = json.loads(done.stdout)["trials"]
    assert (folder / "run" / "queues" / f"{found[-1]['id']}.parquet").stat().st_size
    return found


@pytest.fixture(params=[2, 3])
def machines(request: pytest.FixtureRequest, tunnelled: Rehearsal) -> Iterator[Path]:
    """Inventory of so many machines."""
    count = request.param
    left_out = tunnelled.names[count:]
    yield tunnelled.write_inventory(lambda hosts: [hosts.pop(name) for name in left_out], outside=True)
    tunnelled.write_inventory(outside=True)


def planned(links: Sequence[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return each link of a plan, with the bytes that the forest says."""
    return [(one["link"], one["from"], one["to"], one["rate_bps"], one["theory_bytes"]) for one in links]


def test_forests_bytes_and_sums_are_those_of_netns(
    local: Sequence[dict[str, Any]], machines: Path, tmp_path: Path
) -> None:
    spread = records(tmp_path, "--backend", "machines", "--inventory", str(machines))
    assert [one["scheme"] for one in spread] == ["ring", "ps", "bml", "ring"]
    for there, here in zip(spread, local, strict=True):
        assert (there["id"], there["status"]) == (here["id"], "done")
        assert there["sums"] == here["sums"]
        assert there["sums"]["checked_elements"] > there["sums"]["wrong_elements"] == 0
        assert planned(there["links"]) == planned(here["links"])
        for ours, theirs in zip(there["links"], here["links"], strict=True):
            assert ours["bytes"] == pytest.approx(theirs["bytes"], rel=NEAR, abs=10_000), (ours, theirs)
        (check,) = [one for one in there["fidelity"]["checks"] if one["name"] == "bytes on the wire"]
        assert check["ok"], check
        assert there["queues"]["readings"] > 1
