"""The order of the folders of ``testbed``: none is imported by one below it, and the picture shows what is held."""

from __future__ import annotations

import re
from pathlib import Path

import floors
import pytest

ROOT = Path(__file__).parents[2]
MOST_LOOSE = 12
"""Modules that lie in a folder, and not in a drawer of it."""


@pytest.fixture(scope="module")
def every() -> list[floors.Import]:
    return list(floors.imports(floors.modules()))


def test_no_import_goes_up_a_floor(every: list[floors.Import]) -> None:
    assert floors.upward(every, floors.floors()) == []


def test_no_folders_import_each_other_in_a_circle(every: list[floors.Import]) -> None:
    assert floors.circles(every) == []


def test_every_folder_has_a_floor(every: list[floors.Import]) -> None:
    known = {name for names in floors.floors() for name in names}
    assert known == {floors.folder(one.by) for one in every} - floors.ALONE


def test_the_picture_shows_the_floors_that_are_held() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    (picture,) = re.findall(r"^```text\n(cli .*?)^```", text, re.M | re.S)
    shown = [re.split(r"\s{2,}", line)[0].split(" | ") for line in picture.splitlines()]
    assert shown == floors.floors()
    assert len(text.splitlines()) <= 200


@pytest.mark.parametrize(
    "text",
    [
        "from testbed.spec.model import Spec",
        "from testbed import fidelity, spec",
        "import testbed.spec",
        "def late():\n    from testbed.spec import Spec",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from testbed.spec.model import Spec",
    ],
)
def test_an_import_is_seen_wherever_it_is(text: str) -> None:
    known = dict.fromkeys(("testbed", "testbed.spec", "testbed.spec.model", "testbed.fidelity"), Path())
    seen = [floors.Import("testbed.lab.base", of) for of in floors.imported(text, known)]
    ups = floors.upward(seen, [["fidelity"], ["spec"], ["lab"]])
    assert {floors.folder(one.of) for one in ups} >= {"spec"}


def test_neighbours_and_the_package_itself_count_as_above() -> None:
    seen = [floors.Import("testbed.a.x", "testbed.b.y"), floors.Import("testbed.a.x", "testbed")]
    assert floors.upward(seen, [["a", "b"]]) == seen
    assert (
        floors.upward(
            [floors.Import("testbed.a", "testbed.b"), floors.Import("testbed.a.x", "testbed.a")], [["a"], ["b"]]
        )
        == []
    )


def test_a_circle_is_found_whole() -> None:
    ways = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e"), ("e", "d"), ("e", "f")]
    seen = [floors.Import(f"testbed.{by}", f"testbed.{of}") for by, of in ways]
    assert sorted(map(sorted, floors.circles(seen))) == [["a", "b", "c"], ["d", "e"]]


@pytest.mark.parametrize("folder", ["workloads", "testbed/lab/netns", "testbed/lab/baremetal", "analysis"])
def test_many_modules_are_in_drawers(folder: str) -> None:
    assert len(list((ROOT / folder).glob("*.py"))) <= MOST_LOOSE
