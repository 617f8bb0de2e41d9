"""Whatever a spec holds, its errors are our words about the key that holds it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, ValidationError

from testbed.base.errors import SpecError
from testbed.spec import load, read
from testbed.spec.explain import explain
from testbed.spec.links import Links
from testbed.spec.model import Spec
from testbed.spec.options import LAB_OPTIONS
from testbed.spec.perturb import PERTURBATIONS
from testbed.spec.workload.base import ComputeTime
from testbed.spec.workload.kinds import KINDS

BASE: dict[str, Any] = {
    "name": "a",
    "links": {"rate": "200 Mbit/s"},
    "workload": {"model": "lenet5", "dataset": "digits", "batch": [2], "iterations": 3, "compute": "none"},
    "arms": [{"topology": "star(hosts=3)", "scheme": "ring"}],
}
WRONG = (
    *(None, "", "x", "x" * 200, "\ud800", b"x", -1, 0, 1.5, float("nan"), float("inf"), 10**400, True, (1,)),
    *([], [[]], [None], ["x"] * 2000, {}, {"a": 1}, {1: 2}, {None: None}, {"kind": "x"}, {"kind": ["x"]}),
)


def keys(group: type[BaseModel]) -> Iterator[str]:
    return (field.alias or name for name, field in group.model_fields.items())


def specs(wrong: object) -> Iterator[dict[str, Any]]:
    """The base with this value in each place of the schema."""
    yield from ({**BASE, key: wrong} for key in keys(Spec))
    yield from ({**BASE, "links": {**BASE["links"], key: wrong}} for key in keys(Links))
    yield from ({**BASE, lab: {key: wrong}} for lab, group in LAB_OPTIONS.items() for key in keys(group))
    yield from ({**BASE, "repeats": {"until": "3 %", key: wrong}} for key in ("until", "most", "least"))
    yield from ({**BASE, "arms": [{**BASE["arms"][0], key: wrong}]} for key in ("label", "scheme", "perturb"))
    for kind, group in KINDS.items():
        yield from ({**BASE, "workload": {**BASE["workload"], "kind": kind, key: wrong}} for key in keys(group))
    for key in keys(ComputeTime):
        yield {**BASE, "workload": {**BASE["workload"], "compute": {key: wrong}}}
    for kind, group in PERTURBATIONS.items():
        yield from ({**BASE, "perturb": [{"kind": kind, key: wrong}]} for key in keys(group))


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: repr(wrong)[:20])
def test_every_type_of_error_that_a_spec_meets_has_words(wrong: object) -> None:
    met = 0
    for spec in specs(wrong):
        try:
            Spec.model_validate(spec)
        except ValidationError as error:
            met += 1
            for told in explain(error, "spec.yaml"):
                assert told.problem.startswith("spec.yaml: ")
                assert told.fix
                assert "literal[" not in told.problem
                assert "function-" not in told.problem
                assert "Input should" not in told.problem
    assert met


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("docker.image=''", "docker.image: empty text\n  fix: write it as image: testbed-worker"),
        ("perturb={kind: rates, shares: {}}", "perturb.0.shares: an empty group\n  fix: give at least 1"),
        (
            "lab=nets",
            "lab: 'nets' is not one of: netns, mininet, docker, baremetal, machines, simulator\n"
            "  fix: did you mean 'netns'?",
        ),
        (
            "perturb={kind: circuits, flip: 3}",
            "perturb.0.flip: 3 names no servers\n  fix: write flip: all, or flip: [h0, h3]",
        ),
    ],
)
def test_the_error_says_what_the_value_is_and_what_mends_it(override: str, told: str) -> None:
    with pytest.raises(SpecError) as caught:
        read(json.dumps(BASE), "spec.yaml", Path(), [override])
    short = " or --backend" if override.startswith("lab=") else ""
    assert str(caught.value) == f"--set{short}: {told}"


def test_a_text_is_parsed_once_however_many_mistakes_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parsing it for each mistake took nine minutes of 5,000."""
    path, parsed = tmp_path / "spec.yaml", []

    def compose(text: str, loader: Any) -> yaml.Node | None:
        parsed.append(text)
        return composed(text, loader)

    composed = yaml.compose
    monkeypatch.setattr(yaml, "compose", compose)
    path.write_text(json.dumps({**BASE, "perturb": list(range(100))}))
    with pytest.raises(SpecError, match="and 92 more mistakes"):
        load(path)
    assert len(parsed) == 1
