"""Kinds of perturbations are listed once."""

from __future__ import annotations

from pydantic import TypeAdapter

from testbed.spec import perturb
from testbed.spec.base import Group
from testbed.spec.perturb import PERTURBATIONS, Perturbations


def test_every_group_with_a_kind_can_be_asked_for() -> None:
    groups = [one for one in vars(perturb).values() if isinstance(one, type) and issubclass(one, Group)]
    assert list(PERTURBATIONS.values()) == [one for one in groups if "kind" in one.model_fields]


def test_the_kind_says_which_group_is_read() -> None:
    (found,) = TypeAdapter(Perturbations).validate_python({"kind": "rate", "share": "50 %"})
    assert type(found) is PERTURBATIONS["rate"] is perturb.Step
