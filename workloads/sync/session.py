"""A process's part in the synchronisations of one trial: our engine, a library, or a parameter server."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from itertools import count, takewhile
from types import MappingProxyType, TracebackType
from typing import Any, Protocol, Self

from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.tcp_info import Sent


class Model(Protocol):
    """The model on which a worker computes, as a session changes it after a synchronisation."""

    def step(self, world: int) -> None:
        """Take the step that follows from the sum over ``world`` ranks in the gradient."""

    def put(self) -> None:
        """Take the weights that came, and compute on them from now on."""


class Session(ABC):
    """A process's part in synchronisations: it sums the gradient over all workers, in place, unless a kind of trial
    makes something else of it.

    Attributes:
        leaves_sums: whether the gradient holds the sum after :meth:`wait`.
        mover: what of ours moves chunks, "compiled" or "python"; None where that is a library's, or another's.
    """

    leaves_sums = True
    mover: str | None = None

    @property
    def checks_sums(self) -> bool:
        """Whether sums, here or elsewhere, are compared with the workers' gradients."""
        return self.leaves_sums

    @property
    @abstractmethod
    def congestion_control(self) -> str:
        """The congestion control of TCP; empty where it is not known."""

    @property
    @abstractmethod
    def wire_bytes(self) -> int | None:
        """Bytes handed to TCP so far; None where a library does not say."""

    @property
    @abstractmethod
    def sent(self) -> dict[int, Sent] | None:
        """The bytes that the kernel has put on the wire so far, by neighbour; None where a library does not say."""

    @abstractmethod
    def start(self, bucket: int) -> None:
        """Begin with a bucket of this iteration."""

    @abstractmethod
    def poll(self, timeout_s: float) -> None:
        """Move what can be moved within that time."""

    @abstractmethod
    def wait(self, timeout_s: float) -> float:
        """Return when the iteration's synchronisation is done, with the moment at which it was.

        Raises:
            TrialTimeoutError, WorkerError: a neighbour is silent or gone.
        """

    @abstractmethod
    def barrier(self, timeout_s: float) -> None:
        """Return when every process of the trial has called this."""

    @abstractmethod
    def __enter__(self) -> Self: ...

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def tells(self, write: Callable[..., None]) -> None:  # noqa: B027
        """Take ``write``, which adds a line ``journal`` with its arguments as fields to the process's samples: for
        facts that must be known even if the process is killed."""

    def iterations(self, done: int, total: int) -> Iterator[int]:
        """Yield the iterations that this worker does: all that are left, unless another process gives them out."""
        return iter(range(done, total))

    def replan(self, plan: Forest) -> None:
        """Follow another plan from the next iteration on, as every process of the trial does. Chunks, classes and
        barrier stay, and whoever meets in the plan has met.

        Raises:
            ValueError: an iteration has begun, the plan has other chunks or neighbours, or this follows one plan only.
        """
        raise ValueError(f"{type(self).__name__} follows one plan, and is told {plan.scheme}")

    def step(self, model: Model, world: int) -> None:
        """Take the step that follows from what came back, for a worker that trains."""
        model.step(world)

    def serve(self, buckets: int, done: int, total: int, silence_s: float) -> Iterator[int]:
        """Do the work of a process without a gradient of its own, and yield the number of iterations that are done."""
        for i in range(done, total):
            for bucket in range(buckets):
                self.start(bucket)
            self.wait(silence_s)
            yield i + 1

    @property
    def seen(self) -> Mapping[str, Any]:
        """Further fields for the sample of the last iteration."""
        return {}

    def said(self) -> dict[str, Any]:
        """Return further fields for the process's last line."""
        return {}


class WeightsSession(Session):
    """A worker's part where servers apply gradients: what comes back are newer weights, and no sum.

    Attributes:
        goes_on: whether there is an iteration to do.
    """

    leaves_sums = False
    goes_on = True
    _seen: Mapping[str, float] = MappingProxyType({})

    @property
    def seen(self) -> Mapping[str, float]:
        return self._seen

    def iterations(self, done: int, total: int) -> Iterator[int]:  # noqa: ARG002
        """Yield the iterations that another process gives out to this worker."""
        return takewhile(lambda _: self.goes_on, count(done))

    def step(self, model: Model, world: int) -> None:  # noqa: ARG002
        """Put the weights that came into the model, to compute on them."""
        model.put()

    def _check_start(self, bucket: int, iteration: int) -> None:
        """
        Raises:
            ValueError: the gradient has more buckets than 0, or there is no iteration to do.
        """
        if bucket or not self.goes_on:
            raise ValueError(f"bucket {bucket} of iteration {iteration}, and goes_on is {self.goes_on}")
