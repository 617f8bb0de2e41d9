"""The page of what a run leaves, from the shapes that its files are checked by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from docs.generate.markdown import table
from testbed.analysis import schema
from testbed.base.docstrings import code
from testbed.files.shape import EACH, NO_NULL, Kind, Listed, Shape

FILES = """\
# Run directory

```text
runs/mine-20261121-120000/
  report.html      what was found
  comparison.*     with --baseline: the gate's verdicts (md, json, xml)
  rerun/           with --baseline: what was measured once more
  results.csv      a row for each trial
  spec.yaml        the spec as given, below the command that repeats what --set changed
  resolved.json    the spec with every default filled in
  env.json         kernel, CPU, limits, sysctls, congestion control, shapers as the
                   kernel says, packages, git, seed
  trials/          a JSON file for each trial: metrics, links, fidelity, accuracy,
                   earlier attempts
  samples/         a Parquet file for each trial: a row for each worker and iteration
  queues/          a Parquet file for each trial: a row for each link and window of
                   time in which bytes waited
  transfers/       of kinds that plan their transfers, a Parquet file for each trial:
                   a row for each transfer
  collectives/     of scripts under a scheme, a Parquet file for each trial: a row for
                   each collective and rank
  logs/            a log for each worker
  outputs/         files that ranks of a program wrote and that its spec keeps, by
                   trial and rank
  stop             asks the run to end before its next trial: `testbed watch` makes
                   it, the run removes it
  .lock            held by the run that writes here; only its owner can read it
```

Files that other people made are read with bounds, and a file with another shape is an error that names it. The tables
below list the keys that are checked. A file may have more keys. The [data dictionary](dictionary.md) defines every
column and field, with its unit.
"""
SHAPES: Mapping[str, tuple[str, Shape]] = {
    "resolved.json": ("The spec as it ran. `sweep` has all values that are swept.", schema.RESOLVED),
    "env.json": ("What the run depended on.", schema.ENVIRONMENT),
    "trials/*.json": ("One trial. A trial's JSON is that of its last attempt.", schema.RECORD),
    "baseline.json": ("What `testbed baseline` writes, to be committed.", schema.BASELINE),
}


def page() -> str:
    parts = [FILES]
    for name, (text, shape) in SHAPES.items():
        parts += [f"## {name}\n\n{text}\n", table(("key", "value"), _keys(shape))]
    return "\n".join(parts)


def _keys(shape: Shape, path: str = "") -> Iterator[tuple[str, str]]:
    """Each key with the value that it must have; ``[]`` is each entry of a list, ``*`` each key."""
    if isinstance(shape, Kind):
        yield code(path), shape.name
    elif isinstance(shape, Mapping):
        if not shape:
            yield code(path), "object"
        for name, inner in shape.items():
            key = "*" if name in (EACH, NO_NULL) else name
            yield from _keys(inner, f"{path}.{key}".strip("."))
    elif isinstance(shape, Listed):
        yield from _keys(shape.shape, f"{path}[]")
    elif not shape:
        yield code(path), "list"
    else:
        yield from _keys(shape[0], f"{path}[]")
