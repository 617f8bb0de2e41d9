"""The shape that readers hold a record against, from its declared fields: see :mod:`testbed.files.shape`.

Fields that no reader uses may be anything, unless they say that they are checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from testbed.analysis.record.fields import Field, Part, element, is_mapping, is_part, present
from testbed.files.shape import EACH, Shape


def shape_of(part: type[Part]) -> Mapping[str, Shape]:
    """The shape of a part's JSON."""
    shape: dict[str, Any] = dict(part.bounds or {})
    if shape:
        return shape
    for field in part.all_fields:
        if field.is_checked:
            *path, last = field.key.split(".")
            inside = shape
            for name in path:
                inside = inside.setdefault(name, {})
            inside[last] = _shape(field, field.type)
    return shape


def _shape(field: Field, type_: Any) -> Shape:
    """The shape of a field's values, or of those in it, which are of a type."""
    bound, into = field.more.get("bound"), element(type_)
    if isinstance(bound, list):
        return bound
    if into is not None:
        return {EACH: _shape(field, into)} if is_mapping(type_) else [_shape(field, into)]
    part = bound if is_part(bound) else present(type_)
    return shape_of(part) if is_part(part) else field.kind
