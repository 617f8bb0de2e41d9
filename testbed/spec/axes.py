"""Axes: fields of a spec that are swept, because a list or a range (:mod:`testbed.spec.ranges`) stands where the schema
takes one value.

A field that takes a list anyway, such as ``batch`` or the ``ina=[...]`` of a topology, keeps its meaning; of a number
for each item, such as ``batch``, a range is short for the list. In an expression such as ``star(hosts=[2,4])`` the
builder's own parameters say which take lists. Each value is checked by the schema, as if it stood there alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path as FilePath
from types import UnionType
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin

from pydantic import ValidationError, create_model

from testbed.base.errors import SpecError
from testbed.base.groups import Group, kind_of, tag
from testbed.spec import ranges, rank_order
from testbed.spec.explain import Path, Texts, explain, field_of, place
from testbed.spec.model import Spec
from testbed.spec.options import LAB_OPTIONS
from testbed.topologies import build as topologies
from testbed.topologies import call
from testbed.topologies.load import placed_in
from testbed.workloads.sync import schemes

Plain: TypeAlias = int | float | str | bool | None
FIXED = frozenset(
    {"name", "kind", "label", "lab", *LAB_OPTIONS, "repeats", "retries", "quiet", "where", "warmup", "jobs", "ranks"}
)
"""Fields that are never swept: names of things, what one run has one of, what says how to sweep and how to evaluate,
lists of jobs, and ranks, which are a range."""
PERTURB = "perturb"
EXPRESSIONS: dict[str, Callable[[str], Sequence[Any]]] = {
    "topology": topologies.parameters_named,
    "scheme": schemes.parameters_named,
    "order": lambda name: rank_order.KINDS.get(name, ()),
}
"""The fields of an arm that are expressions, and what knows the parameters of each name in them."""


@dataclass(frozen=True)
class Value:
    """A value of a swept field: as it is written, and in base units."""

    written: Any
    plain: Plain

    def __str__(self) -> str:
        return _text(self.written)


@dataclass(frozen=True)
class Axis:
    """A swept field. ``name`` is used by conditions and results; it is the same in all arms that have it."""

    name: str
    path: Path
    values: tuple[Value, ...]
    argument: str = ""
    """Parameter of the expression at ``path`` that is swept."""

    @property
    def arm(self) -> int | None:
        """Number of the arm that it is in, None where it is of the whole experiment."""
        return int(self.path[1]) if self.path[0] == "arms" else None

    def put(self, settings: Any, value: Value) -> None:
        """Give the field one of its values, in place."""
        *parents, last = self.path
        for key in parents:
            settings = settings[key]
        if not self.argument:
            settings[last] = value.written
            return
        found = call.written(settings[last])
        assert found is not None  # it was read when the axis was found
        name, arguments = found
        arguments[self.argument] = str(value)
        settings[last] = f"{name}({','.join(f'{key}={one}' for key, one in arguments.items())})"


@dataclass(frozen=True)
class Place:
    """Place of a value: the group that has the field, the field's key there, and the way through the settings.

    ``inner`` is the key in a field that maps keys to values; ``schema`` the way with the kinds that pydantic puts in.
    """

    group: type[Group]
    key: str
    path: Path
    schema: Path
    inner: tuple[Any, ...] = ()

    def check(self, written: Any) -> Plain:
        """Check a value, and return it in base units.

        Raises:
            ValidationError: the schema refuses it.
        """
        inside = {self.inner[0]: written} if self.inner else written
        found = getattr(
            _only(self.group, self.key).model_validate({self.key: inside}), _attribute(self.group, self.key)
        )
        value = next(iter(found.values())) if self.inner else found
        return value if value is None or isinstance(value, bool | int | float | str) else _text(written)


class Finder:
    """Finder of swept fields; mistakes are gathered in ``problems``.

    Args:
        name: what errors call the spec.
        texts: the texts that the settings are written in, by where they are (:data:`Texts`).
        folder: from where an expression names a user's own file.
    """

    def __init__(self, name: str, texts: Texts, folder: FilePath) -> None:
        self._name, self._texts, self._folder = name, texts, folder
        self.problems: list[SpecError] = []

    def find(self, settings: dict[object, object]) -> list[Axis]:
        """Find the swept fields, in the order written; ranges that are short for a list are replaced by it in
        ``settings``."""
        return list(self._group(Spec, settings, (), ()))

    def _group(self, group: type[Group], settings: dict[Any, Any], path: Path, schema: Path) -> Iterator[Axis]:
        for key in settings:
            field = field_of(group, key) if isinstance(key, str) and key not in FIXED else None
            if field is not None:
                where = Place(group, key, (*path, key), (*schema, key))
                yield from self._field(where, field.annotation, settings)
            elif group.others is not None and isinstance(settings[key], dict):
                yield from self._group(group.others, settings[key], (*path, key), (*schema, key))

    def _field(self, where: Place, annotation: Any, settings: Any) -> Iterator[Axis]:
        """Yield the axes in a field; ``settings`` is what holds the value."""
        key = where.path[-1]
        value, kinds = settings[key], list(_kinds(annotation))
        listed = any(get_origin(kind) in (list, tuple) for kind in kinds)
        groups = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Group)]
        items = [inner for kind in kinds if get_origin(kind) is list for inner in _kinds(get_args(kind)[0])]
        if not listed and (isinstance(value, list) or ranges.is_range(value)):
            yield from self._axis(where, value)
        elif listed and int in items:
            self._list(where, settings)
        elif isinstance(value, dict) and groups:
            yield from self._inside(groups, value, where.path, where.schema)
        elif isinstance(value, dict | list) and (inner := [kind for kind in items if issubclass(kind, Group)]):
            if key == PERTURB and isinstance(value, dict):  # one needs no list
                settings[key] = [value]
            for number, one in enumerate(settings[key] if isinstance(settings[key], list) else ()):
                if isinstance(one, dict):
                    yield from self._inside(inner, one, (*where.path, number), (*where.schema, number))
        elif isinstance(value, dict) and (mapped := [kind for kind in kinds if get_origin(kind) is dict]):
            for one in list(value):
                place_of = Place(where.group, where.key, (*where.path, one), (*where.schema, one), (one,))
                yield from self._field(place_of, get_args(mapped[0])[1], value)
        elif isinstance(value, str) and where.key in EXPRESSIONS and where.path[0] == "arms":
            yield from self._expression(where, value)

    def _inside(self, groups: Sequence[type[Group]], value: dict[Any, Any], path: Path, schema: Path) -> Iterator[Axis]:
        """Yield the axes in a group that may be of several kinds."""
        if len(groups) == 1:
            yield from self._group(groups[0], value, path, schema)
            return
        for group in groups:
            kind = group.model_fields["kind"]
            if value.get("kind", kind.default) in get_args(kind.annotation):
                yield from self._group(group, value, path, (*schema, tag(kind_of(group))))

    def _axis(self, where: Place, value: list[Any] | str) -> Iterator[Axis]:
        found = []
        for written in self._written(where, value):
            try:
                found.append(Value(written, where.check(written)))
            except ValidationError as error:
                self.problems += explain(error, self._name, self._texts, where.schema[: -1 - len(where.inner)])
                if isinstance(value, str):  # of a range, the others are alike
                    break
        yield from self._checked(Axis(_named(where.path), where.path, tuple(found)))

    def _written(self, where: Place, value: list[Any] | str) -> list[Any]:
        """Values of a range; or a list's items, and the values of those that are ranges."""
        if value == []:
            self._refuse(where.path, SpecError("an empty list", fix="give at least one value"))
        found: list[Any] = []
        for item in value if isinstance(value, list) else [value]:
            try:
                found += ranges.values(item) if ranges.is_range(item) else [item]
            except SpecError as error:
                self._refuse(where.path, error)
        return found

    def _list(self, where: Place, settings: Any) -> None:
        """Replace ranges in a list of numbers, or in place of one number, by their values."""
        key = where.path[-1]
        items = settings[key] if isinstance(settings[key], list) else [settings[key]]
        if any(map(ranges.is_range, items)):
            settings[key] = self._written(where, items)

    def _expression(self, where: Place, text: str) -> Iterator[Axis]:
        found = call.written(text)
        candidates = {
            key: value
            for key, value in (found[1] if found else {}).items()
            if value[:1] == "[" or ranges.is_range(value)
        }
        if not found or not candidates:
            return
        known = {one.name: one for one in self._parameters(where.key, found[0])}
        for key, value in candidates.items():
            if ranges.is_range(value) or (key in known and not known[key].takes_list):
                yield from self._argument(where, key, value)

    def _parameters(self, field: str, name: str) -> Sequence[Any]:
        """Parameters of a topology or scheme; empty where there is no such one, which is said when it is built."""
        try:
            return EXPRESSIONS[field](placed_in(self._folder, name))
        except SpecError:
            return ()

    def _argument(self, where: Place, key: str, text: str) -> Iterator[Axis]:
        items = (
            list(call.pieces(text[1:-1])) if text[:1] == "[" and text[1:-1].strip() else [text] if text[1:-1] else []
        )
        found = []
        for written in self._written(where, [item.strip() for item in items]):
            plain = call.value(str(written))
            if plain is None or isinstance(plain, tuple):
                problem = SpecError(f"{key}: cannot read {_text(written)!r}", fix=f"write it as {key}=[2,4]")
                self._refuse(where.path, problem)
            else:
                found.append(Value(written, plain))
        yield from self._checked(Axis(f"{_named(where.path)}.{key}", where.path, tuple(found), key))

    def _checked(self, axis: Axis) -> Iterator[Axis]:
        """Yield the axis, if no value is there twice and one is there at all."""
        first: dict[tuple[type, Plain], Value] = {}
        for value in axis.values:
            same = first.setdefault((bool if isinstance(value.plain, bool) else object, value.plain), value)
            if same is not value:
                argument = f"{axis.argument}: " if axis.argument else ""
                problem = f"{argument}{same} and {value} are the same value"
                self._refuse(axis.path, SpecError(problem, fix="give each once; use repeats to run it again"))
                return
        if axis.values:
            yield axis

    def _refuse(self, path: Path, error: SpecError) -> None:
        where = place(path, self._name, self._texts)
        self.problems.append(SpecError(f"{where}: {error.problem}", fix=error.fix))


def _named(path: Path) -> str:
    """Name of a field: its path; in an arm, without the arm's number."""
    if path[0] != "arms":
        return ".".join(map(str, path))
    inside = path[2:]
    return ".".join(map(str, inside if inside[0] in EXPRESSIONS else ("arm", *inside)))


def _kinds(annotation: Any) -> Iterator[Any]:
    """Yield the types that an annotation allows."""
    if get_origin(annotation) is Annotated:
        yield from _kinds(get_args(annotation)[0])
    elif get_origin(annotation) in (Union, UnionType):
        for one in get_args(annotation):
            yield from _kinds(one)
    else:
        yield annotation


@cache
def _only(group: type[Group], key: str) -> type[Group]:
    """Make a group that has that key and no other."""
    name = _attribute(group, key)
    field = group.model_fields[name]
    made: type[Group] = create_model("Swept", __base__=Group, **{name: (field.annotation, field)})  # type: ignore[call-overload]
    return made


def _attribute(group: type[Group], key: str) -> str:
    return next(name for name, field in group.model_fields.items() if key in (field.alias, name))


def _text(written: Any) -> str:
    """Write a value as YAML would have it on one line."""
    if isinstance(written, Mapping):
        return f"{{{', '.join(f'{_text(key)}: {_text(value)}' for key, value in written.items())}}}"
    if isinstance(written, list):
        return f"[{', '.join(map(_text, written))}]"
    if written is None:
        return "null"
    return str(written).lower() if isinstance(written, bool) else str(written)
