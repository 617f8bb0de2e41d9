"""The page of every key that a spec may hold."""

from __future__ import annotations

from testbed.base.docstrings import code
from testbed.spec.lookup import named_settings
from testbed.spec.reference import Key, Section, about, sections

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
    settings = "\n".join(f"- {code(name)}: {code(keys)}" for name, keys in named_settings().items())
    return "\n".join([INTRODUCTION, *map(_section, sections()), f"{NAMED}{settings}\n"])


def _section(section: Section) -> str:
    shown = [_shown(section.place, key) for key in section.keys if key.name != "kind"]
    return "\n".join([f"## {section.title}\n\n{about(section.group)}\n", *shown])


def _shown(place: str, key: Key) -> str:
    example = f" Example: {code(key.example)}." if key.example else ""
    takes = f"*Takes* {key.takes}. *Default:* {key.default}.{example}"
    return f"### {code(f'{place}.{key.name}'.strip('.'))}\n\n{takes}\n\n{key.text}\n"
