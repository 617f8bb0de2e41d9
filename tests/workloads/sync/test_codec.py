"""A forest survives its file, and its JSON says what it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from testbed.base.errors import OutputError
from testbed.topologies.model import Topology
from testbed.workloads import kinds
from testbed.workloads.kinds import load, save
from testbed.workloads.sync.schemes import build

Build = Callable[..., Topology]


@pytest.mark.parametrize("scheme", ["ps", "ps(place=tensor)", "ring", "bml", "rina", "atp(scale=0.1,slots=3)"])
def test_there_and_back(topology: Build, tmp_path: Path, scheme: str) -> None:
    forest = build(scheme, topology("bcube(n=2,k=2,ina=all)"), [3, 5, 7])
    save(forest, tmp_path / "forest")
    again = load(tmp_path / "forest")
    for name in ("scheme", "nodes", "workers", "aligned", "fixed", "window"):
        assert getattr(again, name) == getattr(forest, name)
    for name in ("share", "reduce", "broadcast"):
        assert np.array_equal(getattr(again, name), getattr(forest, name))
        assert getattr(again, name).dtype == getattr(forest, name).dtype


def test_who_runs_it_is_kept(topology: Build, tmp_path: Path) -> None:
    forest = build("openmpi(algorithm=ring)", topology("star(hosts=3)"), [])
    save(forest, tmp_path / "forest")
    assert forest.run_by
    assert load(tmp_path / "forest").run_by == forest.run_by


@pytest.mark.parametrize(
    "scheme", ["async_ps", "ssp(staleness=2)", "async_ps(replication=chain)", "ps(colocated=false)"]
)
def test_how_long_workers_wait_is_kept(topology: Build, tmp_path: Path, scheme: str) -> None:
    forest = build(scheme, topology("star(hosts=3)"), [])
    save(forest, tmp_path / "forest")
    again = load(tmp_path / "forest")
    assert again.run_by == forest.run_by
    assert kinds.of(again).pairs(again) == kinds.of(forest).pairs(forest)


def test_what_a_plan_does_not_have_leaves_its_identity_alone(topology: Build) -> None:
    forest = build("ssp(staleness=2)", topology("star(hosts=3)"), [])
    assert str(kinds.of(forest).encode(forest)["asynchronous"]) == '{"staleness": 2}'


def test_json(topology: Build) -> None:
    forest = build("ring", topology("star(hosts=3)"), [])
    text = json.dumps(kinds.of(forest).to_json(forest))
    assert json.loads(text) == {
        "scheme": "ring",
        "workers": ["h0", "h1", "h2"],
        "aligned": False,
        "fixed": None,
        "window": 0,
        "library": None,
        "asynchronous": None,
        "classes": [
            {
                "share": 1,
                "reduce": {"h0": None, "h1": "h2", "h2": "h0"},
                "broadcast": {"h0": None, "h1": "h0", "h2": "h1"},
            },
            {
                "share": 1,
                "reduce": {"h0": "h1", "h1": None, "h2": "h0"},
                "broadcast": {"h0": "h2", "h1": None, "h2": "h1"},
            },
            {
                "share": 1,
                "reduce": {"h0": "h1", "h1": "h2", "h2": None},
                "broadcast": {"h0": "h2", "h1": "h0", "h2": None},
            },
        ],
    }


def test_texts(topology: Build, tmp_path: Path) -> None:
    forest = build("ring", topology("star(hosts=3)"), [])
    with pytest.raises(OutputError, match=r"cannot write the forest .*: No such file or directory"):
        save(forest, tmp_path / "nowhere" / "forest")
    with pytest.raises(OutputError, match="as a forest"):
        load(tmp_path / "absent")
    (tmp_path / "text").write_text("no forest")
    with pytest.raises(OutputError, match="as a forest"):
        load(tmp_path / "text")
    np.savez(tmp_path / "other.npz", version=99)
    with pytest.raises(OutputError, match="version 99, not 3"):
        load(tmp_path / "other.npz")
