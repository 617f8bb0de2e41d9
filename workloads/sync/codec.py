"""A forest as a file that a worker loads, and as JSON that anyone can check."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import OutputError
from testbed.workloads.sync.forest import ROOT, FixedPoint, Forest, Parents, RunBy

VERSION = 3


def encode(forest: Forest, run_by: Mapping[str, str]) -> dict[str, NDArray[Any]]:
    """Encode all that a worker gets to know of ``forest``, by name; ``run_by`` says in JSON who runs it."""
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
        **run_by,
    }
    if forest.members is not None:
        fields["members"] = forest.members
    return {name: np.asarray(value) for name, value in fields.items()}


def decode(fields: Mapping[str, NDArray[Any]], run_by: RunBy | None = None) -> Forest:
    """Rebuild the forest that :func:`encode` took apart."""
    fixed = json.loads(str(fields["fixed"]))
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
        run_by=run_by,
        members=fields.get("members"),
    )


def write(fields: Mapping[str, Any], path: Path) -> None:
    """Write what was encoded to one .npz file, under exactly that name.

    Raises:
        OutputError: the file cannot be written.
    """
    try:
        with path.open("wb") as file:
            np.savez(file, **fields)
    except OSError as error:
        raise OutputError(f"cannot write the forest {path}: {error.strerror}", fix="choose another place") from error


def read(path: Path) -> dict[str, NDArray[Any]]:
    """Read what :func:`write` wrote.

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
    return fields


def to_json(forest: Forest, run_by: Mapping[str, Any]) -> dict[str, Any]:
    """Return classes with their share and both trees as ``{node name: parent's name, or None for the root}``;
    ``run_by`` says who runs the forest."""
    return {
        "scheme": forest.scheme,
        "workers": [forest.nodes[node] for node in forest.workers],
        "aligned": forest.aligned,
        "fixed": forest.fixed and asdict(forest.fixed),
        "window": forest.window,
        **run_by,
        "classes": [
            {
                "share": int(forest.share[c]),
                **_members(forest, c),
                "reduce": _tree(forest.nodes, forest.reduce[c]),
                "broadcast": _tree(forest.nodes, forest.broadcast[c]),
            }
            for c in range(forest.classes)
        ],
    }


def _members(forest: Forest, c: int) -> dict[str, list[str]]:
    """Return the names of a class's members, if the class has some of its own."""
    if forest.members is None:
        return {}
    return {"members": [forest.nodes[node] for node in np.flatnonzero(forest.members[c])]}


def _tree(nodes: tuple[str, ...], parents: Parents) -> dict[str, str | None]:
    return {
        name: None if parent == ROOT else nodes[parent]
        for name, parent in zip(nodes, parents.tolist(), strict=True)
        if parent >= ROOT
    }
