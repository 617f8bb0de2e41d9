"""What every lab offers: a place where a topology exists and processes run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from testbed.errors import SpecError
from testbed.units import rate_text
from topologies.model import Topology

SLOWEST_BPS = 10_000
"""HTB forgets what a class owes for longer than a minute (``mbuffer`` in the kernel's net/sched/sch_htb.c), so a slower
link could exceed its rate: a segment of 64 KiB takes 52 s at this one."""
FASTEST_BPS = 34_000_000_000
"""HTB's rate reaches the kernel through a 32-bit field of bytes per second, which ends at 34.36 Gbit/s."""
MOST_HOSTS, MOST_LINKS = 1024, 8192
"""BCube(4,5), a fat-tree of k=16: larger networks have never been tried on one machine, and forests over them take
minutes and gigabytes to verify."""


def check_size(topology: Topology) -> None:
    """
    Raises:
        SpecError: no lab can hold this network.
    """
    for what, count, most in (("hosts", topology.host_count, MOST_HOSTS), ("links", len(topology.links), MOST_LINKS)):
        if count > most:
            raise SpecError(
                f"{topology.expression} has {count:,} {what}; a lab holds at most {most:,}", fix="make it smaller"
            )


def check_rate(rate_bps: float) -> None:
    """
    Raises:
        SpecError: no link can be emulated at this rate.
    """
    if not SLOWEST_BPS <= rate_bps <= FASTEST_BPS:
        raise SpecError(
            f"{rate_text(rate_bps)} cannot be emulated; the kernel's HTB does {rate_text(SLOWEST_BPS)} to "
            f"{rate_text(FASTEST_BPS)}",
            fix="scale rates and bytes alike: times stay the same",
        )


@dataclass(frozen=True)
class LinkSettings:
    """How links are emulated, beyond the rate and delay that each link of the topology carries."""

    mtu: int = 1500
    queue_bytes: int = 64 * 2**20
    """Room at each egress before packets are dropped."""
    shaped: bool = True
    """False leaves every link as fast as the machine moves packets."""
    congestion_control: str | None = None
    """The default of every node, for programs that do not choose their own; None leaves the kernel's."""


@dataclass(frozen=True)
class Program:
    """What to run in place of a worker: words, what is added to the environment, and the directory it starts in."""

    words: tuple[str, ...]
    environment: Mapping[str, str]
    folder: str


@dataclass(frozen=True)
class Launch:
    """One worker to start: the node it runs on, its job file and the file its output goes to."""

    node: int
    job: str
    log: str
    program: Program | None = None


@dataclass(frozen=True)
class Exit:
    """A worker that ended: ``status`` is its exit status, or minus the signal that ended it; times are
    ``time.monotonic()``."""

    node: int
    status: int
    started_s: float = 0.0
    ended_s: float = 0.0


@dataclass(frozen=True)
class LinkChange:
    """What is to be different on one directed link from now on; None leaves it as it is.

    ``blocked`` drops everything at the egress, as a cut cable does; neither end is told.
    """

    directed_link: int
    rate_bps: int | None = None
    queue_bytes: int | None = None
    blocked: bool | None = None


@dataclass(frozen=True)
class Counters:
    """What the kernel has counted at the egress of one directed link since the lab came up."""

    directed_link: int
    bytes: int
    packets: int
    drops: int


@dataclass(frozen=True)
class Completed:
    """A command that ran on a node."""

    status: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Patched:
    """A move of circuits: how many went dark and how many came up, and from when (dark) to when (lit), on
    ``time.monotonic``."""

    parted: int
    joined: int
    dark_s: float
    lit_s: float


class Running(Protocol):
    """A program that was started on a node beside the workers."""

    def signal(self, number: int) -> object:
        """Send a signal to it and to the processes that it started."""

    def wait(self, timeout_s: float) -> int:
        """Wait for its end; the exit status, or minus the signal that ended it.

        Raises:
            LabError: it did not end in time.
        """


class Lab(Protocol):
    """Bring a network up, run processes on it, read what happened, take it down. One network at a time."""

    def require(self, topology: Topology) -> None:
        """Look whether this place can emulate such links, before anything is built.

        Raises:
            MissingToolError: it lacks a program or a kernel module, which is named.
        """

    def up(self, topology: Topology, settings: LinkSettings, pairs: Iterable[tuple[int, int]]) -> None:
        """Build the network, with routes between each (source, destination) pair of hosts, and read it back.

        Raises:
            LabError: the kernel reports something else than what was asked for.
            PrivilegeError: the kernel does not let this user build it.
        """

    def plan_patch(self, topology: Topology) -> None:
        """Work out :meth:`patch` for the same topology, as the next move, so that it begins at once.

        Raises:
            TopologyError: a pair would have no route.
            LabError: another network is up.
        """

    def patch(self, topology: Topology, dark_s: float) -> Patched:
        """Move circuits while the network is up, to those of ``topology``, which is otherwise the one that is.

        Circuits that stay are not touched. Those that go are dark at once, what is sent into them is lost, and after
        ``dark_s`` the new ones come up, with routes for the pairs of :meth:`up`. Moves take turns.

        Raises:
            TopologyError: a pair would have no route; nothing has changed then.
            LabError: another network is up, or the kernel reports something else than what was asked for.
        """

    def agent(self) -> list[str]:
        """A command that, called in the lab with ``HOST COMMAND...`` added, runs that command on that host: what
        programs take in place of ssh to start others on other machines."""

    def launch(self, workers: Sequence[Launch]) -> None:
        """Start the workers."""

    def exits(self) -> list[Exit]:
        """Workers that ended since the last call; does not wait."""

    def stopped(self) -> list[int]:
        """Nodes whose worker was stopped by a signal, and does not run."""

    def kill(self) -> None:
        """End every worker now."""

    def signal(self, node: int, number: int) -> None:
        """Send a signal to everything that was started on a node."""

    def start(self, node: int, program: Program, log: str) -> Running:
        """Start a program on a node beside the workers; it ends with the lab at the latest."""

    def adjust(self, changes: Sequence[LinkChange]) -> None:
        """Change links while they are in use; on return the kernel has all of it.

        Raises:
            LabError: the kernel refused.
        """

    def counters(self) -> list[Counters]:
        """Bytes, packets and drops per directed link."""

    def execute(self, node: int, command: Sequence[str], timeout_s: float) -> Completed:
        """Run one command on a node and wait for it."""

    def describe(self) -> dict[str, Any]:
        """What was read back from the kernel: rates, bursts, queues, mtu, routes, sysctls, congestion control."""

    def down(self) -> None:
        """Remove the network; the lab can come up again."""

    def close(self) -> None:
        """End the lab and everything in it."""
