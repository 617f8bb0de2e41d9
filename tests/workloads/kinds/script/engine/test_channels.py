"""Numbers of channels: both ends have the same on the wire, and no two channels of a process have the same."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.workloads.kinds.script.engine.channels import (
    FIRST_OF_OURS,
    MOST_GROUPS,
    Slot,
    called,
    channel,
    from_the_wire,
    on_the_wire,
)

GROUPS = st.integers(0, MOST_GROUPS - 1)
NODES = st.integers(0, 10**6)


@given(source=NODES, target=NODES, group=GROUPS, tag=st.integers(0, 2**32 - 1))
def test_both_ends_tell_each_other_the_same_number(source: int, target: int, group: int, tag: int) -> None:
    at_source, at_target = (channel(source, target, own, Slot(group, tag)) for own in (source, target))
    assert on_the_wire(at_source) == on_the_wire(at_target) < 2**64
    assert from_the_wire(on_the_wire(at_source), source) == at_target
    assert from_the_wire(on_the_wire(at_target), target) == at_source


@given(GROUPS)
def test_a_group_has_the_same_number_everywhere(group: int) -> None:
    assert from_the_wire(on_the_wire(group), 7) == group


def test_no_two_channels_of_a_process_have_the_same_number() -> None:
    own, others = 1, (0, 2, 3)
    ends = [(own, other) for other in others] + [(other, own) for other in others]
    slots = [Slot(group, tag) for group, tag in product((0, 1, MOST_GROUPS - 1), (0, 1, 2**15, 2**32 - 1))]
    numbers = {channel(*pair, own, slot) for pair, slot in product(ends, slots)}
    assert len(numbers) == len(ends) * len(slots)
    assert min(numbers) >= MOST_GROUPS, "and none that of a group"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (5, "call 2 of group 5"),
        (channel(0, 1, 0, Slot(5, 7)), "message 2 of group 5 with tag 7"),
        (channel(1, 0, 0, Slot(5, FIRST_OF_OURS)), "message 2 of group 5"),
    ],
)
def test_messages_say_which_call_it_is(number: int, text: str) -> None:
    assert called((number, 2)) == text
