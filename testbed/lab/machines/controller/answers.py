"""Types of what machines answer (:mod:`testbed.lab.machines.on_machine.requests`); checked before anything is done with
it, as what hosts say is (:mod:`testbed.lab.baremetal.controller.answers`)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field
from typing_extensions import TypedDict

from testbed.lab.baremetal.controller.answers import (
    FAR,
    MOST_STREAMS,
    RESULTS,
    Address,
    AgentKind,
    Bytes,
    Number,
    Port,
    Said,
    Text,
    Whole,
    plain,
)
from testbed.lab.machines.on_machine.requests import MOST_TAKEN, ROWS_TOLD
from testbed.lab.netns.readings.queues import MOST_ROWS

DEEPEST, MOST_PARTS = 8, 10_000
"""How deep a description may be, and of how many parts: a machine's says each distinct value once."""
Seconds = Annotated[float, Field(ge=0, le=FAR, allow_inf_nan=False)]
_Amount = Annotated[float, Field(ge=0, le=FAR, allow_inf_nan=False)]
Waited = tuple[Bytes, Number, Seconds, Bytes, _Amount, Annotated[float, Field(ge=0, le=1)], Bytes, Bytes]
"""A row, as :class:`testbed.lab.measurements.Waited`."""
_SAME = ("hello", "time", "start", "execute", "stopped", "cpu_s", "receive", "send", "echo", "written", "read_written")


def described(value: dict[str, Any]) -> dict[str, Any]:
    """Copy a description with plain text in it. Raises ValueError: it is too large."""
    left = MOST_PARTS

    def copy(one: Any, depth: int) -> Any:
        nonlocal left
        left -= 1
        if left < 0 or depth > DEEPEST:
            raise ValueError("too large")
        if isinstance(one, dict):
            return {plain(key): copy(inner, depth + 1) for key, inner in one.items()}
        if isinstance(one, list):
            return [copy(inner, depth + 1) for inner in one]
        return plain(one) if isinstance(one, str) else one

    return {plain(key): copy(inner, 1) for key, inner in value.items()}


class _Described(TypedDict):
    """The part of a description that is used; the rest is shown."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]
    mtu: Bytes
    shapes: list[dict[str, Bytes | Text]]
    impairments: list[dict[str, Bytes | Seconds]]


Description = Annotated[_Described, AfterValidator(described)]


class Opened(TypedDict):
    """NIC of a machine that leads to others, the way in which links can be impaired there, and a port for beats."""

    address: Address
    mtu: Bytes
    way: Literal["netem", "delay line"] | None
    port: Port


class OfNic(TypedDict):
    """Bytes that a NIC has sent and received, and packets that it has lost; and numbers that came over it, by the
    address of who sent them."""

    counts: tuple[Bytes, Bytes, Bytes]
    heard: Annotated[dict[Address, Annotated[list[Bytes], Field(max_length=MOST_TAKEN)]], Field(max_length=MOST_TAKEN)]


class Looked(TypedDict):
    """A reading, as :class:`testbed.lab.measurements.Reading`."""

    links: Bytes
    cost_s: Seconds
    differs: Annotated[list[Text], Field(max_length=1000)]


class Measured(TypedDict):
    """A calibration, as :class:`testbed.lab.measurements.Calibration`."""

    pings: Bytes
    round_trips_s: list[list[Seconds]]
    rates_bps: list[Annotated[float, Field(ge=0, le=FAR * 1e3, allow_inf_nan=False)]]


class Carried(TypedDict):
    """Traffic, as :class:`testbed.lab.measurements.Traffic`."""

    links: list[tuple[Bytes, Bytes, Bytes]]
    streams: Annotated[list[tuple[Address, Address, tuple[Port, Port], Bytes, Bytes]], Field(max_length=MOST_STREAMS)]
    at_s: Number
    took_s: Seconds


class Watched(TypedDict):
    """Readings of queues, as :class:`testbed.lab.measurements.Queues`, with how many rows of windows there are. The
    last window may have more rows than :data:`MOST_ROWS` leaves room for."""

    rows: Annotated[int, Field(ge=0, le=2 * MOST_ROWS)]
    readings: Bytes
    cost_s: Seconds
    problem: Text | None


MACHINES = AgentKind(
    "testbed.lab.machines.on_machine.agent",
    {
        **{name: RESULTS[name] for name in (*_SAME, "ping")},
        "open": Opened,
        "holder": tuple[Bytes, Bytes],
        "up": Description,
        "read_back": Description,
        "impair": Description,
        "patch_step": Number,
        "said": list[tuple[Whole, Said]],
        "spot_check": Looked,
        "counters": list[tuple[Bytes, Bytes, Bytes, Bytes, Bytes]],
        "traffic": Annotated[list[Carried], Field(max_length=1)],
        "calibrate": Measured,
        "nic": OfNic,
        "watch_queues": bool,
        "queues": Watched,
        "waited": Annotated[list[Waited], Field(max_length=ROWS_TOLD)],
    },
)
"""Agents of machines on which nodes of a network are."""
