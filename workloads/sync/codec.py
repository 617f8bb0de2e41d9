"""A forest as a file that a worker loads, and as JSON that anyone can check."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import OutputError
from workloads.sync.forest import ROOT, Asynchronous, FixedPoint, Forest, Library, Parents

VERSION = 3


def encode(forest: Forest) -> dict[str, NDArray[Any]]:
    """All that a worker gets to know of ``forest``, by name."""
    fields: dict[str, Any] = {
        "version": VERSION,
        "scheme": forest.scheme,
        "nodes": forest.nodes,
        "workers": np.array(forest.workers, dtype=np.int32),
        "share": forest.share,
        "reduce": forest.reduce,
        "broadcast": forest.broadcast,
        "aligned": forest.aligned,
        "fixed": json.dumps(forest.fixed and asdict(forest.fixed)),
        "window": forest.window,
        "library": json.dumps(forest.library and asdict(forest.library)),
        "asynchronous": json.dumps(forest.asynchronous and asdict(forest.asynchronous)),
    }
    return {name: np.asarray(value) for name, value in fields.items()}


def save(forest: Forest, path: Path) -> None:
    """Write ``forest`` to one .npz file, under exactly that name.

    Raises:
        OutputError: the file cannot be written.
    """
    try:
        with path.open("wb") as file:
            np.savez(file, **encode(forest))  # type: ignore[arg-type]  # its stub takes the names for options
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
    library, fixed, asynchronous = (json.loads(str(fields[name])) for name in ("library", "fixed", "asynchronous"))
    return Forest(
        scheme=str(fields["scheme"]),
        nodes=tuple(str(name) for name in fields["nodes"]),
        workers=tuple(int(node) for node in fields["workers"]),
        share=fields["share"],
        reduce=fields["reduce"],
        broadcast=fields["broadcast"],
        aligned=bool(fields["aligned"]),
        fixed=FixedPoint(**fixed) if fixed else None,
        window=int(fields["window"]),
        library=Library(**library) if library else None,
        asynchronous=Asynchronous(**asynchronous) if asynchronous else None,
    )


def to_json(forest: Forest) -> dict[str, Any]:
    """Classes with their share and both trees as ``{node name: parent's name, or None for the root}``."""
    return {
        "scheme": forest.scheme,
        "workers": [forest.nodes[node] for node in forest.workers],
        "aligned": forest.aligned,
        "fixed": forest.fixed and asdict(forest.fixed),
        "window": forest.window,
        "library": forest.library and asdict(forest.library),
        "asynchronous": forest.asynchronous and asdict(forest.asynchronous),
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
