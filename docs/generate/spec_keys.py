"""The page of every key that a spec may hold."""

from __future__ import annotations

import re
from collections.abc import Mapping

from testbed.base.docstrings import code
from testbed.base.groups import Group
from testbed.spec.lookup import named_settings
from testbed.spec.reference import TARGET, Key, Section, about, inner_of, sections

INTRODUCTION = """\
# Keys of a spec

A spec is a YAML file. It has at most 64 KiB. YAML's aliases and tags are refused. A misspelt key is answered with the
nearest known one. Where a key takes one value, a list or a range [sweeps](../guides/sweeps.md) it. This page is made
from the schema in `testbed/spec/`. `testbed spec KEY` shows a part of it, such as `testbed spec workload.compute`.
`testbed spec --json-schema` is for [editors](../guides/specs.md).
"""
NAMED = """\
## Named settings of `perturb`

Each name stands in the list in place of a group of keys: `perturb: [C1, N2]`. They are MLfabric's compute and network
settings.

"""


def page() -> str:
    every = list(sections())
    addresses = {section.group: _address(section) for section in every}
    settings = "\n".join(f"- {code(name)}: {code(keys)}" for name, keys in named_settings().items())
    return "\n".join([INTRODUCTION, *(_section(section, addresses) for section in every), f"{NAMED}{settings}\n"])


def _section(section: Section, addresses: Mapping[type[Group], str]) -> str:
    shown = [_shown(section, key, addresses) for key in section.keys if key.name != "kind"]
    others = _links(section, TARGET, addresses)
    more = [f"*Keys in any other key:* {others}.\n"] if others else []
    return "\n".join([f"({addresses[section.group]})=\n## {section.title}\n\n{about(section.group)}\n", *more, *shown])


def _shown(section: Section, key: Key, addresses: Mapping[type[Group], str]) -> str:
    default = f" *Default:* {key.default}." if key.default else ""
    example = f" Example: {code(key.example)}." if key.example else ""
    takes = f"*Takes* {key.takes}.{default}{example}"
    inside = _links(section, key.name, addresses)
    told = f"{takes}\n\n*Keys in it:* {inside}." if inside else takes
    return f"### {code(_path(section, key.name))}\n\n{told}\n\n{key.text}\n"


def _links(section: Section, name: str, addresses: Mapping[type[Group], str]) -> str:
    """Links to the groups of keys that may be at a key. Each group is on the page once, though several keys take it."""
    inner = [group for group in inner_of(section) if group.place == _path(section, name) and group.group in addresses]
    return ", ".join(f"[{code(group.kind or group.place)}](#{addresses[group.group]})" for group in inner)


def _path(section: Section, name: str) -> str:
    return f"{section.place}.{name}".strip(".")


def _address(section: Section) -> str:
    """Name of the link to a group's heading; keys have headings, too, which may be called the same."""
    return "keys-" + re.sub(r"[^a-z0-9]+", "-", section.title.lower()).strip("-")
