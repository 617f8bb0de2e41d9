"""Labs that a spec may name, and the settings of each as a group of a spec's keys, made from the frozen dataclass that
the lab declares.

A field is a key, without the unit that ends its name: ``memory_bytes`` is written ``memory: 1 GiB``. Metadata of a
field may hold an ``example``, which errors show. If the dataclass raises a SpecError, the spec is refused with it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, Union, get_args, get_origin, get_type_hints

from pydantic import Field, create_model, model_validator

from testbed.base.errors import SpecError
from testbed.base.groups import Group, Number, Rate, Size, Time, Whole, refuse
from testbed.lab import BUILT_IN, choice

QUANTITIES = {"_bytes": Size, "_bps": Rate, "_s": Time}
"""Types of quantities, by the end of a field's name."""
PLAIN = {
    str: Annotated[str, Field(min_length=1)],
    int: Whole,
    float: Number,
    bool: Annotated[bool, Field(strict=True)],
}


class LabOptions(Group):
    """The keys of one lab's settings."""

    made_of: ClassVar[type[Any]]
    """The lab's dataclass."""

    def made(self) -> Any:
        """The settings as the lab takes them."""
        return self.made_of(**dict(self))

    def __reduce__(self) -> tuple[Callable[..., LabOptions], tuple[Any, ...]]:
        """Pickle the values with the lab's dataclass: the class of the group is made anew from it."""
        return _restored, (self.made_of, dict(self), self.model_fields_set)

    @model_validator(mode="after")
    def _can_be(self) -> Self:
        try:
            self.made()
        except SpecError as error:
            raise refuse(error.problem, error.fix or "") from None
        return self


def _restored(options: type[Any], values: Mapping[str, Any], given: set[str]) -> LabOptions:
    """Settings that were pickled."""
    return group_of(options).model_construct(given, **values)


def group_of(options: type[Any]) -> type[LabOptions]:
    """The group of keys for a lab's dataclass; always the same class for the same dataclass."""
    if options not in _GROUPS:
        _GROUPS[options] = _group_of(options)
    return _GROUPS[options]


_GROUPS: dict[type[Any], type[LabOptions]] = {}


def _group_of(options: type[Any]) -> type[LabOptions]:
    types = get_type_hints(options)
    fields = {field.name: _field(field, types[field.name]) for field in dataclasses.fields(options)}
    made: type[LabOptions] = create_model(options.__name__, __base__=LabOptions, **fields)  # type: ignore[call-overload]
    made.made_of = options
    return made


def _field(field: dataclasses.Field[Any], kind: Any) -> tuple[Any, Any]:
    """A field's type and default, as pydantic takes them."""
    unit = next((end for end in QUANTITIES if field.name.endswith(end)), "")
    example = field.metadata.get("example")
    about = Field(
        default=field.default,
        alias=field.name.removesuffix(unit) if unit else None,
        examples=None if example is None else [example],
    )
    return _type(kind, unit), about


def _type(kind: Any, unit: str) -> Any:
    """The spec's own type for a type of Python's. Other types are left to pydantic."""
    if get_origin(kind) in (Union, UnionType):
        return Union[tuple(_type(one, unit) for one in get_args(kind))]  # noqa: UP007
    if unit and kind is not NoneType:
        return QUANTITIES[unit]
    return PLAIN.get(kind, kind)


LABS = choice.places()
LAB_OPTIONS: dict[str, type[LabOptions]] = {
    name: group_of(place.options) for name, place in LABS.items() if place.options is not None
}
"""The settings of each lab that has some, a key of a spec by its name; where a spec's lab is another, they mean
nothing."""
OF_BUILT_IN = frozenset(LAB_OPTIONS) & frozenset(BUILT_IN)
if TYPE_CHECKING:
    LabName = str
else:
    LabName = Literal[tuple(LABS)]
