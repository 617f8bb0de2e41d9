"""Reference of every key that a spec may hold, walked from the schema, so a new key is there when it is added.

``testbed spec`` and the page ``reference/spec.md`` of the documentation show it.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import chain
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import annotated_types
from pydantic import BaseModel, BeforeValidator
from pydantic.fields import FieldInfo

from testbed.base import groups, units
from testbed.base.docstrings import code, prose
from testbed.base.groups import Group
from testbed.base.listing import counted
from testbed.base.units import size_text, time_text
from testbed.perturb import moments
from testbed.perturb.circuit_values import Tuples
from testbed.spec.model import Spec
from testbed.spec.text import SchemeText, TopologyText


def _with_unit(of: units.Unit) -> str:
    *first, last = of.factors
    return f"{of.noun} in {', '.join(first)} or {last}"


MARKERS = (
    (groups.Rate, _with_unit(units.RATE)),
    (groups.Time, _with_unit(units.TIME)),
    (groups.Size, _with_unit(units.SIZE)),
    (groups.Speed, _with_unit(units.SPEED)),
    (groups.Pace, _with_unit(units.PACE)),
    (groups.Share, "a share, such as `3 %` or `0.03` (all: `100 %`; a bare `1` is refused)"),
    (TopologyText, "a topology"),
    (SchemeText, "a scheme"),
    (moments.When, "a moment: a time after the start, or `iteration N`"),
    (Tuples, "a list"),
)
"""Words for types of the schema; a type is told by its validator."""
ALSO, OTHERWISE = "also", "otherwise"
"""In a field's ``json_schema_extra``: words that it takes beside what its type says, and its default for people, where
something before the schema gives either of them a meaning."""
UNSAID = ("nothing", "the defaults of its keys")
"""Words for defaults that say little. They are left out where a key's text says more."""
TOLD = re.compile(r"\b(The|By)\s+default")
TARGET = "TARGET"
"""Word that stands for keys of a group that are names of what there is, such as links."""
LISTED = BeforeValidator(groups.listed)
"""Validator that marks a place where one value may stand for a list of one."""
PLAIN = {str: "text", int: "a whole number", float: "a number", bool: "`true` or `false`"}
LIMITS = {
    annotated_types.Ge: ("ge", "at least"),
    annotated_types.Gt: ("gt", "more than"),
    annotated_types.Le: ("le", "at most"),
    annotated_types.Lt: ("lt", "less than"),
    annotated_types.MinLen: ("min_length", "at least"),
    annotated_types.MaxLen: ("max_length", "at most"),
}
LENGTHS = ("min_length", "max_length")
"""Limits that count characters or values."""


@dataclass(frozen=True)
class Key:
    """One key: where it is, what it takes, and what it means.

    Attributes:
        default: its value if it is not given; empty where ``text`` says what happens then.
    """

    name: str
    takes: str
    default: str
    example: str
    text: str


@dataclass(frozen=True)
class Section:
    """The keys that a spec may have at one place; ``within`` is the kind of the group that this place belongs to."""

    place: str
    within: str
    group: type[Group]

    @property
    def kind(self) -> str:
        """The value of ``kind`` for which these are the keys, if there is such a key."""
        words = get_args(self.group.model_fields["kind"].annotation) if "kind" in self.group.model_fields else ()
        return str(words[0]) if words else ""

    @property
    def title(self) -> str:
        place = code(self.place) if self.place else "The whole spec"
        within = f" of kind {code(self.within)}" if self.within else ""
        return f"{place}, kind {code(self.kind)}" if self.kind else f"{place}{within}"

    @property
    def keys(self) -> tuple[Key, ...]:
        return keys(self.group)


WHOLE = Section("", "", Spec)


def sections(*begin: Section) -> Iterator[Section]:
    """Yield every group of keys, each at the place nearest to the top where it may be; or those of some, and below
    them."""
    left = list(begin or (WHOLE,))
    found = {one.group for one in left}
    while left:
        section = left.pop(0)
        yield section
        inner = [one for one in inner_of(section) if one.group not in found]
        found |= {one.group for one in inner}
        left = inner + left if section.place else left + inner


@cache
def places() -> Mapping[str, Sequence[str]]:
    """Whole names of keys by their last part, such as ``links.rate`` by ``rate``."""
    names: dict[str, list[str]] = defaultdict(list)
    for section in sections():
        for key in groups.keys_of(section.group):
            whole = f"{section.place}.{key}".strip(".")
            if whole not in names[key]:
                names[key].append(whole)
    return names


def inner_of(section: Section) -> list[Section]:
    """The groups of keys that may be directly within one."""
    fields, others = section.group.model_fields, section.group.others
    named = [Section(f"{section.place}.{TARGET}", section.kind, others)] if others else []
    return named + [
        Section(f"{section.place}.{fields[name].alias or name}".strip("."), section.kind, group)
        for name, hint in hints(section.group).items()
        for group in _groups(hint)
    ]


def keys(group: type[Group]) -> tuple[Key, ...]:
    """The keys of a group."""
    types, told = hints(group), _docstrings(group)
    fields = group.model_fields.items()
    return tuple(_key(name, field, types[name], told.get(name, field.description or "")) for name, field in fields)


def hints(group: type[Group]) -> dict[str, Any]:
    """Find the type of each field, with what is said about it."""
    found = get_type_hints(group, include_extras=True)
    return {name: found.get(name, field.annotation) for name, field in group.model_fields.items()}


def extra(field: FieldInfo, name: str) -> Any:
    """Value that a field has for :data:`ALSO` or :data:`OTHERWISE`, None where it has none."""
    return field.json_schema_extra.get(name) if isinstance(field.json_schema_extra, dict) else None


def about(group: type[Group]) -> str:
    """Text that says what a group of keys is."""
    return prose(getattr(group, "made_of", group).__doc__)


def _key(name: str, field: FieldInfo, hint: Any, text: str) -> Key:
    example = str(field.examples[0]) if field.examples else ""
    words = [f"or {code(word)}" for word in extra(field, ALSO) or ()]
    kind = takes_in_words(hint)
    takes = ", ".join([kind, *_limits(field, kind), *words])
    default = "" if TOLD.search(text) and _default(name, field) in UNSAID else _default(name, field)
    return Key(field.alias or name, takes, default, example, prose(text))


def takes_in_words(hint: Any) -> str:
    """Say what a type of the schema takes, as a person would say it."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        known = next((words for known, words in MARKERS if get_args(known)[1] in arguments[1:]), "")
        several = LISTED in arguments and get_origin(arguments[0]) is list
        said = takes_in_words(get_args(arguments[0])[0] if several else arguments[0])
        return known or (f"{said}, or a list of them" if several else said)
    if origin is Literal:
        return " or ".join(map(code, arguments))
    if origin is dict:
        return f"a mapping from {takes_in_words(arguments[0])} to {takes_in_words(arguments[1])}"
    if origin is list:
        item = takes_in_words(arguments[0])
        plural = {"a group of keys": "groups of keys", "a whole number": "whole numbers"}
        return f"a list of {plural.get(item, item)}"
    if inspect.isclass(hint) and issubclass(hint, BaseModel):
        return "a group of keys"
    if hint in PLAIN:
        return PLAIN[hint]
    words = dict.fromkeys(takes_in_words(one) for one in arguments if one is not NoneType)
    return " or ".join(words) or "any value"


def _limits(field: FieldInfo, kind: str) -> list[str]:
    """Words for limits: ``at least 1``, or, of a length, ``at most 80 characters``; ``kind`` is what is limited, in
    words."""
    limits = []
    for one in field.metadata:
        name, words = LIMITS.get(type(one), ("", ""))
        if name in LENGTHS:
            limits.append(f"{words} {counted(getattr(one, name), 'character' if kind == PLAIN[str] else 'value')}")
        elif name:
            limits.append(f"{words} {groups.limit_text(getattr(one, name), field, ',.12g')}")
    return limits


def _default(name: str, field: FieldInfo) -> str:
    value = field.default
    if extra(field, OTHERWISE):
        return str(extra(field, OTHERWISE))
    if field.is_required():
        return "none, it is required"
    if isinstance(value, moments.Moment):
        return f"{value} after the start"
    if isinstance(value, Group):
        return UNSAID[1]
    if value is None or value in ("", [], (), {}):
        return UNSAID[0]
    if name.endswith("_s") and isinstance(value, int | float):
        return code(time_text(value))
    if name.endswith("_bytes") and isinstance(value, int):
        return code(size_text(value))
    return code(str(value).lower() if isinstance(value, bool) else value)


def _groups(hint: Any) -> Iterator[type[Group]]:
    """Yield the groups of keys that may be a value of this type."""
    if inspect.isclass(hint) and get_origin(hint) is None:
        if issubclass(hint, Group) and hint is not moments.Moment:  # one value for people
            yield hint
        return
    yield from chain.from_iterable(map(_groups, get_args(hint)))


def _docstrings(group: type[Group]) -> dict[str, str]:
    """Texts beneath the fields of a group, those that it inherits included."""
    found: dict[str, str] = {}
    for one in reversed(group.__mro__):
        if issubclass(one, Group) and one is not Group:
            found |= _beneath(ast.parse(_source(one)).body)
    return found


def _source(group: type[Group]) -> str:
    """Source of the class in which a group's keys are written: for a lab's settings, the lab's dataclass. Empty for a
    class that is put together when testbed begins, whose keys bring descriptions."""
    with suppress(OSError):
        return textwrap.dedent(inspect.getsource(vars(group).get("made_of", group)))
    return ""


def _beneath(classes: list[ast.stmt]) -> dict[str, str]:
    return {
        field.target.id: text.value.value
        for one in classes
        if isinstance(one, ast.ClassDef)
        for field, text in zip(one.body, one.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }
