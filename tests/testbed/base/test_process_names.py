"""Names of processes."""

from __future__ import annotations

import pytest

from testbed.base.errors import SpecError
from testbed.base.process_names import check_name, file_name


@pytest.mark.parametrize("name", ["h3", "h3.daemon", "s0.aggregator", "a/h3", "a/h3.daemon", "leaf-1_b", "h" * 100])
def test_names_that_can_be(name: str) -> None:
    check_name(name)
    assert "/" not in file_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "/",
        "a/",
        "/h3",
        "a//h3",
        "../h3",
        "a/../h3",
        ".h3",
        "-h3",
        "h3\n",
        "h 3",
        "h" * 101,
        "h3+a",
        "hä",
    ],
)
def test_names_that_cannot(name: str) -> None:
    with pytest.raises(SpecError, match="a process cannot be called"):
        check_name(name)


def test_two_processes_have_no_file_in_common() -> None:
    assert file_name("a/h3") == "a+h3"
    names = ["a/h3", "a.h3", "a-h3", "a_h3", "h3", "a/h3.x", "a.h3/x"]
    assert len({file_name(name) for name in names}) == len(names)
