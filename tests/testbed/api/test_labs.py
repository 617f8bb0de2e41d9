from __future__ import annotations

from pathlib import Path

import pytest

from testbed.api.labs import lab_of
from testbed.base.errors import UsageError


@pytest.mark.parametrize(
    ("text", "overrides", "backend", "has_inventory", "lab"),
    [
        ("lab: machines", [], None, True, None),
        ("lab: netns", ["lab=machines"], None, True, None),
        ("lab: netns", [], "machines", True, "machines"),
        ("lab: machines", [], "baremetal", True, "baremetal"),
        ("lab: netns", [], None, True, "baremetal"),
        ("name: x", [], None, True, "baremetal"),
        ("lab: [machines", [], None, True, "baremetal"),  # its reader says what is wrong
        ("lab: machines", [], None, False, None),
        ("lab: machines", [], "netns", False, "netns"),
    ],
)
def test_an_inventory_leaves_a_lab_that_takes_one(
    tmp_path: Path, text: str, overrides: list[str], backend: str | None, has_inventory: bool, lab: str | None
) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(text + "\n")
    assert lab_of(spec, overrides, backend, tmp_path / "lab.yml" if has_inventory else None) == lab


def test_an_inventory_is_for_no_other_lab(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--inventory is for the lab baremetal or machines, not netns"):
        lab_of(tmp_path / "spec.yaml", [], "netns", tmp_path / "lab.yml")
