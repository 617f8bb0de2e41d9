"""A worker's job: everything it needs to know, in one JSON file, so that any lab can start it anywhere."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

from testbed.workloads.learning.checkpoint import Checkpoint

VERSION = 4


@dataclass(frozen=True)
class Peer:
    """A neighbour in the forest: one TCP connection, opened by the node with the lower index.

    A neighbour that parallel circuits lead to is several peers, with the addresses of other NICs each; so is one of
    which each NIC is used.
    """

    node: int
    local: str
    """Own IPv4 address to bind, which also picks the NIC."""
    remote: str
    """The neighbour's IPv4 address."""
    port: int
    """TCP port on which the node with the higher index listens."""
    process: str = ""
    """Name in its job of the process at the other end, where the node may have several."""
    bound: bool = False
    """Whether the socket is bound to the NIC of ``local``: the route to ``remote`` leads through several NICs."""


@dataclass(frozen=True)
class Compute:
    """Time that computing takes (DESIGN, "Numbers that mean something").

    ``real``: what the CPU takes. ``paced``: the gradient is computed, then the worker waits until ``pace_s`` since the
    iteration's start have passed. ``none``: an infinitely fast accelerator; one gradient is computed before the
    start and sent again and again.
    """

    mode: Literal["real", "paced", "none"] = "real"
    pace_s: float = 0.0
    factor: tuple[float, ...] = ()
    """Factor by iteration: how many times as long computing takes this worker as it would unperturbed; empty for
    once."""
    extra_s: tuple[float, ...] = ()
    """Seconds by iteration that are added to that; empty for none."""

    def slowdown(self, iteration: int) -> tuple[float, float]:
        """Return (factor, extra seconds) of an iteration. A worker that does more iterations than the spec says, as the
        faster ones of an asynchronous scheme do, goes through all of these again."""
        return (
            self.factor[iteration % len(self.factor)] if self.factor else 1.0,
            self.extra_s[iteration % len(self.extra_s)] if self.extra_s else 0.0,
        )


class Task(Protocol):
    """Work of workers between synchronisations (:mod:`testbed.workloads.tasks`): a frozen dataclass whose fields fit
    into JSON."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def kind(self) -> str:
        """The task's name."""

    @property
    def iterations(self) -> int: ...

    @property
    def seed(self) -> int: ...

    @property
    def arrays(self) -> int:
        """Number of arrays, each as long as a gradient, that a server has to keep to go on: weights, and others that
        change them."""


Optimiser = Literal["sgd", "nesterov"]


@dataclass(frozen=True)
class Training:
    """A model, its data and its optimiser; the same on every rank. ``batch`` is the sub-minibatch of one worker."""

    model: str
    dataset: str
    batch: int
    iterations: int
    learning_rate: float
    momentum: float
    seed: int
    kind: Literal["train"] = "train"
    own_digest: str = ""
    """Digest of a user's own model and data (:mod:`testbed.workloads.own`), if the training has one of them."""
    own: tuple[str, ...] = field(default=(), compare=False)
    """Their files, as this process sees them."""
    optimiser: Optimiser = "sgd"

    @property
    def arrays(self) -> int:
        """Number of arrays: with momentum, a velocity besides the weights."""
        return 2 if self.momentum else 1


LARGEST = 8
"""Largest value of a profile's gradient."""


@dataclass(frozen=True)
class Replay:
    """A published model's gradient to be played back, see :mod:`testbed.workloads.learning.replay`.

    ``shares`` are each bucket's layers' part of the computing, in the order in which buckets become ready; an element
    of a sum is wrong if it is off by more than ``tolerance``.
    """

    iterations: int
    seed: int
    shares: tuple[float, ...]
    tolerance: float = 0.0
    kind: Literal["profile"] = "profile"

    @property
    def arrays(self) -> int:
        """Number of arrays: the weights alone."""
        return 1


@dataclass(frozen=True)
class Probe:
    """A burst of ``duration_s`` to one host through one NIC, to see what the link really carries before training."""

    local: str
    remote: str
    source: str
    """IPv4 address from which the burst comes that arrives at this NIC; what comes from another is not counted."""
    send_port: int
    """Port that ``remote`` listens on for our burst."""
    listen_port: int
    """Port on which this NIC expects the burst that arrives."""
    rate_bps: int
    """Rate (bit/s) that should arrive at this NIC: that of the slowest link on the burst's way, less what links are to
    lose."""
    duration_s: float
    pace_bps: int | None = None
    """Limit on the sending rate (bit/s); None where this NIC is the slowest link on our burst's way."""
    datagram_bytes: int | None = None
    """Bytes of datagrams that the kernel may hold. Datagrams are sent where links lose, drop or reorder packets because
    they were asked to: only a sender that is not slowed down by that shows what they carry. None for a stream of
    TCP."""


@dataclass(frozen=True)
class Meeting:
    """The place where the ranks of a library meet."""

    hosts: tuple[str, ...]
    """Name of each rank's host."""
    local: str
    """Own IPv4 address, which also says which NIC."""
    first: str
    """Rank 0's IPv4 address."""
    port: int
    """Port at which rank 0 listens, if the library wants that."""
    agent: str
    """Program that, called with ``HOST COMMAND...``, runs a command on another host, as ssh does."""


@dataclass(frozen=True)
class Failover:
    """Settings with which a process goes on when another one dies (:mod:`testbed.workloads.failover`). A generation is
    the time in which the same processes synchronise along the same forest."""

    generation: int
    folder: str
    """Folder through which processes are told to leave this generation, and get their next jobs."""
    silence_s: float
    """Time (s) after which a neighbour that moves nothing has failed."""
    first: int = 0
    """Number of iterations that are done; workers that have done fewer take the weights of one that has done
    as many."""
    shift: int = 0
    """Number of samples that earlier generations took beyond those that these workers would have taken."""
    state: tuple[Peer, ...] = ()
    """Workers to give weights to; or, for one that has done fewer iterations than ``first``, to take them from."""


@dataclass(frozen=True)
class StepJitter:
    """Time that is added to each step of a synchronisation, see :class:`testbed.workloads.sync.steps.Jitter`."""

    sigma_s: float
    seed: tuple[int, ...]


@dataclass(frozen=True)
class Gated:
    """The socket by which a process is told when to hold what it sends, see :mod:`testbed.workloads.sync.gate`."""

    path: str
    """Path of the socket of the process that tells it."""
    kernel_bytes: int
    """How much the kernel may hold of each connection, about: it has to arrive before circuits can move."""


@dataclass(frozen=True)
class WorkerJob:
    """One process of one trial. Paths are as the process sees them."""

    node: int
    name: str
    rank: int | None
    """Rank among the workers; None for a node that only reduces or forwards."""
    world: int
    forest: str
    """Path of the forest (``testbed.workloads.sync.codec``)."""
    peers: tuple[Peer, ...]
    training: Task
    compute: Compute
    overlap: Literal["none", "layer", "both"]
    """Whether buckets leave during the backward pass, and in a Replay also arrive during the next forward pass."""
    buckets: tuple[tuple[int, int], ...]
    """Spans (start, stop) of the gradient, in floats, in the order in which they become ready."""
    chunk_bytes: int
    congestion_control: str
    start_timeout_s: float
    """Time (s) within which the processes of the trial must have met."""
    timeout_s: float
    """Longest time (s) for which nothing may move afterwards."""
    samples: str
    """JSON lines this process writes: ``hello``, ``probe``, one ``iteration`` each, then ``done`` or ``error``."""
    weights: str | None = None
    """Where to save the final weights as .npy (rank 0), or None."""
    probes: tuple[Probe, ...] = field(default=())
    priority: bool = False
    """Whether a later bucket, which the next forward pass needs earlier, overtakes."""
    meeting: Meeting | None = None
    """Settings for a forest that a library runs."""
    watched: bool = True
    """Whether the process looks at its own timers and at TCP's counters (:mod:`testbed.workloads.process.vitals`)."""
    failover: Failover | None = None
    """Settings for going on without a process that died; None where its end is the end of all."""
    loss_s: float | None = None
    """Time (s) after which a process from which nothing comes is lost to the others, which go on by themselves; None
    where they do not."""
    jitter: StepJitter | None = None
    checkpoint: Checkpoint | None = None
    """Settings of the checkpoints that this process writes to a disk; None if it writes none."""
    fenced: str | None = None
    """File with a line for each process that stood still and was ended before its restart; None unless a process of the
    trial may be started again from its checkpoint, so that the others look for it."""
    restarts: int = 0
    """How many times this process was started again."""
    gate: Gated | None = None
    """Settings of the gate by which circuits move while iterations run, by what processes have still to send; None
    where they do not."""
    job: str = ""
    """Name of the job, which the process's name begins with; empty of a job that is alone."""
    also: tuple[str, ...] = ()
    """Job files of the process's parts in other jobs."""
    version: int = VERSION

    @property
    def silence_s(self) -> float:
        """Time (s) for which neighbours may move nothing while iterations run."""
        return self.failover.silence_s if self.failover else self.timeout_s

    def text(self) -> str:
        """Return the job as the text of its file."""
        return json.dumps(asdict(self))

    def save(self, path: Path) -> None:
        path.write_text(self.text())

    @classmethod
    def load(cls, path: Path) -> WorkerJob:
        return cls.read(json.loads(path.read_text()))

    @classmethod
    def read(cls, raw: dict[str, Any]) -> WorkerJob:
        """Make the job that the JSON of its file tells."""
        from testbed.workloads import tasks  # which imports this module

        if raw["version"] != VERSION:
            raise ValueError(f"job version {raw['version']}, this worker reads {VERSION}")
        raw["peers"] = tuple(Peer(**peer) for peer in raw["peers"])
        raw["training"] = tasks.load(raw["training"])
        raw["also"] = tuple(raw["also"])
        raw["buckets"] = tuple((start, stop) for start, stop in raw["buckets"])
        compute = raw["compute"]
        raw["compute"] = Compute(**compute | {name: tuple(compute[name]) for name in ("factor", "extra_s")})
        if raw["jitter"]:
            raw["jitter"] = StepJitter(raw["jitter"]["sigma_s"], tuple(raw["jitter"]["seed"]))
        if raw["checkpoint"]:
            share = raw["checkpoint"]["share"]
            raw["checkpoint"] = Checkpoint(**raw["checkpoint"] | {"share": tuple(share) if share else None})
        raw["probes"] = tuple(Probe(**probe) for probe in raw["probes"])
        if raw["meeting"]:
            raw["meeting"] = Meeting(**raw["meeting"] | {"hosts": tuple(raw["meeting"]["hosts"])})
        if raw["failover"]:
            raw["failover"]["state"] = tuple(Peer(**peer) for peer in raw["failover"]["state"])
            raw["failover"] = Failover(**raw["failover"])
        if raw["gate"]:
            raw["gate"] = Gated(**raw["gate"])
        return cls(**raw)


@dataclass(frozen=True)
class TopicModel:
    """A topic model and its sampling; the same on every rank.

    Attributes:
        words: size of the vocabulary.
        alpha, beta: concentration of the Dirichlet priors of a document's topics and of a topic's words.
        own_digest: of the corpus.
        own: its files, as this process sees them (:mod:`testbed.workloads.lda.files`).
    """

    words: int
    topics: int
    alpha: float
    beta: float
    iterations: int
    seed: int
    kind: Literal["lda"] = "lda"
    own_digest: str = ""
    own: tuple[str, ...] = field(default=(), compare=False)

    @property
    def arrays(self) -> int:
        """Number of arrays: the counts alone."""
        return 1

    @property
    def floats(self) -> int:
        """Length of the word-topic counts: a row of topics for each word."""
        return self.words * self.topics
