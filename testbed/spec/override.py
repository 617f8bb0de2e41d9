"""``--set key=value``: changing a spec's settings from the command line."""

from __future__ import annotations

import re
from collections.abc import Sequence

from testbed.base.errors import SpecError, UsageError
from testbed.spec.yaml import parse_value

Key = str | int
LONGEST = 10_000
"""The most characters of all changes: a run's ``spec.yaml`` repeats them."""
EXAMPLE = "--set workload.iterations=5 or --set arms.0.scheme=ring"


def apply(settings: dict[object, object], overrides: Sequence[str]) -> dict[tuple[Key, ...], str]:
    """Change ``settings`` in place; return the values as they are written, by the paths that were set, so that an error
    can say where a value came from.

    A key that the spec does not know is set too, and refused with every other unknown key when the spec is checked.

    Raises:
        UsageError: an override is not ``key=value``, or all are longer than a spec.
        SpecError: its path leads through a value that has no keys, or past a list's end.
    """
    if sum(map(len, overrides)) > LONGEST:
        raise UsageError(f"--set has more than {LONGEST:,} characters in all", fix="write that into the spec")
    return {_apply_one(settings, override): override.partition("=")[2] for override in overrides}


def _apply_one(settings: dict[object, object], override: str) -> tuple[Key, ...]:
    dotted, equals, value = override.partition("=")
    if not equals or not all(dotted.split(".")):
        raise UsageError(f"--set {override}: not key=value", fix=f"write it as {EXAMPLE}")
    if "[" in dotted:
        named = re.sub(r"\[(.*?)\]", r".\1", dotted)
        raise UsageError(f"--set {override}: an entry of a list follows a dot", fix=f"write --set {named}={value}")
    path: list[Key] = []
    place: object = settings
    *parents, last = dotted.split(".")
    for step in parents:
        key = _key(place, step, override, path)
        path.append(key)
        if isinstance(place, dict):
            place = place.setdefault(key, {})
        elif isinstance(place, list) and isinstance(key, int):
            place = place[key]
    key = _key(place, last, override, path)
    path.append(key)
    place[key] = parse_value(value, f"--set {dotted}")  # type: ignore[index]  # _key has checked that it has keys
    return tuple(path)


def _key(place: object, step: str, override: str, path: Sequence[Key]) -> Key:
    """Convert ``step`` to a key of ``place``: digits index a list, and match a number key such as a batch."""
    here = ".".join(str(key) for key in path)
    if isinstance(place, list):
        if not step.isdecimal() or int(step) >= len(place):
            raise SpecError(f"--set {override}: {here} has no entry {step!r}", fix=f"give 0 to {len(place) - 1}")
        return int(step)
    if not isinstance(place, dict):
        raise SpecError(f"--set {override}: {here} is {place!r}, which has no keys", fix=f"set {here} itself")
    return int(step) if step.isdecimal() else step
