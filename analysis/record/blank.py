"""The record of a trial, or of a job, that has not got anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from testbed.analysis.record.fields import ABSENT, Part


def blank_of(part: type[Part], known: Mapping[str, Any], *, of_job: bool = False) -> dict[str, Any]:
    """The JSON of a part of which only some values are known, by key: these, and the blank values of other fields, in
    the order of the fields. ``of_job`` leaves out fields of a whole trial."""
    filled = {}
    for field in part.all_fields:
        value = known.get(field.key, field.more.get("blank", ABSENT))
        if value is not ABSENT and not (of_job and field.more.get("is_whole")):
            filled[field.key] = deepcopy(value)
    assert known.keys() <= filled.keys(), f"not declared: {known.keys() - filled.keys()}"
    return filled
