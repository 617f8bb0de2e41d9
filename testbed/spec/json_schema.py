"""A JSON Schema of a spec, for editors: completion, help at a key, and most mistakes while one types; and commented
specs to begin with, which have it beside them.

It is walked from the same types as the reference (:mod:`testbed.spec.reference`). What it cannot say it allows: which
keys go together, which models exist, or what a package's own validator refuses. ``testbed plan`` checks all of it.
"""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

import annotated_types
from pydantic import BeforeValidator
from pydantic.fields import FieldInfo

from testbed.base import groups, units
from testbed.base.errors import OutputError, UsageError
from testbed.base.groups import Group, kind_of
from testbed.base.nearest import nearest
from testbed.files import foreign
from testbed.files.writing import named_errors, write_bytes
from testbed.perturb import circuit_values, moments
from testbed.spec import check_name, jobs, links, model, perturb, ranges, text
from testbed.spec.axes import FIXED
from testbed.spec.reference import ALSO, LISTED, OTHERWISE, Key, about, extra, hints, keys
from testbed.spec.workload import base, command

Json: TypeAlias = dict[str, Any]
TITLE = "A spec of testbed"
_NUMBER = r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?"


def _text(pattern: str) -> Json:
    return {"type": "string", "pattern": rf"^\s*{pattern}\s*$"}


def _quantity(unit: units.Unit) -> Json:
    return _text(rf"{_NUMBER}\s*({'|'.join(map(re.escape, unit.factors))})")


def _any_of(*options: Json) -> Json:
    """Combine schemas: what one of these allows, each once."""
    each = [one for option in options for one in (option["anyOf"] if [*option] == ["anyOf"] else [option])]
    found = [one for i, one in enumerate(each) if one not in each[:i]]
    return found[0] if len(found) == 1 else {"anyOf": found}


def _list_of(item: Json) -> Json:
    return {"type": "array", "items": item}


TEXT: Json = {"type": "string"}
RANGE: Json = {"type": "string", "pattern": ranges.BEGINNING.replace("(?:", "(")}
MARKERS: tuple[tuple[Any, Json], ...] = (
    (groups.Rate, _quantity(units.RATE)),
    (groups.Time, _quantity(units.TIME)),
    (groups.Size, _quantity(units.SIZE)),
    (groups.Speed, _quantity(units.SPEED)),
    (groups.Pace, _quantity(units.PACE)),
    (groups.Share, _any_of({"type": "number", "minimum": 0, "maximum": 1}, _text(rf"{_NUMBER}\s*%?"))),
    (moments.When, _any_of(_quantity(units.TIME), _text(r"iteration\s+\d+"))),
    (text.TopologyText, TEXT),
    (text.SchemeText, TEXT),
    (circuit_values.Tuples, {}),
)
"""Schemas of types whose values are written otherwise than pydantic's type says; a type is told by its validator."""
BESIDE: tuple[tuple[Any, Json], ...] = (
    (base.mode_alone, {"enum": list(get_args(base.ComputeTime.model_fields["mode"].annotation))}),
    (text.nothing, {"enum": [0, "0"]}),
    (jobs.counted_or_named, {"type": "integer", "minimum": 1}),
    (command.words, TEXT),
    (links.marking, {"type": "boolean"}),
    (circuit_values.flipped, TEXT),
    (perturb.named, {"enum": list(perturb.NAMED)}),
)
"""Schemas of what a validator takes besides what stands behind it."""
LIMITS = {
    annotated_types.Ge: ("ge", "minimum"),
    annotated_types.Gt: ("gt", "exclusiveMinimum"),
    annotated_types.Le: ("le", "maximum"),
    annotated_types.Lt: ("lt", "exclusiveMaximum"),
}
LENGTHS = {"string": ("minLength", "maxLength"), "array": ("minItems", "maxItems")}


def schema() -> Json:
    """The schema, in the draft that editors know best (7)."""
    walk = _Walk()
    whole = walk.group(model.Spec, swept=True)
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": TITLE,
        **whole,
        "definitions": walk.definitions,
    }


class _Walk:
    """Walk over the types, which makes the schema of each group of keys once."""

    def __init__(self) -> None:
        self.definitions: dict[str, Json] = {}

    def group(self, group: type[Group], swept: bool) -> Json:
        """Make the schema of a group of keys; with ``swept``, a list or a range may stand for one value."""
        types, told = hints(group), keys(group)
        properties = {
            key.name: self._key(key, field, types[name], swept and key.name not in FIXED)
            for key, (name, field) in zip(told, group.model_fields.items(), strict=True)
        }
        required = [
            key.name
            for key, field in zip(told, group.model_fields.values(), strict=True)
            if field.is_required() and not extra(field, OTHERWISE)
        ]
        found: Json = {"type": "object", "description": about(group), "properties": properties}
        others = self._reference(group.others, swept) if group.others else False
        return found | ({"required": required} if required else {}) | {"additionalProperties": others}

    def _key(self, key: Key, field: FieldInfo, hint: Any, swept: bool) -> Json:
        if key.name == "kind":
            return {"description": "Which kind it is.", "enum": list(get_args(hint))}
        allowed = _limited(self._value(hint, swept), field.metadata)
        also = extra(field, ALSO)
        allowed = _any_of(allowed, {"enum": also}) if also else allowed
        default = "" if field.is_required() or not key.default else f"\n\nDefault: {key.default}."
        examples = {"examples": [key.example]} if key.example else {}
        return {"description": f"{key.text}{default}", **(_swept(allowed, hint) if swept else allowed), **examples}

    def _value(self, hint: Any, swept: bool) -> Json:
        """Make the schema of a type: what it allows in a spec."""
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is Annotated:
            return self._annotated(arguments, swept)
        if origin in (Union, UnionType):
            return _any_of(*(self._value(one, swept) for one in arguments))
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin is dict:
            item = self._value(arguments[1], swept)
            return {"type": "object", "additionalProperties": _swept(item, arguments[1]) if swept else item}
        if origin is list:
            return _list_of(self._value(arguments[0], swept))
        if inspect.isclass(hint) and issubclass(hint, Group):
            return self._reference(hint, swept)
        names = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}
        return {"type": names[hint]} if hint in names else {}

    def _annotated(self, arguments: tuple[Any, ...], swept: bool) -> Json:
        inner, *metadata = arguments
        for known, allowed in MARKERS:
            if get_args(known)[1] in metadata:
                return _any_of(allowed, *_beside(metadata, get_args(known)[1]))
        found = _limited(self._value(inner, swept), metadata)
        if LISTED in metadata:
            item = found["items"]
            found = _any_of(item, found)
        known = [function for function, _ in BESIDE]
        if any(isinstance(one, BeforeValidator) and one != LISTED and one.func not in known for one in metadata):
            return {}  # a package's own, of which nothing is known
        return _any_of(found, *_beside(metadata))

    def _reference(self, group: type[Group], swept: bool) -> Json:
        kind = f".{kind_of(group)}" if "kind" in group.model_fields else ""
        name = f"{group.__module__}.{group.__name__}{kind}{'' if swept else '.fixed'}"
        if name not in self.definitions:
            self.definitions[name] = {}  # it may hold itself
            self.definitions[name] = self.group(group, swept)
        return {"$ref": f"#/definitions/{name}"}


def _swept(allowed: Json, hint: Any) -> Json:
    """Allow a list or a range in place of one value, as :class:`testbed.spec.axes.Finder` finds them."""
    kinds = list(_kinds(hint))
    lists = [kind for kind in kinds if get_origin(kind) is list]
    numbers = {int, float} & {*kinds, *(item for kind in lists for item in _kinds(get_args(kind)[0]))}
    span = [RANGE] if numbers else []
    if any(get_origin(kind) in (list, tuple) for kind in kinds):  # it takes a list anyway: a range is short for one
        items = [one["items"] for one in allowed.get("anyOf", [allowed]) if one.get("type") == "array"]
        more = [RANGE, _list_of(_any_of(*items, RANGE))] if numbers else []
        return _any_of(allowed, *more)
    one = _any_of(allowed, *span)
    return _any_of(one, {**_list_of(one), "minItems": 1})


def _kinds(hint: Any) -> Iterator[Any]:
    """Yield the types that a type allows."""
    if get_origin(hint) is Annotated:
        yield from _kinds(get_args(hint)[0])
    elif get_origin(hint) in (Union, UnionType):
        for one in get_args(hint):
            yield from _kinds(one)
    else:
        yield hint


def _beside(metadata: list[Any], *aside: Any) -> list[Json]:
    functions = [one.func for one in metadata if isinstance(one, BeforeValidator) and one not in aside]
    return [allowed for function, allowed in BESIDE if function in functions]


def _limited(allowed: Json, metadata: list[Any]) -> Json:
    """Add limits of numbers, and of lengths; those of quantities, which are text, are left to ``plan``."""
    kind = allowed.get("type")
    flat = [inner for one in metadata for inner in (one.metadata if isinstance(one, FieldInfo) else [one])]
    found: Json = {}
    for one in flat:
        if kind in ("integer", "number") and type(one) in LIMITS:
            name, word = LIMITS[type(one)]
            found[word] = getattr(one, name)
        elif kind in LENGTHS and isinstance(one, annotated_types.MinLen):
            found[LENGTHS[kind][0]] = one.min_length
        elif kind in LENGTHS and isinstance(one, annotated_types.MaxLen):
            found[LENGTHS[kind][1]] = one.max_length
        elif kind == "string" and getattr(one, "pattern", None):
            found["pattern"] = one.pattern
    return allowed | found


TEMPLATES = Path(__file__).with_name("templates")
TEMPLATE_NAMES = ("quickstart", "sweep", "profile", "script", "gate")
BESIDE_TEMPLATES = {"script": ("train.py",)}
"""Files that a template needs beside it, by template."""
SCHEMA = "testbed.schema.json"
"""Name of the schema's file. Offline, an editor's schema has to be a file: a spec names it by its way from there."""
HEAD = f"# yaml-language-server: $schema=./{SCHEMA}\n"


def write_new(folder: Path, name: str, template: str) -> list[Path]:
    """Write ``NAME.yaml`` and what it needs into a folder; return the paths of all files, that of the spec first.

    Raises:
        UsageError: there is no such template, or the name cannot be an experiment's.
        OutputError: one of the files is there already, or cannot be written.
    """
    if template not in TEMPLATE_NAMES:
        raise UsageError(f"--from {template}: there is no such template", fix=nearest(template, TEMPLATE_NAMES))
    name = name.removesuffix(".yaml")
    check_name(name)
    text = (TEMPLATES / f"{template}.yaml").read_text().replace(f"{template}.yaml", f"{name}.yaml")
    spec = folder / f"{name}.yaml"
    files = {spec: HEAD + text.replace(f"runs/{template}-", f"runs/{name}-")}
    files |= {folder / one: (TEMPLATES / one).read_text() for one in BESIDE_TEMPLATES.get(template, ())}
    for path in files:
        if os.path.lexists(path):
            other = "give another name, " if path == spec else ""
            raise OutputError(f"{path}: is there already", fix=f"{other}change to an empty directory, or move it")
    beside = folder / SCHEMA
    if os.path.lexists(beside) and not _is_schema(beside):  # one that an earlier version wrote is replaced
        problem = f"{beside}: is there already, and is no schema of testbed"
        raise OutputError(problem, fix="move it, or change directory")
    with named_errors(beside):
        write_bytes(beside, (json.dumps(schema(), indent=1) + "\n").encode())
    for path, content in files.items():
        write_bytes(path, content.encode())
    return [*files, folder / SCHEMA]


def _is_schema(path: Path) -> bool:
    try:
        return foreign.read_object(path).get("title") == TITLE
    except (OSError, foreign.UnfitError):
        return False
