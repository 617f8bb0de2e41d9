"""The page of what a run leaves, from the shapes that its files are checked by and the columns of its tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from analysis import schema
from analysis.verdicts import CALLED, NUMBERS
from docs.generate.markdown import table
from testbed.base.docstrings import code
from testbed.files.shape import EACH, NO_NULL, Kind, Shape
from testbed.trial.results import COLUMNS

FILES = """\
# Run directory

```text
runs/mine-20261121-120000/
  report.html      what was found
  comparison.*     with --baseline: the gate's verdicts (md, json, xml)
  rerun/           with --baseline: what was measured once more
  results.csv      a row for each trial
  spec.yaml        the spec as given
  resolved.json    the spec with every default filled in
  env.json         kernel, CPU, sysctls, congestion control, shapers as the kernel says them back, packages, git, seed
  trials/          a JSON file for each trial: metrics, links, fidelity, accuracy, earlier attempts
  samples/         a Parquet file for each trial: a row for each worker and iteration
  logs/            a log for each worker
  .lock            held by the run that writes here; only its owner can read it
```

Files that other people made are read with bounds, and a file with another shape is an error that names it. The tables
below list the keys that are checked. A file may have more keys.
"""
SHAPES: Mapping[str, tuple[str, Shape]] = {
    "resolved.json": ("The spec as it ran. `sweep` has all values that are swept.", schema.RESOLVED),
    "env.json": ("What the run depended on.", schema.ENVIRONMENT),
    "trials/*.json": ("One trial. A trial's JSON is that of its last attempt.", schema.RECORD),
    "baseline.json": ("What `testbed baseline` writes, to be committed.", schema.BASELINE),
}
MEANINGS = {
    "trial": "its id",
    "label": "of its arm",
    "topology": "of its arm",
    "scheme": "of its arm",
    "batch": "samples for each worker and iteration",
    "iterations": "how many were trained",
    "world": "number of workers",
    "status": "`done` or `failed`",
    "jct_s": "from the first worker's first start to the last worker's last end",
    "compute_s": "of JCT, the time for computing",
    "sync_s": "of JCT, the rest",
    "gst_median_s": "median GST over the iterations after the warm-up",
    "gst_p95_s": "95th percentile of GST",
    "gst_p99_s": "99th percentile of GST",
    "gst_theory_s": "the least GST that the links allow",
    "gst_ratio": "GST over its lower bound; empty if that is not known",
    "throughput_sps": "samples per second of JCT",
    "wire_bytes": "bytes that all processes sent",
    "test_accuracy": "of the trained model; empty for profiles",
    "weights_error": "distance to the reference's weights, as a share of what training changed",
    "fidelity": "`VALID` or `INVALID`: of all numbers together",
    "reasons": "why it is INVALID, or why it failed",
    "kind": "of the workload",
    "model": "of the workload",
    "scale": "by what a profile's bytes and the links' rates were divided",
    "wrong_elements": "of a profile's sums",
    "straggler_wait_s": "mean time that a worker waited for the slowest one",
    "staleness_median": "updates that an update missed; asynchronous schemes only",
    "staleness_p95": "its 95th percentile",
    "staleness_max": "its maximum",
    "repeat": "which round it ran in",
    "attempts": "how often it was measured",
    "iteration_median_s": "median time of an iteration",
    "gst_p95_verdict": "verdict of the 95th percentile of GST",
    **{f"{name}_verdict": f"verdict of {CALLED[name]}" for name in NUMBERS},
    **{f"{name}_error": f"by how much {CALLED[name]} can be off, as a share" for name in NUMBERS},
}
"""What a column of ``results.csv`` holds."""


def page() -> str:
    parts = [FILES, "## results.csv\n", table(("column", "what it holds"), _columns())]
    parts.append("After these come columns for the fields that a sweep varies, by their names.\n")
    for name, (text, shape) in SHAPES.items():
        parts += [f"## {name}\n\n{text}\n", table(("key", "value"), _keys(shape))]
    return "\n".join(parts)


def _columns() -> Iterator[tuple[str, str]]:
    return ((code(name), MEANINGS.get(name, "")) for name in COLUMNS)


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
    elif not shape:
        yield code(path), "list"
    else:
        yield from _keys(shape[0], f"{path}[]")
