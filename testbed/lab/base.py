"""The interface of every lab, a place where a topology exists and processes run; and the settings of its links.

:mod:`testbed.lab.programs` has what runs on nodes, and :mod:`testbed.lab.measurements` what a lab is asked to measure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from testbed.base.errors import LabError, SpecError
from testbed.files.foreign import Listing, UnfitError, read_piece, reason
from testbed.lab.measurements import Burst, Calibration, Counters, Interruption, Queues, Reading, Traffic, Way
from testbed.lab.programs import Command, Completed, Exit, Launch, Program, Running
from testbed.topologies.model import Topology

if TYPE_CHECKING:
    from testbed.machine.monitor import Watch

BUCKET_S = 0.001
"""Depth of a shaper's bucket in seconds at the link's rate: no 10 ms carry more than 10 % above the rate.

How late the timer may be without loss of rate. Measured on two virtual cores, 200 Mbit/s and 1 Gbit/s: a link carries
99.6 % of its rate with 0.5 ms, 99.8 to 99.9 % with 1 ms, all of it with 2 ms.
"""
BUCKET_PACKETS = 2
"""The least depth of a bucket in full packets, for slow links."""
FIRST_S = 0.03
"""Seconds in which the slowest link carries the bytes of a connection's first window, where nothing is lost:
acknowledgements may wait as long, behind data in their direction."""
FIRST_SEGMENTS = (10, 128)
"""The least and most segments of a connection's first window; the least is the kernel's own."""
LARGE_PACKET_S = 0.002
"""Seconds that the slowest link may take for what the kernel hands down at once before it is cut (GSO).

Each of these large packets costs the processor the same, however long it is: two timers, two queues, a wake-up. On two
cores, BML on BCube(3,2) with links of 600 Mbit/s takes 295 ms of processor time a synchronisation with 64 KiB, 250 with
128 KiB and 215 with 192 KiB."""
LARGE_PACKET_BYTES = (65_536, 196_608)
"""The least and most bytes of a large packet, without the headers of what it is cut into: what any kernel hands down
(``GSO_LEGACY_MAX_SIZE`` in linux/netdevice.h), and three times that, which saves two thirds of
what these packets cost. With 512 KiB, which kernels from 6.3 on can do, a ring of four at 2 Gbit/s waited for its first
chunks."""
SLOW_PACKET_S, SLOW_PACKET_BYTES = 0.02, 16_384
"""Seconds that the slowest link may take for a large packet of the least size, and the bytes to which that may make it
smaller.

The kernel fills large packets on any link whose round trips are shorter than half a millisecond when nothing waits. At
2 Mbit/s, 64 KiB take 0.28 s, and acknowledgements wait behind them: GST of halving and doubling on star(4), of 200 KiB,
was 1.48 of its bound, with 16 KiB 1.25, with 4 KiB 1.19. A ring had 1.015, 1.019 and 1.035. Processor time was the
same."""
LIGHT_BPS = 4_000_000_000
"""Sum of all links' rates that two cores carry with the smallest large packets (bit/s). Where links carry more, the
size grows in proportion.

A large packet goes from node to node as a whole: GST of Gloo's ring on four links of 1 Gbit/s is 1.02 of its bound with
64 KiB, and 1.04 with 192 KiB."""
PREFERRED_CONTROLS = ("reno", "cubic")
"""The TCP congestion controls that workers take, the best first, where a spec names none. They react to losses, and
every kernel has them. Reno first: flows that share a short link for only 0.2 s end up with more equal windows under it,
so a GST scatters less (PS on star(9) up to 1.05 of theory with cubic, 1.01 with reno)."""
SHARED = "+shared"
"""Folder of a trial's files that all its nodes may write to; no node's folder has a ``+`` in its name."""
SHARED_VARIABLE = "TESTBED_SHARED"
"""Variable of programs with its path; machines share no folder, and their programs have no such variable."""
PIECE_BYTES = 2**20
"""The most bytes that are read of a file at once."""
MOST_RELAYED_BYTES = 2**17
"""The most bytes of a message that is relayed between a process's socket and the controller's: it has 17 for each node
of the network (:mod:`testbed.workloads.sync.gate`)."""
LONGEST_DELAY_S = 10.0
"""The longest delay that a link may have: far beyond a round trip to a satellite (0.6 s); a longer one was mistyped."""


@dataclass(frozen=True)
class Impairment:
    """Changes that a directed link makes to packets beyond its rate. Each packet is a frame on the wire, at most an MTU
    long.

    Order is kept, but for the share ``reorder`` that goes at once, ahead of those delayed.

    Raises:
        SpecError: a value that no link can have.
    """

    delay_s: float = 0.0
    """Delay in one direction, from the shaper's end to the far end."""
    jitter_s: float = 0.0
    """Standard deviation of a normal distribution around the delay, cut at 0. Where packets follow each other closely
    a late one holds those behind it back, for order is kept, and they vary less."""
    loss: float = 0.0
    """Share of packets that do not arrive, each by itself (0..1)."""
    reorder: float = 0.0
    """Share of packets that are not delayed (0..1)."""

    def __post_init__(self) -> None:
        for what, value_s in (("delay", self.delay_s), ("jitter", self.jitter_s)):
            if not 0 <= value_s <= LONGEST_DELAY_S:
                raise SpecError(
                    f"a {what} of {value_s * 1e3:g} ms; a link can have 0 to {LONGEST_DELAY_S:g} s",
                    fix="choose one within",
                )
        for what, share in (("loss", self.loss), ("reorder", self.reorder)):
            if not 0 <= share <= 1:
                raise SpecError(f"a {what} of {share:g}; it is a share of packets, 0 to 1", fix="write 1 % as 0.01")
        if self.reorder and not self.delay_s and not self.jitter_s:
            raise SpecError(
                f"a reorder of {self.reorder:g} has no effect without a delay",
                fix="give a delay as well",
            )

    def __str__(self) -> str:
        """Write the impairment: ``delay 1 ms, loss 1 %``."""
        times = (("delay", self.delay_s), ("jitter", self.jitter_s))
        shares = (("loss", self.loss), ("reorder", self.reorder))
        words = [f"{name} {value_s * 1e3:g} ms" for name, value_s in times if value_s]
        words += [f"{name} {share * 100:g} %" for name, share in shares if share]
        return ", ".join(words) or "no impairment"

    def __bool__(self) -> bool:
        """Whether the link does anything to packets at all."""
        return self != Impairment()

    @property
    def every_packet(self) -> bool:
        """Whether the link decides about each packet on the wire, and not only about when a large one arrives."""
        return bool(self.loss or self.reorder)


@dataclass(frozen=True)
class LinkSettings:
    """Emulation of links, beyond the rate and delay that each link of the topology carries."""

    mtu: int = 1500
    queue_bytes: int = 64 * 2**20
    """Bytes of room at each egress before packets are dropped."""
    jitter_s: float = 0.0
    """Jitter, as in :class:`Impairment`, for every link and both directions; so are ``loss`` and ``reorder``."""
    loss: float = 0.0
    reorder: float = 0.0
    seed: int = 1
    """Seed of what is drawn at random about packets; each directed link draws its own."""
    shaped: bool = True
    """Whether rates are limited; False leaves every link as fast as the machine moves packets."""
    congestion_control: str | None = None
    """Congestion control of every node by default, for programs that do not choose their own; None leaves the
    kernel's."""
    mark_at_bytes: int | None = None
    """The length of a queue from which what enters it is marked by ECN; None marks nothing."""
    disturbed: bool = False
    """Whether something will happen to links that disturbs TCP."""
    small_queue_bytes: int | None = None
    """The most that a connection may have in the queue of its host's port, and the largest packet that it hands there
    at once; None leaves both to the kernel and to the links' rates."""
    full_packet_bytes: int | None = None
    """The size up to which TCP fills a large packet if it has that much to send; None leaves it to the kernel."""

    @property
    def drops(self) -> bool:
        """Whether queues are shorter than the default on purpose, so that links may drop packets."""
        return self.queue_bytes < LinkSettings.queue_bytes

    @property
    def datagram_bytes(self) -> int | None:
        """Bytes of datagrams that the kernel may hold in place of a stream where links slow TCP down on purpose, so
        that the datagrams do not overflow a queue by themselves; else None.

        The kernel counts a packet of 1500 B as 2304 B, and allows twice what it is told: half of a queue, told, is two
        thirds of it on the wire. With a quarter of 64 KiB at 100 Mbit/s the link stood idle whenever a sender woke up
        1.7 ms late."""
        return self.queue_bytes // 2 if self._slows_tcp_down else None

    def packet_bytes(self, topology: Topology) -> int:
        """Bytes that the kernel may hand down at once before it cuts them into packets (GSO).

        Where links drop or mark packets, it is what every kernel hands down: a queue takes or refuses it as a whole.
        """
        rates_bps = self._calm_rates_bps(topology)
        slowest_bps, full_bytes = min(rates_bps, default=0.0), self.full_packet_bytes or 0
        slow_bytes = max(slow_packet_bytes(slowest_bps), _light_packet_bytes(rates_bps), full_bytes)
        return self.small_queue_bytes or round(allowed_packet_bytes(self.packet_bytes_by_rates(topology), slow_bytes))

    def packet_bytes_by_rates(self, topology: Topology) -> float:
        """Bytes of a large packet in proportion to the links' rates, without limits. 0 where it is the least at any
        rate."""
        rates_bps = self._calm_rates_bps(topology)
        if not rates_bps or self.small_queue_bytes:
            return 0.0
        return min(min(rates_bps) / 8 * LARGE_PACKET_S, _light_packet_bytes(rates_bps))

    def first_segments(self, topology: Topology) -> int:
        """Number of segments with which connections begin; 0 for as many as the kernel chooses."""
        least, most = FIRST_SEGMENTS
        carried = int(min(self._calm_rates_bps(topology), default=0.0) / 8 * FIRST_S / self.mtu)
        return min(most, carried) if carried > least else 0

    def _calm_rates_bps(self, topology: Topology) -> list[float]:
        """Rates of all links; empty where links are not shaped, or where a burst may cost packets."""
        return [link.rate_bps for link in topology.links] if self.shaped and self.is_calm else []

    @property
    def is_calm(self) -> bool:
        """Whether no packet will be dropped, marked or sent again, at any time."""
        return not self.disturbed and not self._slows_tcp_down

    @property
    def _slows_tcp_down(self) -> bool:
        return self.drops or self.loss > 0 or self.reorder > 0 or self.mark_at_bytes is not None


def _light_packet_bytes(rates_bps: Sequence[float]) -> float:
    """Compute the size of large packets with which two cores carry links of these rates (:data:`LIGHT_BPS`)."""
    return sum(rates_bps) / LIGHT_BPS * LARGE_PACKET_BYTES[0]


def slow_packet_bytes(slowest_bps: float) -> float:
    """Compute the bytes that the slowest link carries in :data:`SLOW_PACKET_S`, at least :data:`SLOW_PACKET_BYTES`."""
    return max(SLOW_PACKET_BYTES, slowest_bps / 8 * SLOW_PACKET_S)


def allowed_packet_bytes(by_rates: float, slow_bytes: float) -> float:
    """The size of a large packet that the links' rates ask for (:meth:`LinkSettings.packet_bytes_by_rates`), within
    :data:`LARGE_PACKET_BYTES`; less than that, but not less than ``slow_bytes``, where links are slow."""
    least, most = LARGE_PACKET_BYTES
    return min(most, max(min(least, slow_bytes) if by_rates else least, by_rates))


@dataclass(frozen=True)
class LinkChange:
    """Settings that one directed link is to have from now on; None leaves a setting as it is.

    ``blocked`` drops everything at the egress, as a cut cable does; neither end is told.
    """

    directed_link: int
    rate_bps: int | None = None
    queue_bytes: int | None = None
    blocked: bool | None = None

    def then(self, later: LinkChange) -> LinkChange:
        """Combine two changes; where both set a value, the later one's holds."""
        said = {name: value for name, value in vars(later).items() if value is not None}
        return replace(self, **said)


@dataclass(frozen=True)
class Patched:
    """A move of circuits: how many went dark and how many came up, and from when (dark) to when (lit), on
    ``time.monotonic``."""

    parted: int
    joined: int
    dark_s: float
    lit_s: float

    @classmethod
    def between(cls, before: Topology, after: Topology, dark_s: float, lit_s: float) -> Self:
        """Count the circuits that moved from one network to another."""
        old, new = before.circuits.items(), after.circuits.items()
        return cls(len(old - new) // 2, len(new - old) // 2, dark_s, lit_s)


class Lab(Protocol):
    """A lab: brings a network up, runs processes on it, reads what happened, takes it down. One network at a time.

    These are all the methods that the rest of testbed calls. It is told of a lab that is not open by its
    :class:`testbed.lab.place.DeclaredPlace`.
    """

    real_switches: bool
    """Whether its switches are machines of their own, on which nothing of ours runs."""

    def require(self, topology: Topology, settings: LinkSettings) -> None:
        """Look whether this place can emulate such links, before anything is built.

        Raises:
            SpecError: no place could.
            MissingToolError: it lacks a program or a kernel module, which is named.
        """

    def share(self, work: Path, reads: Sequence[Path] = ()) -> None:
        """Let processes on the nodes, from the next :meth:`up` on, read what is in ``work`` and ``reads``. All those on
        the node NAME may write below ``work / NAME``, and below ``work / SHARED`` where the nodes are on one machine,
        if these are there, and nowhere else of a run directory. They see these folders under the same paths.

        Raises:
            SpecError: this place cannot show such folders to them.
        """

    def written(self, node: int, folder: Path) -> Listing:
        """List what programs have written below ``folder``, one of those that they read, while the network is up: of
        their node alone where nodes have copies, and else what was changed since the last one was launched there.

        Raises:
            LabError: it cannot be read, or the lab has ended.
        """

    def read_written(self, node: int, folder: Path, name: str, offset: int) -> bytes:
        """Read up to :data:`PIECE_BYTES` of a file that :meth:`written` lists, from ``offset`` on. No link is followed.

        Raises:
            LabError: as :meth:`written`.
        """

    def tell(self, path: Path, said: Mapping[str, Any]) -> None:
        """Add a line of JSON to a file below the shared ``work``, which is not in a node's own folder, while processes
        run that read it. ``time`` in it is a moment of this process (``time.monotonic``); processes read it on their
        own clock.

        Raises:
            LabError: a machine is lost.
        """

    def up(self, topology: Topology, settings: LinkSettings, pairs: Iterable[tuple[int, int]]) -> None:
        """Build the network, with routes between each (source, destination) pair of hosts, and read it back.

        Raises:
            LabError: the kernel reports something else than what was asked for.
            PrivilegeError: the kernel does not let this user build it.
        """

    def plan_patch(self, topology: Topology, pairs: Iterable[tuple[int, int]] | None = None) -> None:
        """Work out :meth:`patch` for the same topology and pairs, as the next move, so that it begins at once.

        Raises:
            TopologyError: a pair would have no route.
            LabError: another network is up.
        """

    def patch(
        self,
        topology: Topology,
        dark_s: float,
        pairs: Iterable[tuple[int, int]] | None = None,
        lit: Callable[[], object] = lambda: None,
    ) -> Patched:
        """Move circuits while the network is up, to those of ``topology``, which is otherwise the one that is.

        Circuits that stay are not touched. Those that go are dark at once, what is sent into them is lost, and after
        ``dark_s`` the new ones come up, with routes for ``pairs``, or for those of :meth:`up`. ``lit`` is called once
        they carry light, before they are read back. Moves take turns.

        Raises:
            TopologyError: a pair would have no route; nothing has changed then.
            LabError: another network is up, or the kernel reports something else than what was asked for.
        """

    def agent(self) -> list[str]:
        """Return a command that, called in the lab with ``HOST COMMAND...`` added, runs that command on that host: what
        programs take in place of ssh to start others on other machines."""

    def launch(self, workers: Sequence[Launch]) -> None:
        """Start the workers, and other processes of the trial. A name may come again once its process has ended.

        Raises:
            SpecError, LabError: as :func:`testbed.lab.programs.check_launches`.
        """

    def exits(self) -> list[Exit]:
        """List processes of :meth:`launch` that ended since the last call; does not wait."""

    def stopped(self) -> list[str]:
        """Names of processes of :meth:`launch` that were stopped by a signal, and do not run."""

    def cpu_s(self) -> dict[str, float]:
        """Processor time so far of processes of :meth:`launch` that run, and of all that each has started."""

    def kill(self) -> None:
        """End every process of :meth:`launch` now."""

    def impair(self, wanted: Mapping[int, Impairment]) -> None:
        """Change what directed links do to packets while the network is up; return when they do so.

        Packets already on their way keep their time. :meth:`describe` tells of it from then on.

        Raises:
            LabError: nothing is up, or the kernel has something else than was asked for.
            MissingToolError: this place cannot do so.
        """

    def signal(self, target: str, number: int) -> None:
        """Send a signal to the process of this name, or, if it is a node's name, to everything that was started there.

        One that has ended gets none.

        Raises:
            LabError: as :func:`testbed.lab.programs.check_target`.
        """

    def start(self, node: int, program: Program, log: str) -> Running:
        """Start a program on a node beside the workers; it ends with the lab at the latest."""

    def adjust(self, changes: Sequence[LinkChange]) -> None:
        """Change links while they are in use; on return the kernel has all of it.

        Raises:
            LabError: the kernel refused.
        """

    def calibrate(self, pings: Sequence[Way], bursts: Sequence[Burst]) -> Calibration:
        """Send small packets to and fro on each way, then each burst; nothing else may use the network meanwhile."""

    def verify(self) -> None:
        """Read the network back again and compare it with what was asked for, changes since then included.

        Raises:
            LabError: something differs, and is named.
        """

    def spot_check(self) -> Reading:
        """Read links' rates, buckets and queues back while they are in use, as many as take a few milliseconds, drawn
        anew each time. Changes that the caller makes with :meth:`adjust` and :meth:`impair` are done or not begun.

        Raises:
            LabError: nothing is up, or the lab has ended.
        """

    def counters(self) -> list[Counters]:
        """Bytes, packets and drops per directed link; empty for links that the lab does not make."""

    def traffic(self, ports: range) -> Sequence[Traffic]:
        """Bytes that links carry, and what TCP connections with one of these ports have sent and received of them, by
        machine that counts; empty where this place cannot tell.

        Raises:
            MissingToolError: the kernel tells nothing of connections.
        """

    def watch_queues(self) -> bool:
        """Begin to read again and again how many bytes wait at each egress, so seldom that it takes about 1 % of a
        core; False where this place cannot, or links are not shaped."""

    def queues(self) -> Queues:
        """Stop :meth:`watch_queues`, and return what was read.

        Raises:
            LabError: queues are not watched, or the lab has ended.
        """

    def interruptions(self) -> list[Interruption]:
        """List the times since the trial began in which this place saw that its network did not carry, unasked."""

    def execute(self, node: int, command: Sequence[str], timeout_s: float) -> Completed:
        """Run one command on a node and wait for it."""

    def describe(self) -> dict[str, Any]:
        """Settings read back from the kernel: rates, bursts, queues, mtu, routes, sysctls, congestion control."""

    def down(self) -> None:
        """Remove the network; the lab can come up again."""

    def between_racks(self) -> list[dict[str, Any]]:
        """Rates of links between switches, as :attr:`testbed.evidence.calibration.Calibrated.rates` has them, where no
        process on a switch can measure them (:attr:`real_switches`); else empty.

        Raises:
            LabError: it could not be measured.
        """

    def monitor(self) -> Watch:
        """Make the watch of the CPUs that processes on the nodes run on."""

    def attach(self, node: int, command: Sequence[str], files: tuple[int, int, int]) -> Command:
        """Start a command on a node with these files, such as a person's terminal, as its standard input, output and
        error; the caller keeps them."""

    def fileno(self) -> int:
        """File descriptor for select(): readable when the lab has ended."""

    def close(self) -> None:
        """End the lab and everything in it."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the lab, as :meth:`close`."""


def piece_of(below: Path, name: str, offset: int) -> bytes:
    """Read a piece of a file that :meth:`Lab.written` lists, where this process can open its folder.

    Raises:
        LabError: it cannot be read.
    """
    try:
        return read_piece(below, name, offset, PIECE_BYTES)
    except (OSError, UnfitError) as error:
        raise LabError(f"{name}: {reason(error)}") from None
