"""Parts that the schema is made of: quantities with units, groups of keys, unions by ``kind``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any, ClassVar, Union, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, Tag
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from testbed.base import units
from testbed.base.errors import SpecError
from testbed.base.printable import NOT_ON_A_LINE


def refuse(problem: str, fix: str) -> PydanticCustomError:
    """Make an error for a validator to raise, which keeps the problem and its fix apart."""
    return PydanticCustomError("testbed", "{problem}", {"problem": problem, "fix": fix})


def quantity(read: Callable[[object], float]) -> BeforeValidator:
    def validate(value: object) -> float:
        try:
            return read(value)
        except SpecError as error:
            raise refuse(error.problem, error.fix or "") from None

    return BeforeValidator(validate)


def one_line(value: str) -> str:
    """Check text that a terminal and a table show as it is; a control character could move the cursor, end a row, or
    turn the order of what comes after it.

    Raises:
        PydanticCustomError: it has such a character.
    """
    found = NOT_ON_A_LINE.search(value)
    if found:
        raise refuse(
            f"{value!r} has the control character {found[0]!r}", "write it on one line, without that character"
        )
    return value


Line = Annotated[str, AfterValidator(one_line)]
Rate = Annotated[int, quantity(units.rate_bps)]
Speed = Annotated[float, quantity(units.speed_bytes_per_s)]
Pace = Annotated[float, quantity(units.flop_per_s)]
Time = Annotated[float, quantity(units.time_s)]
Size = Annotated[int, quantity(units.size_bytes)]
Share = Annotated[float, quantity(units.share)]
Whole = Annotated[int, Field(strict=True)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]


class Group(BaseModel):
    """A group of keys; a key that it does not have is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=False)
    others: ClassVar[type[Group] | None] = None
    """Group of a value at a key of any other name; None where such a key is an error."""


def limit_text(limit: float, field: FieldInfo | None, form: str = ".12g") -> str:
    """Write a limit of a field, with its unit if it is a time."""
    is_time = field is not None and get_args(Time)[1] in field.metadata
    return units.time_text(limit) if limit and is_time else format(limit, form)


def listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def tag(kind: str) -> str:
    """Tag of a kind in the place that pydantic gives of a mistake, where no key of ours can be."""
    return f"[{kind}]"


def kind_of(group: type[Group]) -> str:
    """Value of ``kind`` for a group that has that key."""
    (kind,) = get_args(group.model_fields["kind"].annotation)
    return str(kind)


def keys_of(group: type[Group]) -> list[str]:
    """Keys that a group has, as a spec names them."""
    return [field.alias or name for name, field in group.model_fields.items()]


def tagged(groups: Iterable[type[Group]]) -> Any:
    """Make the union of groups that ``kind`` tells apart, for a discriminator that gives tags (:func:`tag`)."""
    return Union[tuple(Annotated[one, Tag(tag(kind_of(one)))] for one in groups)]  # noqa: UP007
