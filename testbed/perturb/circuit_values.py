"""Values by which a spec writes circuits, which the schema of specs has to know, whatever kind of perturbation has
them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator

from testbed.base.groups import listed, refuse


def _tuples(value: object) -> object:
    """Convert lists to tuples, as the expressions of topologies have them."""
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value


Tuples = Annotated[tuple[Any, ...], BeforeValidator(_tuples)]


def flipped(value: object) -> object:
    """Check the value of ``flip``: ``all``, or names."""
    if value is None or value == "all":
        return value
    names = listed(value)
    if not names or not all(isinstance(name, str) for name in names):
        raise refuse(f"{value!r} names no servers", "write flip: all, or flip: [h0, h3]")
    return names
