"""Plans that a controller tells workers while they train, in a file: a line for each.

A line is JSON: ``{"time": when it was told (time.monotonic), "plan": its number, from 1 on, "parents": [[..], ..]}``.
``parents`` are int[classes][hosts], the parent of each host in a class's tree, or ``ROOT``. Sums go back along the same
trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from testbed.base.bounded_json import parse_json
from testbed.base.errors import SchemeError
from testbed.workloads.sync.forest import ABSENT, Forest, Parents
from testbed.workloads.sync.verify import check_sums

NAME = "plans.jsonl"
"""The file of told plans, beside that of the first plan."""


def told(time_s: float, number: int, parents: Parents) -> dict[str, Any]:
    """Make a line, before it is JSON."""
    return {"time": time_s, "plan": number, "parents": parents.tolist()}


def read(line: bytes) -> tuple[int, Any]:
    """Return the number of the plan in a line, and its parents, which may be anything.

    Raises:
        ValueError: the line is no plan.
    """
    said = parse_json(line)
    if not isinstance(said, dict) or type(said.get("plan")) is not int or said["plan"] < 1:
        raise ValueError(f"{said!r:.40} has no number of a plan")
    return said["plan"], said.get("parents")


def along(forest: Forest, parents: Sequence[Sequence[int]] | Parents | Any) -> Forest:
    """Return the forest with other trees, the same for both ways, after a check that they make all sums.

    Raises:
        SchemeError: the trees do not, or are not those of as many classes and hosts.
    """
    hosts = len(forest.workers)
    fix = f"tell {forest.classes} lists of {hosts} whole numbers"
    try:
        trees = np.array(parents)
    except ValueError:  # lists of several lengths
        trees = np.empty(0)
    if trees.shape != (forest.classes, hosts) or trees.dtype.kind != "i":
        raise SchemeError(
            f"its parents are {trees.dtype}{list(trees.shape)}, not int[{forest.classes}, {hosts}]", fix=fix
        )
    if not (trees.min() >= -2 and trees.max() < hosts):
        raise SchemeError(f"its parents are {trees.min()} to {trees.max()}, of {hosts} hosts", fix=fix)
    reduce = np.full_like(forest.reduce, ABSENT)
    reduce[:, list(forest.workers)] = trees
    other = replace(forest, reduce=reduce, broadcast=reduce)
    check_sums(other)
    return other
