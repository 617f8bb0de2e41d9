"""Where a machine's capacity is kept, and what becomes of a file that cannot be believed."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from testbed.base.errors import OutputError
from testbed.capacity import cache
from testbed.machine.cgroups import limits

from .made_up import steps

HERE = {"cpu": "a CPU", "cores": 2, "kernel": "6.18.0", "machine": "abc"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "testbed" / "capacity.json"


def test_what_is_kept_is_known_again(path: Path) -> None:
    assert cache.keep(steps(), "2026-11-22", path, HERE) == path
    found = cache.known(path, HERE)
    assert found.capacity is not None
    assert (found.measured, found.trouble) == ("2026-11-22", "")
    assert list(found.capacity.steps) == steps()


def test_the_file_is_the_users_alone(path: Path) -> None:
    cache.keep(steps(), "2026-11-22", path, HERE)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "changed", [{"cores": 4}, {"cores": 0.5}, {"kernel": "6.19.0"}, {"cpu": "another"}, {"machine": "xyz"}]
)
def test_another_machine_is_not_known(path: Path, changed: dict[str, object]) -> None:
    cache.keep(steps(), "2026-11-22", path, HERE)
    assert cache.known(path, HERE | changed) == cache.Known()


def test_machines_stand_beside_each_other_and_a_new_measurement_takes_the_place_of_the_old(path: Path) -> None:
    cache.keep(steps(), "2026-11-20", path, HERE)
    cache.keep(steps(limit=1.0), "2026-11-21", path, HERE | {"machine": "xyz"})
    cache.keep(steps(limit=2.0), "2026-11-22", path, HERE)
    mine, other = cache.known(path, HERE), cache.known(path, HERE | {"machine": "xyz"})
    assert (mine.measured, other.measured) == ("2026-11-22", "2026-11-21")
    assert mine.capacity
    assert other.capacity
    assert mine.capacity.limit > other.capacity.limit
    assert len(json.loads(path.read_text())["machines"]) == 2


def test_of_many_machines_the_oldest_are_forgotten(path: Path) -> None:
    few = steps()[:3]
    for number in range(cache.MOST_MACHINES + 3):
        cache.keep(few, "2026-11-22", path, HERE | {"machine": str(number)})
    kept = [entry["machine"]["machine"] for entry in json.loads(path.read_text())["machines"]]
    assert kept == [str(number) for number in range(3, cache.MOST_MACHINES + 3)]


def _entry(**changes: object) -> str:
    entry = {"machine": HERE, "measured": "2026-11-22", "steps": [step.as_json() for step in steps()]}
    return json.dumps({"schema": cache.SCHEMA, "machines": [entry | changes]})


STEP = steps()[0].as_json()
DAMAGED = {
    "no JSON": "{",
    "no object": "[1]",
    "no machines": '{"schema": 3}',
    "machines that are none": '{"schema": 3, "machines": [7]}',
    "deep": "[" * 100_000,
    "no steps": _entry(steps=None),
    "a step without a load": _entry(steps=[{"network": "ring"}]),
    "a number that is none": _entry(steps=[STEP | {"idle": "much"}]),
    "a number below 0": _entry(steps=[STEP | {"load": STEP["load"] | {"chunks_s": -1}}]),
    "a load with more": _entry(steps=[STEP | {"load": STEP["load"] | {"more": 1}}]),
    "nothing certified": _entry(steps=[STEP | {"certified": False}]),
    "NaN": _entry().replace("1.01", "NaN"),
    "not text": "\udcff",
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_counts_as_nothing_measured_and_says_so(path: Path, name: str) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(DAMAGED[name], errors="surrogateescape")
    found = cache.known(path, HERE)
    assert found.capacity is None
    assert found.trouble == f"{path} is not used: it is damaged"
    cache.keep(steps(), "2026-11-22", path, HERE)  # and is replaced
    assert cache.known(path, HERE).capacity is not None


def test_a_file_of_another_version_counts_as_nothing_measured(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text('{"schema": 1, "machines": {"by": "name"}}')
    assert cache.known(path, HERE) == cache.Known()


def test_a_huge_file_is_not_read_to_its_end(path: Path) -> None:
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        file.truncate(2**40)
    assert cache.known(path, HERE).trouble == f"{path} is not used: it is too large"


def test_what_is_no_file_is_not_read(path: Path) -> None:
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    assert cache.known(path, HERE).trouble == f"{path} is not used: it is no file"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_somebody_elses_file_is_not_believed_and_their_folder_not_written_to(path: Path) -> None:
    cache.keep(steps(), "2026-11-22", path, HERE)
    os.chown(path, 1234, -1)
    assert cache.known(path, HERE).trouble == f"{path} is not used: it belongs to user 1234"
    os.chown(path.parent, 1234, -1)
    with pytest.raises(OutputError, match="belongs to user 1234"):
        cache.keep(steps(), "2026-11-22", path, HERE)


@pytest.mark.parametrize(
    ("given", "expected"),
    [("/x/y", "/x/y/testbed/capacity.json"), ("", "/home/u/.cache/testbed/capacity.json"), ("not/absolute", None)],
)
def test_the_place_is_the_one_for_caches(monkeypatch: pytest.MonkeyPatch, given: str, expected: str | None) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", given)
    monkeypatch.setenv("HOME", "/home/u")
    assert str(cache.place()) == (expected or "/home/u/.cache/testbed/capacity.json")


def test_this_machine_is_told_from_others() -> None:
    here = cache.machine()
    assert here == cache.machine()
    assert here["cores"] == limits().cores
    assert all(here.values())
