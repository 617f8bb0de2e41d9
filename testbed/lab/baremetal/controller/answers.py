"""Checks of what a host says, before anything is done with it: whoever is root there may have it say anything.

Errors do not name the host; whoever knows which one it is says so in front. Texts of a host's may end on a terminal, so
control characters in them are written out.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Base64Bytes, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from testbed.base.errors import HostError
from testbed.base.printable import printable
from testbed.base.process_names import LONGEST, PATTERN
from testbed.files.foreign import LONGEST_PATH, MOST_LISTED
from testbed.lab.base import MOST_RELAYED_BYTES, PIECE_BYTES

FIX = "see what prints on standard output there (the user's start-up files), and who else is root there"
LONGEST_TEXT = 2000
MOST_OUTPUT_BYTES = 4 << 20
"""The most bytes of output of a command that was run on a host: as long as an agent's longest line."""
LONGEST_ADDRESS = 15
"""Characters of the longest IPv4 address as text."""
MOST_STREAMS = 10_000
"""The most ends of a trial's connections on one host; each host has a few with each other."""
MOST_SOCKETS = 10_000
"""The most sockets of processes on a host that one here has for its own."""
FAR = 1e12
"""Bound beyond every time, rate and count of CPU seconds that there can be."""
Number = Annotated[float, Field(ge=-FAR, le=FAR, allow_inf_nan=False)]
Whole = Annotated[int, Field(ge=-(2**63), lt=2**64)]
Name = Annotated[str, Field(max_length=LONGEST_TEXT)]
Process = Annotated[str, Field(max_length=LONGEST, pattern=rf"^{PATTERN}$")]
"""A process's name, see :mod:`testbed.base.process_names`."""
_Found = tuple[Process, Number, Number, Number, bool]
Messages = Annotated[Base64Bytes, Field(max_length=2**20)]
Bytes = Annotated[int, Field(ge=0, lt=2**63)]
_Passed = tuple[Bytes, Bytes]
Address = Annotated[str, Field(max_length=LONGEST_ADDRESS)]
Port = Annotated[int, Field(ge=0, lt=2**16)]
Output = Annotated[str, Field(max_length=MOST_OUTPUT_BYTES)]
FileName = Annotated[str, Field(max_length=LONGEST_PATH)]
Count = tuple[Whole, Whole, Whole]
_NOTHING: TypeAdapter[None] = TypeAdapter(Literal[None])


def plain(text: str) -> str:
    """Make text that a terminal shows as it is; a long one is cut."""
    return printable(text[:LONGEST_TEXT])


Text = Annotated[str, AfterValidator(plain)]


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Result(_Message):
    """The answer to a request."""

    id: int
    result: Any


class Refusal(_Message):
    """The answer to a request that cannot be done."""

    id: int
    problem: Text
    fix: Text | None


class Grown(_Message):
    """Bytes by which a file that is followed has grown."""

    grown: Name
    data: Base64Bytes


class Exited(_Message):
    """Event: a worker has ended."""

    exit: Process
    status: Whole
    started_s: Number
    ended_s: Number


class Ended(_Message):
    """Event: a program that is not a worker has ended."""

    ended: Whole
    status: Whole


class Readings(_Message):
    """CPU time of a host: (moment, idle, steal, total, throttled), in seconds."""

    cpu: Annotated[list[tuple[Number, Number, Number, Number, Number | None]], Field(max_length=100)]


class Looks(_Message):
    """Looks at whether workers stood still: the moment of each look, and what it found of each worker
    (:data:`testbed.lab.baremetal.on_hosts.readings.Row`)."""

    looks: Annotated[list[tuple[Number, Annotated[list[_Found], Field(max_length=1000)]]], Field(max_length=100)]


class Relayed(_Message):
    """Message of a process there, from a socket by which it is connected to one here; an empty one: it is closed."""

    socket: Annotated[int, Field(ge=0, lt=MOST_SOCKETS)]
    message: Annotated[Base64Bytes, Field(max_length=MOST_RELAYED_BYTES)]


Event = Grown | Exited | Ended | Readings | Looks | Relayed
_MESSAGE: TypeAdapter[Result | Refusal | Event] = TypeAdapter(Result | Refusal | Event)


class Hello(TypedDict):
    """Answer to an agent's first request: its host's software, cores and rights, and its pid."""

    kernel: Text
    python: Text
    cores: Whole | Number
    root: bool
    pid: Whole


class Differs(TypedDict):
    """Answer of a host whose kernel has something else than was asked for."""

    differs: Text
    shapes: None


class Shaped(TypedDict):
    """Answer of a host whose kernel has what was asked for: shapes by NIC, out and in."""

    differs: None
    shapes: list[tuple[dict[Name, Whole], dict[Name, Whole]]]


class Said(TypedDict):
    """Answers of the kernel in base64, as :class:`testbed.lab.netns.readings.listening.Said`."""

    qdiscs: Messages
    classes: Messages
    addresses: Messages
    routes: Messages
    links: Messages


class Heard(TypedDict):
    """Answers of the kernel, as :class:`testbed.lab.netns.readings.listening.Said`, and by NIC its interfaces, out and
    in."""

    indices: list[tuple[Whole, Whole]]
    said: Said


class Metered(TypedDict):
    """Counts of NICs: when they were read by the host's clock and what reading took, by NIC what has left and what
    waits out of it and into it, and the ends of connections there, as :class:`testbed.lab.measurements.Stream`."""

    at_s: Number
    took_s: Annotated[float, Field(ge=0, le=FAR, allow_inf_nan=False)]
    nics: list[tuple[_Passed, _Passed]]
    streams: Annotated[list[tuple[Address, Address, tuple[Port, Port], Bytes, Bytes]], Field(max_length=MOST_STREAMS)]


class Written(TypedDict):
    """Files below a folder with their sizes, as :class:`testbed.files.foreign.Listing`."""

    files: Annotated[list[tuple[FileName, Bytes]], Field(max_length=MOST_LISTED)]
    is_whole: bool


class Piece(TypedDict):
    """A piece of such a file."""

    data: Annotated[Base64Bytes, Field(max_length=PIECE_BYTES)]


RESULTS: dict[str, Any] = {
    "hello": Hello,
    "time": Number,
    "start": Whole,
    "execute": tuple[Whole, Output, Output],
    "stopped": list[Process],
    "cpu_s": Annotated[dict[Process, Number], Field(max_length=1000)],
    "shaped": Differs | Shaped,
    "verify": Differs | Shaped,
    "said": Heard,
    "receive": Whole,
    "send": Whole,
    "counters": list[tuple[Count, Count]],
    "traffic": Metered,
    "undo": bool,
    "echo": list[Annotated[int, Field(ge=1, lt=2**16)]],
    "written": Written,
    "read_written": Piece,
    "ping": list[Annotated[float, Field(ge=0, le=FAR, allow_inf_nan=False)]],
}
"""Types of results by request; other requests have no result."""


class AgentKind:
    """Kind of agent: the ``module`` that runs, and the types of its results by request; other requests have none."""

    def __init__(self, module: str, results: Mapping[str, Any]) -> None:
        self.module = module
        self._results: dict[str, TypeAdapter[Any]] = {name: TypeAdapter(kind) for name, kind in results.items()}

    def result(self, do: str, value: object) -> Any:
        """Check the result of a request, as far as its form goes. Raises HostError: it is of another kind."""
        return checked(self._results.get(do, _NOTHING), value, f"it answers {do!r}")


HOSTS = AgentKind("testbed.lab.baremetal.on_hosts.agent", RESULTS)
"""Agents of hosts whose NICs are a topology's."""


class Nic(BaseModel):
    """A training NIC, as the module ``testbed_host`` says. The MAC address becomes part of what Ansible does on other
    hosts, where a template in it would be resolved on the controller."""

    mac: Annotated[str, Field(pattern=r"^[0-9a-f]{2}(:[0-9a-f]{2}){5,31}$")]
    mtu: Text | None
    speed: Text | None


class Facts(BaseModel):
    """The part of the module's facts that is used."""

    nics: dict[Name, Nic]


class _Left(TypedDict):
    what: Text
    owner: Text
    token: Text
    since: Text


class Bursts(BaseModel):
    """A line about a burst that has arrived, by its place among those that were asked for."""

    burst: Whole
    rate_bps: Annotated[float, Field(ge=0, le=FAR * 1e3, allow_inf_nan=False)]


_LEFT: TypeAdapter[list[_Left]] = TypeAdapter(list[_Left])


def message(line: bytes) -> Result | Refusal | Event:
    """Parse a line of an agent. Raises HostError: it is nothing that an agent says."""
    try:
        return _MESSAGE.validate_json(line)
    except ValidationError:
        raise HostError(f"it says {line[:80]!r}, which no agent says", fix=FIX) from None


def facts(said: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Check the facts about a host, which must have these NICs. Raises HostError: it says something else, or not of all
    of them."""
    found: Facts = checked(TypeAdapter(Facts), said, "Ansible's look at it says")
    missing = [name for name in names if name not in found.nics]
    if missing:
        raise HostError(f"Ansible's look at it says nothing of {missing[0]}", fix=FIX)
    return found.model_dump()


def left(said: object) -> list[dict[str, str]]:
    """Check the list of what runs that were cut off have left. Raises HostError: it says something else."""
    return [{**one} for one in checked(_LEFT, said, "the list of what is left there is")]


def bursts(lines: Sequence[str], count: int) -> list[tuple[int, float]]:
    """Parse lines of bursts that have arrived, of ``count``, to pairs (place, bit/s). Raises HostError: a line says
    something else."""
    found = []
    for line in lines:
        try:
            one = Bursts.model_validate_json(line)
        except ValidationError:
            raise HostError(f"it says {line[:80]!r} of a burst", fix=FIX) from None
        if not 0 <= one.burst < count:
            raise HostError(f"it says that burst {one.burst} of {count} arrived", fix=FIX)
        found.append((one.burst, one.rate_bps))
    return found


@contextmanager
def named(host: str) -> Iterator[None]:
    """Raises HostError: in place of one within, with the host's name in front."""
    try:
        yield
    except HostError as error:
        raise HostError(f"{host}: {error.problem}", fix=error.fix) from None


def as_many(found: Sequence[Any], count: int, what: str) -> None:
    """Raises HostError: there are fewer or more than were asked for."""
    if len(found) != count:
        raise HostError(f"it says {len(found)} {what}, asked was for {count}", fix=FIX)


def checked(adapter: TypeAdapter[Any], value: object, what: str) -> Any:
    """Check ``what`` a host says. Raises HostError: it is of another kind."""
    try:
        return adapter.validate_python(value)
    except (ValidationError, RecursionError) as error:
        why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else "it is too deep"
        raise HostError(f"{what} {plain(reprlib.repr(value))}, which is wrong: {why}", fix=FIX) from None
