"""What a run depended on besides its spec, as short lists of names and values; many like values become one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from analysis.load import Run
from testbed.units import size_text

Pairs = tuple[tuple[str, str], ...]

_MOST_VALUES = 4
"""Of more distinct values than this, only their number and range are told."""
_APART = ("schema", "lab", "packages", "sysctls")


def environment(run: Run) -> tuple[tuple[str, Pairs], ...]:
    """The machine, its kernel's settings and the packages, each as (name, value) pairs."""
    known = run.environment
    machine = {key: value for key, value in known.items() if key not in _APART}
    if isinstance(machine.get("memory_bytes"), int):
        machine["memory"] = size_text(machine.pop("memory_bytes"))
    parts = (("Machine", machine), ("Kernel settings", known.get("sysctls")), ("Packages", known.get("packages")))
    return tuple((title, tuple(_pairs(value))) for title, value in parts if value)


def labs(run: Run) -> tuple[tuple[str, Pairs], ...]:
    """What the kernel said each trial's network was; trials whose networks were the same share an entry."""
    alike: dict[Pairs, list[str]] = {}
    for trial, lab in (run.environment.get("lab") or {}).items():
        if lab:
            alike.setdefault(tuple(_pairs(lab)), []).append(trial)
    return tuple((", ".join(trials), pairs) for pairs, trials in alike.items())


def _pairs(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, inner in value.items():
        name = f"{prefix}{key}"
        if isinstance(inner, Mapping) and not _is_collection(inner):
            yield from _pairs(inner, f"{name}.")
        elif isinstance(inner, Mapping):
            yield from _merged(name, list(inner.values()))
        elif isinstance(inner, list):
            yield from _merged(name, inner)
        else:
            yield name, _text(inner)


def _is_collection(value: Mapping[str, Any]) -> bool:
    """Whether its keys are names of like things (nodes, interfaces) rather than of settings."""
    return len(value) > 1 and all(isinstance(inner, Mapping) for inner in value.values())


def _merged(name: str, items: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """Like things, setting by setting."""
    if not items or not all(isinstance(item, Mapping) for item in items):
        yield name, _summary(items)
        return
    merged: dict[str, list[Any]] = {}
    for item in items:
        for key, value in _pairs(item):
            merged.setdefault(key, []).append(value)
    for key, values in merged.items():
        yield f"{name}.*.{key}", _summary(values)


def _summary(values: Sequence[Any]) -> str:
    """``1500 (all 18)``, ``a (12), b (6)``, or ``18 values, 0 to 35``."""
    count = Counter(_text(value) for value in values)
    if not count:
        return "none"
    if len(count) == 1:
        (only,) = count
        return f"{only} (all {len(values)})" if len(values) > 1 else only
    if len(count) == len(values) <= _MOST_VALUES:
        return ", ".join(count)
    if len(count) <= _MOST_VALUES:
        return ", ".join(f"{text} ({n})" for text, n in count.items())
    ordered = sorted(count, key=_as_number)
    return f"{len(count)} values, {ordered[0]} to {ordered[-1]}"


def _as_number(text: str) -> tuple[float, str]:
    try:
        return float(text.replace(",", "")), text
    except ValueError:
        return float("inf"), text


def _text(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "not known"}[value]
    return " ".join(str(value).split())
