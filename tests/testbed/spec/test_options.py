"""A lab's dataclass as a group of a spec's keys."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from pydantic import ValidationError

from testbed.base.errors import SpecError
from testbed.spec.options import group_of


@dataclass(frozen=True)
class Settings:
    count: int = 1
    share: float = 0.5
    loud: bool = False
    image: str | None = field(default=None, metadata={"example": "mine"})
    wait_s: float = 1.0
    least_bytes: int | None = None
    rate_bps: int = 1000

    def __post_init__(self) -> None:
        if self.count < 1:
            raise SpecError("nothing at all", fix="give one")


GROUP = group_of(Settings)


def test_defaults_are_those_of_the_dataclass() -> None:
    assert GROUP().made() == Settings()


def test_units_end_names_and_not_keys() -> None:
    given = {"wait": "2 ms", "least": "3 KiB", "rate": "1 Mbit/s", "image": "x", "count": 2}
    wanted = Settings(count=2, image="x", wait_s=0.002, least_bytes=3072, rate_bps=10**6)
    assert GROUP.model_validate(given).made() == wanted


@pytest.mark.parametrize(
    "given",
    [{"wait": 2}, {"wait_s": 2.0}, {"count": 1.5}, {"count": 0}, {"loud": "yes"}, {"image": ""}, {"none": 1}],
    ids=str,
)
def test_what_does_not_fit_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        GROUP.model_validate(given)


def test_an_example_is_kept_for_errors() -> None:
    assert GROUP.model_fields["image"].examples == ["mine"]
