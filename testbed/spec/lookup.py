"""Answers of ``testbed spec workload.compute``: what there is at a place of a spec, for a person who asks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from typing import Any

import yaml

from testbed.base.errors import UsageError
from testbed.spec.explain import field_of
from testbed.spec.perturb import NAMED
from testbed.spec.reference import WHOLE, Key, Section, about, inner_of, keys, sections

MOST_MEANT = 3
"""The most keys that are suggested."""
GROUP = "of keys"
"""End of the words for a group of keys, or for a list of groups."""
CLOSE = 0.75
"""Similarity from which a key is suggested, from 0 to 1."""


@dataclass(frozen=True)
class Shown:
    """Keys at one place, with a heading."""

    title: str
    about: str
    place: str
    keys: tuple[Key, ...]

    def __str__(self) -> str:
        lines = [f"{self.title}: {self.about}"] if self.about else []
        for key in self.keys:
            more = [f" {word}: {text}." for word, text in (("Default", key.default), ("Example", key.example)) if text]
            inside = f" (testbed spec {self.path(key)})" if GROUP in key.takes else ""
            lines += [
                *([""] if lines else []),
                self.path(key),
                f"  takes {key.takes}{inside}.{''.join(more)}",
            ]
            lines.append(f"  {' '.join(key.text.split())}")
        return "\n".join(lines).replace("`", "")

    def path(self, key: Key) -> str:
        """Whole name of a key."""
        return f"{self.place}.{key.name}".strip(".")

    def as_json(self) -> list[dict[str, str]]:
        return [{"key": self.path(key), "of": self.title.replace("`", "")} | _json(key) for key in self.keys]


def shown(asked: str = "") -> list[Shown]:
    """Look up what there is at a place, and below it; empty for all.

    Args:
        asked: keys with dots between them, such as ``workload.compute.mode``. Numbers of list entries count nothing.
            A kind may stand as a key: ``perturb.straggle``. Or a named setting: ``C1``.

    Raises:
        UsageError: there is no such key.
    """
    if asked in NAMED:
        return [Shown(f"{asked} of perturb", f"stands for {named_settings()[asked]}", "perturb", ())]
    words = [word for word in asked.split(".") if word and not word.isdecimal()]
    if not words:
        return [*map(_shown, sections()), _named()]
    *parents, last = words
    holders = [WHOLE]
    for word in parents:
        holders = _within(holders, word, asked)
    found = _within(holders, last, asked)
    own: dict[Key, list[str]] = {}
    for one in holders:
        for key in (key for key in keys(one.group) if key.name == last):
            text = key.text or " ".join(about(one.group).split())  # ``kind`` means what its group says
            own.setdefault(replace(key, text=text), []).append(_kind(one))
    every = list(map(_kind, holders))
    told = (key if of == every else replace(key, text=f"Of kind {_listed(of)}: {key.text}") for key, of in own.items())
    heading = [Shown(f"`{'.'.join(words)}`", "", ".".join(parents), tuple(told))] if own else []
    perturbs = [_named()] if last == "perturb" else []
    return [*heading, *map(_shown, sections(*found) if found else ()), *perturbs]


def named_settings() -> dict[str, str]:
    """Groups of keys that named settings of ``perturb`` stand for, by name, as a spec would have them."""
    return {name: yaml.safe_dump(one, default_flow_style=True, width=10**6).strip() for name, one in NAMED.items()}


def _named() -> Shown:
    settings = "; ".join(f"{name} is {of}" for name, of in named_settings().items())
    return Shown("Named settings of `perturb`", settings, "perturb", ())


def _shown(section: Section) -> Shown:
    listed = tuple(key for key in section.keys if key.name != "kind")
    return Shown(section.title, " ".join(about(section.group).split()), section.place, listed)


def _kind(section: Section) -> str:
    return section.kind or section.within


def _listed(kinds: Sequence[str]) -> str:
    *others, last = kinds
    return f"{', '.join(others)} and {last}" if others else last


def _within(holders: list[Section], word: str, asked: str) -> list[Section]:
    """Find the groups of keys at a key, or those of a kind.

    Raises:
        UsageError: none of the groups has that key, nor is of that kind.
    """
    of_kind = [one for one in holders if one.kind == word]
    if of_kind:
        return of_kind
    found = [inner for one in holders for inner in inner_of(one) if inner.place.rpartition(".")[2] == word]
    if not found and not any(field_of(one.group, word) for one in holders):
        raise UsageError(f"a spec has no key {asked}", fix=_meant(asked))
    return list({one.group: one for one in found}.values())


def _meant(asked: str) -> str:
    """Suggest keys of that name in other parts, or else such as are written alike; in a part that there is, its own."""
    known = list(dict.fromkeys(_paths()))
    if asked.lower() in known:
        return f"did you mean {asked.lower()}?"
    part, _, last = asked.rpartition(".")
    inside = [path for path in known if path.startswith(f"{part}.")] if part in known else []
    same = [path for path in known if _last(path) == last]
    if alike := same or _alike(asked, inside or known):
        return f"did you mean {' or '.join(alike[:MOST_MEANT])}?"
    return f"testbed spec {part} lists the keys there" if inside else "testbed spec lists all keys"


def _alike(asked: str, known: Sequence[str]) -> list[str]:
    """The paths that are written alike, as a whole or at their end."""
    if near := get_close_matches(asked, known, MOST_MEANT, CLOSE):
        return near
    near = get_close_matches(_last(asked), [*map(_last, known)], MOST_MEANT, CLOSE)
    return [path for path in known if _last(path) in near]


def _last(path: str) -> str:
    return path.rpartition(".")[2]


def _paths() -> Iterator[str]:
    """Yield every key, kind and named setting, as it may be asked for."""
    for section in sections():
        if section.kind:
            yield f"{section.place}.{section.kind}"
        yield from (f"{section.place}.{key.name}".strip(".") for key in section.keys)
    yield from NAMED


def _json(key: Key) -> dict[str, Any]:
    return {name: text for name, text in asdict(key).items() if name != "name"}
