"""How a field is declared, and what is derived from that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from testbed.analysis.record import fields
from testbed.analysis.record.fields import (
    NotNegative,
    Part,
    Text,
    blank_of,
    by_path,
    optional,
    read,
    required,
    shape_of,
    unread,
)
from testbed.analysis.record.version import SCHEMA
from testbed.files.shape import COUNT, EACH, NAME, NOT_NEGATIVE, NUMBER, TEXT, TRUTH


@dataclass(frozen=True)
class Disk(Part):
    """A disk that a made-up record has."""

    name: str = required("what it is called")
    used_bytes: int | None = optional("what is on it")
    wear: NotNegative | None = optional("how worn it is", "share")
    serial = unread(str, "what its maker calls it")


@dataclass(frozen=True)
class Machine(Part):
    """A made-up record."""

    disks: tuple[Disk, ...] = optional(default=(), blank=[])
    first: Disk | None = optional(is_whole=True, blank=None)
    note: Text = optional("in words", default="", key="about.note")
    rates_bps: Mapping[int, float] = optional("by link, its rate", default={})
    boots = unread(list[list[int]], "when it booted", is_checked=True)
    flags = unread(Mapping[str, bool], "what is set")


def test_paths_kinds_and_units_come_from_names_and_types() -> None:
    paths = {path: (field.kind, field.unit) for path, field in by_path(Machine)}
    assert paths == {
        "disks[].name": (NAME, ""),
        "disks[].used_bytes": (COUNT, "B"),
        "disks[].wear": (NOT_NEGATIVE, "share"),
        "disks[].serial": (NAME, ""),
        "first.name": (NAME, ""),
        "first.used_bytes": (COUNT, "B"),
        "first.wear": (NOT_NEGATIVE, "share"),
        "first.serial": (NAME, ""),
        "about.note": (TEXT, ""),
        "rates_bps.*": (NUMBER, "bit/s"),
        "boots[][]": (COUNT, ""),
        "flags.*": (TRUTH, ""),
    }


def test_readers_check_what_they_use_and_what_says_so() -> None:
    disk = {"name": NAME, "used_bytes": COUNT, "wear": NOT_NEGATIVE}
    assert shape_of(Machine) == {
        "disks": [disk],
        "first": disk,
        "about": {"note": TEXT},
        "rates_bps": {EACH: NUMBER},
        "boots": [[COUNT]],
    }


def test_values_are_of_their_types_and_null_is_as_good_as_missing() -> None:
    raw = {"disks": [{"name": "a", "used_bytes": None, "more": 1}], "about": None, "rates_bps": {"3": 5, "4": None}}
    assert read(Machine, raw) == Machine(disks=(Disk("a"),), rates_bps={3: 5})
    assert read(Machine, {"about": {"note": "x"}}, disks=(Disk("b"),)) == Machine(disks=(Disk("b"),), note="x")
    assert read(Machine, None) == Machine()
    assert not hasattr(read(Machine, {"boots": [[1]]}), "boots")


@pytest.mark.parametrize("disk", [{}, {"name": None}])
def test_a_field_that_must_be_there_is_named(disk: Mapping[str, object]) -> None:
    with pytest.raises(KeyError, match="name"):
        read(Machine, {"disks": [disk]})


def test_a_blank_record_has_what_is_known_and_what_there_is_without() -> None:
    first = blank_of(Machine, {"flags": {}})
    assert list(first.items()) == [("disks", []), ("first", None), ("flags", {})]
    first["disks"].append(1)
    assert blank_of(Machine, {}, of_job=True) == {"disks": []}
    with pytest.raises(AssertionError, match=r"not declared: \{'flag'\}"):
        blank_of(Machine, {"flag": {}})


def test_a_field_that_older_versions_would_misread_needs_a_new_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    def later() -> type[Machine]:
        @dataclass(frozen=True)
        class Later(Machine):
            """The same, and a field that came later."""

            fans: int = optional("how many", default=0, since=SCHEMA + 1)

        return Later

    with pytest.raises(AssertionError, match="fans: raise SCHEMA, so that older versions refuse what they would"):
        later()
    monkeypatch.setattr(fields, "SCHEMA", SCHEMA + 1)
    kind = later()
    assert read(kind, {}) == kind()
    with pytest.raises(AssertionError, match="records of older versions lack it"):
        required("how many", since=SCHEMA + 1)
