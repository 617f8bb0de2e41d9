"""What a run depended on besides its spec, as lists of names and values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from analysis import words
from analysis.load import Event, Recovery, Run
from testbed.units import size_text

Pairs = tuple[tuple[str, str], ...]

_APART = ("schema", "lab", "packages", "sysctls")


def environment(run: Run) -> tuple[tuple[str, Pairs], ...]:
    """The machine, its kernel's settings and the packages, each as (name, value) pairs."""
    known = run.environment
    machine = {key: value for key, value in known.items() if key not in _APART}
    if isinstance(machine.get("memory_bytes"), int):
        machine["memory"] = size_text(machine.pop("memory_bytes"))
    parts = (("Machine", machine), ("Kernel settings", known.get("sysctls")), ("Packages", known.get("packages")))
    return tuple((title, tuple(_pairs(value))) for title, value in parts if value)


def events(run: Run) -> tuple[tuple[str, Pairs], ...]:
    """What was done to each trial while it ran: when, what, and how late where that is to be seen; and how the others
    went on when nodes had died."""
    found = []
    for trial in run.trials:
        told = (*map(_event, trial.events), *map(_recovery, trial.recoveries))
        found += [(words.name(trial), told)] if told else []
    return tuple(found)


def _recovery(one: Recovery) -> tuple[str, str]:
    lost = ", ".join(one.without)
    how_long = "none was left" if one.recovered_s is None else f"done after {one.recovered_s:.2f} s"
    what = f"{one.world} workers go on with iteration {one.first} ({how_long}) by {one.scheme}"
    return _moment(one.called_s), f"without {lost}, {what}" if lost else f"nobody had moved: {what}"


def _event(event: Event) -> tuple[str, str]:
    if event.error is not None:
        return _moment(event.planned_s), f"{event.kind}: {event.what} (failed: {event.error})"
    if event.planned_s is None or event.done_s is None:
        return "never", f"{event.kind}: {event.what} (the trial ended first)"
    late_s = event.done_s - event.planned_s
    return _moment(event.planned_s), f"{event.kind}: {event.what} (in effect after {late_s * 1e3:.1f} ms)"


def _moment(time_s: float | None) -> str:
    return "not known" if time_s is None else f"{abs(time_s):.2f} s"


def labs(run: Run) -> tuple[tuple[str, Pairs], ...]:
    """What the kernel said each trial's network was; trials whose networks were the same share an entry."""
    alike: dict[Pairs, list[str]] = {}
    for trial, lab in (run.environment.get("lab") or {}).items():
        if lab:
            alike.setdefault(_lab(lab), []).append(trial)
    return tuple((", ".join(trials), pairs) for pairs, trials in alike.items())


def _lab(lab: Mapping[str, Any]) -> Pairs:
    """Its settings; a sysctl is given as each value and at how many nodes it is."""
    rest = {key: value for key, value in lab.items() if key != "sysctls"}
    nodes = {
        name: ", ".join(f"{value} (at {count})" for value, count in values.items())
        for name, values in (lab.get("sysctls") or {}).items()
    }
    return (*_pairs(rest), *_pairs(nodes))


def _pairs(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, inner in value.items():
        name = f"{prefix}{key}"
        if isinstance(inner, Mapping):
            yield from _pairs(inner, f"{name}.")
        elif isinstance(inner, list) and inner and all(isinstance(item, Mapping) for item in inner):
            for i, item in enumerate(inner):
                yield from _pairs(item, f"{name}.{i}.")
        else:
            yield name, _text(inner)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "not known"
    if isinstance(value, list):
        return ", ".join(map(_text, value)) or "none"
    return f"{value:,}" if isinstance(value, int) else " ".join(str(value).split())
