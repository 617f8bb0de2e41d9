"""The declaration of a field: its type, unit, meaning and bounds, and where else it is to be seen. Parts of a record as
typed values, from JSON whose shape was checked."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import (
    Annotated,
    Any,
    ClassVar,
    NamedTuple,
    TypedDict,
    TypeGuard,
    TypeVar,
    Union,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
)

from testbed.analysis.record.version import SCHEMA
from testbed.files.shape import COUNT, EACH, NAME, NOT_NEGATIVE, NUMBER, NUMBER_OR_NULL, PLAIN, TEXT, TRUTH, Kind, Shape

NO_UNIT, SHARE = "", "share"
UNITS = {"_s": "s", "_bps": "bit/s", "_sps": "samples/s", "bytes": "B"}
"""Unit of a field that names no other, by the end of its name."""
ABSENT: Any = object()
"""Stands for no value, where null is one."""
Text = Annotated[str, TEXT]
"""May be longer than a name."""
NotNegative = Annotated[float, NOT_NEGATIVE]
Missing = Annotated[float | None, NUMBER_OR_NULL]
"""A number in a list, which may be missing there."""
_KINDS: Mapping[object, Kind] = {float: NUMBER, int: COUNT, str: NAME, bool: TRUTH, Any: PLAIN}
_FIELD = "field of a record"


class More(TypedDict, total=False):
    """Further properties of a field.

    Attributes:
        key: its key in JSON, where that is not its name; a dot leads into an object, and ``*`` is any key.
        bound: the kind of its value, where its type tells too little; a list as its shape, or a part whose shape it
            has.
        is_checked: of a field that no reader uses, whether readers hold it against its bounds all the same.
        column: its place in ``results.csv``; a new one takes the next number.
        blank: what the record of a trial has that has not got anywhere.
        is_whole: whether it is of a whole trial, so that the records of its jobs have none.
        line: its name in the lines of workers of all kinds, if it is there.
        is_moment: whether it is a moment, which tables count from the trial's first start on.
        since: the first version of the schema that has it, where an older version of testbed would misread a record
            with it; it passes over all others. Records of older versions lack it, so that it cannot be required.
    """

    key: str
    bound: Any
    is_checked: bool
    column: int
    blank: Any
    is_whole: bool
    line: str
    is_moment: bool
    since: int


@dataclass(frozen=True)
class Field:
    """A declared field.

    Attributes:
        attribute: its name in Python; empty if no reader uses it.
        is_required: whether a record must have it.
    """

    key: str
    type: Any
    unit: str
    meaning: str
    attribute: str
    is_required: bool
    more: More

    @property
    def kind(self) -> Kind:
        """The kind of its values, those in lists and objects included; any of them may be null."""
        bound, inner = self.more.get("bound"), innermost(self.type)
        if isinstance(bound, Kind):
            return bound
        kind: Kind = inner.__metadata__[0] if get_origin(inner) is Annotated else _KINDS[inner]
        return kind

    @property
    def is_checked(self) -> bool:
        """Whether readers hold it against its bounds."""
        return bool(self.attribute) or self.more.get("is_checked", False)


def optional(meaning: str = "", unit: str | None = None, *, default: Any = None, **more: Unpack[More]) -> Any:
    """A field that readers use. Its type is its annotation; ``default`` stands for a value that is null or missing."""
    metadata = {_FIELD: _Declared(ABSENT, meaning, unit, False, more)}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=dict, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def required(meaning: str = "", unit: str | None = None, **more: Unpack[More]) -> Any:
    """Declare, like :func:`optional`, a field that a record must have; null is a value if its annotation has None."""
    assert "since" not in more, "records of older versions lack it"
    return dataclasses.field(metadata={_FIELD: _Declared(ABSENT, meaning, unit, True, more)})


def unread(type_: Any, meaning: str = "", unit: str | None = None, **more: Unpack[More]) -> Any:
    """A field that is recorded, and that no reader uses. It is an attribute of nothing."""
    return _Declared(type_, meaning, unit, False, more)


@dataclass(frozen=True)
class _Declared:
    type: Any
    meaning: str
    unit: str | None
    is_required: bool
    more: More

    def named(self, name: str, annotated: Mapping[str, Any]) -> Field:
        """The field of that name in a class with these annotations."""
        key = self.more.get("key", name)
        unit = next((unit for end, unit in UNITS.items() if key.endswith(end)), NO_UNIT)
        is_read = self.type is ABSENT
        return Field(
            key,
            annotated[name] if is_read else self.type,
            unit if self.unit is None else self.unit,
            self.meaning,
            name if is_read else "",
            self.is_required,
            self.more,
        )


class Part:
    """An object in a record. A class for one is a frozen dataclass that declares its fields; or
    no dataclass, if no reader uses any of them."""

    bounds: ClassVar[Any] = None
    """The shape of its JSON, where that is not made of its fields."""
    own_fields: ClassVar[Sequence[Field]] = ()
    """The fields that it declares itself, in their order."""
    all_fields: ClassVar[Sequence[Field]] = ()
    """Fields that the part declares itself, then those of its base class."""

    def __init_subclass__(cls) -> None:
        declared: dict[str, _Declared] = {}
        for name, value in list(vars(cls).items()):
            if isinstance(value, dataclasses.Field) and _FIELD in value.metadata:
                declared[name] = value.metadata[_FIELD]
            elif isinstance(value, _Declared):
                declared[name] = value
                delattr(cls, name)
        late = [name for name, declaration in declared.items() if declaration.more.get("since", 1) > SCHEMA]
        assert not late, f"{', '.join(late)}: raise SCHEMA, so that older versions refuse what they would misread"
        annotated = get_type_hints(cls, include_extras=True) if declared else {}
        cls.own_fields = [declaration.named(name, annotated) for name, declaration in declared.items()]
        cls.all_fields = [*cls.own_fields, *cls.all_fields]

    @classmethod
    def current(cls, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """The part's JSON as this version writes it, from what any version wrote."""
        return raw


def by_path(part: type[Part], path: str = "") -> Iterator[tuple[str, Field]]:
    """Each field of a part and of parts in it, by its path in JSON: ``links[].bytes`` is a key of each entry of a list,
    and ``*`` stands for any key."""
    for field in part.own_fields:
        inner, here = present(field.type), f"{path}{field.key}"
        while (into := element(inner)) is not None:
            here += ".*" if is_mapping(inner) else "[]"
            inner = present(into)
        if is_part(inner):
            yield from by_path(inner, f"{here}.")
        else:
            yield here, field


def element(type_: Any) -> Any:
    """The type of values in a list or an object with any keys; None of other types."""
    known = present(type_)
    origin, inner = get_origin(known), get_args(known)
    if origin in (None, Annotated):
        return None
    return inner[1] if issubclass(origin, Mapping) else inner[0] if issubclass(origin, Sequence) else None


def innermost(type_: Any) -> Any:
    """The type of the values in lists and objects."""
    inner = present(type_)
    while (into := element(inner)) is not None:
        inner = present(into)
    return inner


def present(type_: Any) -> Any:
    """A type without None."""
    if get_origin(type_) not in (Union, types.UnionType):
        return type_
    (known,) = (member for member in get_args(type_) if member is not type(None))
    return known


def may_be_null(type_: Any) -> bool:
    """Whether None is of the type."""
    return present(type_) is not type_


def is_mapping(type_: Any) -> bool:
    """Whether it is an object with any keys."""
    origin = get_origin(present(type_))
    return origin is not None and issubclass(origin, Mapping)


def is_part(type_: Any) -> TypeGuard[type[Part]]:
    """Whether it is an object with declared fields."""
    return isinstance(type_, type) and issubclass(type_, Part)


def shape_of(part: type[Part]) -> Mapping[str, Shape]:
    """The shape that readers hold a part's JSON against (:mod:`testbed.files.shape`). Fields that no reader uses may be
    anything, unless they say that they are checked."""
    shape: dict[str, Any] = dict(part.bounds or {})
    if shape:
        return shape
    for field in part.all_fields:
        if field.is_checked:
            *path, last = field.key.split(".")
            inside = shape
            for name in path:
                inside = inside.setdefault(name, {})
            inside[last] = _shape(field, field.type)
    return shape


def _shape(field: Field, type_: Any) -> Shape:
    """The shape of a field's values, or of those in it, which are of a type."""
    bound, into = field.more.get("bound"), element(type_)
    if isinstance(bound, list):
        return bound
    if into is not None:
        return {EACH: _shape(field, into)} if is_mapping(type_) else [_shape(field, into)]
    part = bound if is_part(bound) else present(type_)
    return shape_of(part) if is_part(part) else field.kind


def blank_of(part: type[Part], known: Mapping[str, Any], *, of_job: bool = False) -> dict[str, Any]:
    """The JSON of a part of which only some values are known, by key: these, and the blank values of other fields, in
    the order of the fields. ``of_job`` leaves out fields of a whole trial."""
    filled = {}
    for field in part.all_fields:
        value = known.get(field.key, field.more.get("blank", ABSENT))
        if value is not ABSENT and not (of_job and field.more.get("is_whole")):
            filled[field.key] = deepcopy(value)
    assert known.keys() <= filled.keys(), f"not declared: {known.keys() - filled.keys()}"
    return filled


_P = TypeVar("_P", bound=Part)
_Convert = Callable[[Any], Any]


class _Step(NamedTuple):
    """Step that reads one field: under which keys its value is, how that becomes ours, and whether it must be there,
    and then may be null."""

    attribute: str
    keys: list[str]
    convert: _Convert | None
    is_required: bool
    is_null: bool


_PLANS: dict[type[Part], list[_Step]] = {}


def read(part: type[_P], raw: Mapping[str, Any] | None, **known: Any) -> _P:
    """A part from those keys of its JSON that it declares; a later version may write more. Null is as good as missing.
    What is ``known`` by attribute stands in place of what JSON has.

    Raises:
        KeyError: a field that a record must have is missing.
        TypeError, ValueError: something in it is damaged.
    """
    values = dict(known)
    now = part.current(raw or {})
    for attribute, keys, convert, is_required, is_null in _plan(part):
        if attribute in known:
            continue
        value: Any = now
        for key in keys:
            value = value[key] if is_required else (value or {}).get(key)
        if value is not None:
            values[attribute] = value if convert is None else convert(value)
        elif is_null:
            values[attribute] = None
        elif is_required:
            raise KeyError(keys[-1])
    return part(**values)


def _plan(part: type[Part]) -> list[_Step]:
    """Return the steps that read each field of a part that readers use."""
    if part not in _PLANS:
        _PLANS[part] = [
            _Step(
                field.attribute,
                field.key.split("."),
                _conversion(field.type),
                field.is_required,
                field.is_required and may_be_null(field.type),
            )
            for field in part.all_fields
            if field.attribute
        ]
    return _PLANS[part]


def _conversion(type_: Any) -> _Convert | None:
    known, into = present(type_), element(type_)
    if type_ in (float, NotNegative):
        return float  # JSON may have a whole number
    if is_part(known):
        return partial(read, known)
    if into is not None and is_mapping(known):
        return _numbered if get_args(known)[0] is int else dict
    if into is not None and get_origin(known) is tuple:
        inner = _conversion(into)
        return tuple if inner is None else lambda values: tuple(map(inner, values))
    return None


def _numbered(values: Mapping[str, Any]) -> dict[int, Any]:
    """Convert keys from text to numbers, as JSON has numbers as text only; leave out what is null."""
    return {int(number): value for number, value in values.items() if value is not None}
