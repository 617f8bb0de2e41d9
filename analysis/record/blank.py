"""The record of a trial, or of a job, that has not got anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from testbed.analysis.record.fields import ABSENT, Part


def blank_of(part: type[Part], known: Mapping[str, Any], *, of_job: bool = False) -> dict[str, Any]:
    """What is known by key, and what a part has without it, in the order of its fields; ``of_job`` leaves out fields
    of a whole trial."""
    found = {}
    for field in part.all_fields:
        value = known.get(field.key, field.more.get("blank", ABSENT))
        if value is not ABSENT and not (of_job and field.more.get("is_whole")):
            found[field.key] = deepcopy(value)
    assert known.keys() <= found.keys(), f"not declared: {known.keys() - found.keys()}"
    return found
