"""Numbers of groups, and of channels: the messages of a tag that one rank sends to another are the calls of a group of
their own.

A number has 64 bits on the wire. That of a channel has 1 bit that says that it is one, 1 for the direction, 30 for the
group that the script sends in, and 32 for the tag. Which two ranks it is between is the connection's. A process has
several of these, so in front of the bits it has the other rank's node. No two channels of a process have the same
number.

Rejected: a hash of sender, receiver and tag. Two channels of one process may have the same, and then a message is taken
for one of another tag.
"""

from __future__ import annotations

from dataclasses import dataclass

_CHANNEL = 1 << 63
_UPWARDS = 1 << 62
_TAG_BITS = 32
_WIRE_BITS = 64
MOST_GROUPS = 1 << 30
"""Limit below which the numbers of groups lie."""
FIRST_OF_OURS = 1 << 31
"""First tag of the messages that collectives are made of; tags of scripts are below."""


@dataclass(frozen=True)
class Slot:
    """Key that a send and its receive share: the number of the script's group, and the tag."""

    group: int
    tag: int

    def __post_init__(self) -> None:
        assert 0 <= self.group < MOST_GROUPS
        assert 0 <= self.tag < 1 << _TAG_BITS


def channel(source: int, target: int, own: int, slot: Slot) -> int:
    """Return the number of a channel between two nodes, at one of them."""
    other = target if own == source else source
    upwards = _UPWARDS if source < target else 0
    return other << _WIRE_BITS | _CHANNEL | upwards | slot.group << _TAG_BITS | slot.tag


def on_the_wire(number: int) -> int:
    """Return a number as it is sent to others."""
    return number & ((1 << _WIRE_BITS) - 1)


def from_the_wire(number: int, node: int) -> int:
    """Return the number that this process uses for a number that a node sent."""
    return node << _WIRE_BITS | number if number & _CHANNEL else number


def called(key: tuple[int, int]) -> str:
    """Name a call, for messages: ``call 3 of group 0``, ``message 3 of group 0 with tag 7``."""
    number, count = key
    if not number & _CHANNEL:
        return f"call {count} of group {number}"
    group, tag = (number >> _TAG_BITS) & (MOST_GROUPS - 1), number & ((1 << _TAG_BITS) - 1)
    return f"message {count} of group {group}" + (f" with tag {tag}" if tag < FIRST_OF_OURS else "")
