"""Numbers of groups: alike at all members, and each stands for one group."""

from __future__ import annotations

import pytest

from testbed.base.errors import SpecError
from testbed.workloads.kinds.script.backend import numbering
from testbed.workloads.kinds.script.backend.numbering import COUNTED, NAMED, Numbering
from testbed.workloads.kinds.script.engine.channels import MOST_GROUPS


class Made:
    """A group."""


def begun(times: int = 1) -> Numbering:
    found = Numbering()
    for _ in range(times):
        found.begin()
    return found


def test_groups_that_pytorch_counts_keep_their_numbers() -> None:
    assert [begun().of(name, [0, 1]) for name in ("1", "7", str(COUNTED - 1))] == [1, 7, COUNTED - 1]


def test_no_group_has_the_number_of_that_of_all() -> None:
    assert begun().of("0", [0, 1]) >= NAMED


def test_groups_of_a_later_default_group_have_others() -> None:
    """Where PyTorch counts from 1 again, and other ranks may be members."""
    assert len({begun(times).of("1", [0, 1]) for times in (1, 2, 3, 10**6)}) == 4


def test_groups_with_names_have_numbers_of_their_own() -> None:
    numbers = begun()
    found = [numbers.of(f"of {n}", [0, 1]) for n in range(3000)]
    assert len(set(found)) == 3000
    assert NAMED <= min(found) <= max(found) < MOST_GROUPS


def test_a_group_that_is_made_again_has_another_number_at_all_members() -> None:
    """However many groups of others one of them has made meanwhile."""
    first, second = begun(), begun()
    second.of("b", [1, 2])
    again = [[numbers.of("a", [0, 1]) for _ in range(3)] for numbers in (first, second)]
    assert again[0] == again[1]
    assert len(set(again[0])) == 3


def test_a_number_that_another_group_has_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbering, "NAMED", MOST_GROUPS - 1)
    numbers, made = begun(), Made()
    numbers.keep(numbers.of("a", [0, 1]), made)
    with pytest.raises(SpecError) as caught:
        numbers.of("b", [0, 2])
    assert str(caught.value) == (
        "a group of the ranks [0, 2] gets the number 1073741823 of another group of the script\n"
        "  fix: make it with torch.distributed.new_group() on all ranks, without use_local_synchronization"
    )
    del made
    assert numbers.of("b", [0, 2]) == MOST_GROUPS - 1, "that one is gone"
