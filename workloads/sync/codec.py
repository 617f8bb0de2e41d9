"""A forest as a file that a worker loads, and as JSON that anyone can check."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from testbed.errors import OutputError
from workloads.sync.forest import ROOT, FixedPoint, Forest, Parents

VERSION = 2


def save(forest: Forest, path: Path) -> None:
    """Write ``forest`` to one .npz file, under exactly that name.

    Raises:
        OutputError: the file cannot be written.
    """
    try:
        with path.open("wb") as file:
            np.savez(
                file,
                version=VERSION,
                scheme=forest.scheme,
                nodes=np.array(forest.nodes),
                workers=np.array(forest.workers, dtype=np.int32),
                share=forest.share,
                reduce=forest.reduce,
                broadcast=forest.broadcast,
                aligned=forest.aligned,
                fixed=_numbers(forest.fixed),
                window=forest.window,
            )
    except OSError as error:
        raise OutputError(f"cannot write the forest {path}: {error.strerror}", fix="choose another place") from error


def load(path: Path) -> Forest:
    """Read what :func:`save` wrote.

    Raises:
        OutputError: the file is missing, is no forest, or has another version.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            fields = {name: file[name] for name in file.files}
        version = int(fields["version"])
    except (OSError, ValueError, KeyError) as error:
        raise OutputError(f"cannot read {path} as a forest: {error}", fix="let the harness write it again") from error
    if version != VERSION:
        raise OutputError(f"{path} holds a forest of version {version}, not {VERSION}", fix="write it again")
    return Forest(
        scheme=str(fields["scheme"]),
        nodes=tuple(str(name) for name in fields["nodes"]),
        workers=tuple(int(node) for node in fields["workers"]),
        share=fields["share"],
        reduce=fields["reduce"],
        broadcast=fields["broadcast"],
        aligned=bool(fields["aligned"]),
        fixed=_fixed(fields["fixed"]),
        window=int(fields["window"]),
    )


def _numbers(fixed: FixedPoint | None) -> NDArray[np.float64]:
    """Scale (NaN where each block has its own) and slots; nothing where gradients are floats."""
    return np.array([] if fixed is None else [math.nan if fixed.scale is None else fixed.scale, fixed.slots])


def _fixed(numbers: NDArray[np.float64]) -> FixedPoint | None:
    if not len(numbers):
        return None
    scale, slots = numbers.tolist()
    return FixedPoint(None if math.isnan(scale) else scale, int(slots))


def to_json(forest: Forest) -> dict[str, Any]:
    """Classes with their share and both trees as ``{node name: parent's name, or None for the root}``."""
    return {
        "scheme": forest.scheme,
        "workers": [forest.nodes[node] for node in forest.workers],
        "aligned": forest.aligned,
        "fixed": None if forest.fixed is None else asdict(forest.fixed),
        "window": forest.window,
        "classes": [
            {
                "share": int(forest.share[c]),
                "reduce": _tree(forest.nodes, forest.reduce[c]),
                "broadcast": _tree(forest.nodes, forest.broadcast[c]),
            }
            for c in range(forest.classes)
        ],
    }


def _tree(nodes: tuple[str, ...], parents: Parents) -> dict[str, str | None]:
    return {
        name: None if parent == ROOT else nodes[parent]
        for name, parent in zip(nodes, parents.tolist(), strict=True)
        if parent >= ROOT
    }
