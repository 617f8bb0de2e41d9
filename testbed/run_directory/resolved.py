"""A spec as a run directory keeps it: its text in ``spec.yaml``, below a comment that repeats what ``--set`` changed;
and with every default filled in, in ``resolved.json``; and how two of the latter differ."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from testbed.analysis.record.version import SCHEMA
from testbed.spec import Source
from testbed.spec.sought import Chosen

FIRST = "# The run was made with changes to the spec below. To repeat it with a copy of this file:\n"
_LAST = "\n\n"
_BEGIN = "#   "


def with_changes(text: str, overrides: Sequence[str]) -> str:
    """Put a spec's text below its changes; an earlier comment of that kind, of the run it was copied from, goes."""
    text = without_changes(text)
    if not overrides:
        return text
    command = shlex.join(["testbed", "run", "spec.yaml", *(word for one in overrides for word in ("--set", one))])
    # Every character at which YAML may begin a line ends a line here, so that nothing of a value is read as a key.
    return FIRST + _BEGIN + f"\n{_BEGIN}".join(command.splitlines()) + _LAST + text


def without_changes(text: str) -> str:
    """Remove the comment: the spec's own text."""
    return text.partition(_LAST)[2] if text.startswith(FIRST) else text


FOUND = "found"
"""Key of the settings that were found for arms, by arm."""
FITTED, SCALE, PACE = "fitted", "workload.scale", "workload.compute.pace_s."
"""Key of the settings that were chosen for this machine, in place of what is written; and the settings that can be."""


def resolved(
    source: Source,
    planned: int | None = None,
    part: tuple[int, int] | None = None,
    most_rounds: int | None = None,
) -> dict[str, Any]:
    """Fill in every default of a spec, in base units, and add where it came from.

    What is swept has its first value there, and all of them under ``sweep``.
    """
    spec = source.spec
    settings = spec.model_dump(exclude=spec.of_other_labs | (set() if spec.where else {"where"}))
    settings["arms"] = [arm.model_dump() | {"label": arm.title} for arm in spec.arms]
    return {
        "schema": SCHEMA,
        **settings,
        **({"sweep": source.grid.values} if source.grid.axes else {}),
        **({"planned": planned} if planned is not None else {}),
        **({"part": list(part)} if part else {}),
        **({"most_rounds": most_rounds} if most_rounds is not None else {}),
        **({FITTED: fitted} if (fitted := _fitted(source.chosen)) else {}),
        **({FOUND: {str(arm): dict(made) for arm, made in source.chosen.arms.items()}} if source.chosen.arms else {}),
        "overrides": list(source.overrides),
        "folder": str(source.folder.resolve()),
    }


def chosen(meta: Mapping[str, Any]) -> Chosen:
    """Read what was chosen when the run of this ``resolved.json`` began."""
    paces = {key.removeprefix(PACE): pace_s for key, pace_s in (meta.get(FITTED) or {}).items() if key.startswith(PACE)}
    return Chosen(
        fitted_scale(meta),
        {int(arm): made for arm, made in (meta.get(FOUND) or {}).items()},
        {int(batch): float(pace_s) for batch, pace_s in paces.items() if batch.isdecimal()},
    )


def _fitted(chosen: Chosen) -> dict[str, float]:
    """Settings that were chosen for this machine, by dotted name."""
    scale = {} if chosen.scale is None else {SCALE: chosen.scale}
    return scale | {f"{PACE}{batch}": pace_s for batch, pace_s in chosen.pace_s.items()}


def fitted_scale(meta: Mapping[str, Any]) -> float | None:
    """Read the scale that was chosen when the run of this ``resolved.json`` began; None where it has the written
    one."""
    found = (meta.get(FITTED) or {}).get(SCALE)
    return None if found is None else float(found)


def differences(
    ours: Mapping[str, Any], theirs: Mapping[str, Any], aside: Collection[str]
) -> list[tuple[str, str, str]]:
    """List what two resolved specs differ in but for the groups ``aside``: dotted names, and what each has, for
    people."""
    left, right = (
        dict(_leaves({key: value for key, value in one.items() if key not in aside})) for one in (ours, theirs)
    )
    return [
        (key, _short(left.get(key)), _short(right.get(key)))
        for key in {**left, **right}
        if left.get(key) != right.get(key)
    ]


def _leaves(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    """Yield every value that is no group, by its dotted name."""
    if isinstance(value, list) and all(isinstance(one, dict) for one in value):
        value = dict(enumerate(value))
    if not isinstance(value, dict):
        yield name, value
        return
    for key, inner in value.items():
        yield from _leaves(inner, f"{name}.{key}" if name else str(key))


def _short(value: object) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
