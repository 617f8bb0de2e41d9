"""Base of every kind of workload, and the keys of those whose gradients a scheme synchronises."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from testbed.base.errors import SpecError
from testbed.base.groups import Group, Pace, Size, Time, Whole, listed, refuse
from testbed.workloads.job import Task
from testbed.workloads.learning.buckets import Gradient
from testbed.workloads.own.prepared import Prepared
from testbed.workloads.parallel.models import NAMES, operators_of
from testbed.workloads.parallel.operators import Model, cut, scaled
from testbed.workloads.trace.graph import Trace


class ComputeTime(Group):
    """The time that a worker takes to compute a gradient. ``compute: none`` is short for ``compute: {mode: none}``."""

    mode: Literal["real", "paced", "none"] = "real"
    """``real``: the processor's own time. ``paced``: the time that ``pace`` gives. ``none``: no time."""
    pace_s: dict[Whole, Time] = Field(default={}, alias="pace", examples=["{8: 100 ms}"])
    """The time to compute a gradient, for each batch size. It includes the optimizer's step."""

    @model_validator(mode="after")
    def _pace_only_when_paced(self) -> ComputeTime:
        if self.mode != "paced" and self.pace_s:
            raise refuse(f"mode {self.mode!r} takes no pace", "remove the pace, or write mode: paced")
        return self


class TrainedTime(ComputeTime):
    """The time that a worker takes to compute the gradient of a model that is trained. ``compute: none`` is short for
    ``compute: {mode: none}``."""

    pace_s: dict[Whole, Time] = Field(
        default={}, alias="pace", examples=["{8: 100 ms}", "fit"], json_schema_extra={"also": ["fit"]}
    )
    """The time to compute a gradient, for each batch size. It includes the optimizer's step. ``fit`` takes twice the
    time in which this machine computes the gradients of all workers of the largest arm, rounded up."""


class PlayedTime(ComputeTime):
    """The time that a profile's worker takes to compute a gradient. Without a pace this is the published time."""

    mode: Literal["paced", "none"] = "paced"
    """``paced``: the time that ``pace`` gives, or else ``flops``, or else the published one. ``none``: no time."""
    flop_per_s: Pace | None = Field(default=None, alias="flops", exclude=True, examples=["10 TFLOP/s"])
    """The operations that a worker computes in a second. They give the time of each batch that ``pace`` does not have.
    A forward pass has two operations for each multiply-add, and a backward pass has twice as many."""

    @model_validator(mode="after")
    def _flops_only_when_paced(self) -> PlayedTime:
        if self.mode != "paced" and self.flop_per_s:
            raise refuse(f"mode {self.mode!r} takes no flops", "remove flops, or write mode: paced")
        return self


def mode_alone(value: object) -> object:
    return {"mode": value} if isinstance(value, str) else value


def no_pace(missing: list[int], known: str = "") -> PydanticCustomError:
    return refuse(
        f"compute.pace has no time for batch {', '.join(map(str, missing))}",
        f"add it, such as pace: {{{missing[0]}: 0.3 s}}{known}",
    )


LARGEST_BATCH = 2**16
"""The largest batch. No published experiment gives one worker more samples at once, and images of that many fit into
memory."""
MOST_ITERATIONS = 1_000_000
"""The most iterations. At 10 ms each, three hours of one trial; a worker keeps a line of each."""
Batch = Annotated[int, Field(strict=True, ge=1, le=LARGEST_BATCH)]


@dataclass(frozen=True)
class Program:
    """A program that every host runs in place of our worker: words, the files that its result depends on (None: all
    Python in the spec's directory), and those that it writes and that are kept."""

    words: tuple[str, ...]
    inputs: tuple[str, ...] | None
    outputs: tuple[str, ...] = ()
    python: str | None = None
    """The Python of its ranks; None for the one that testbed runs with."""
    inputs_key: str = "workload.inputs"
    """The place in a spec that names ``inputs``."""
    computes: bool = True
    """Whether it takes processor time, as a program that waits in place of computing does not."""


@dataclass(frozen=True)
class Reading:
    """Settings of the evaluation of what ranks of a program tell.

    Attributes:
        warmup: iterations at the beginning that medians leave out.
        check: every so-many-th sum is held against Gloo's; 0 for none.
        pace_s: how long a backward pass takes at least; 0 for as long as it takes.
        metrics: by name, patterns that find numbers in logs.
    """

    warmup: int = 1
    check: int = 0
    pace_s: float = 0.0
    metrics: Mapping[str, str] = field(default_factory=dict)


class Workload(Group):
    """A workload: what is computed, the same in every arm.

    Attributes:
        brings: the kind of trial (:mod:`testbed.workloads.kinds`) that it makes of each arm by itself; empty where an
            arm needs a scheme, which says that.
        carries: the kind of trial that an arm's scheme makes of it, in place of the scheme's own; empty where arms with
            one are what their schemes say, or, with ``brings``, where arms have none.
        of_schemes: keys that say nothing of arms without a scheme.
        takes_scale: whether a spec may say by what its gradients, and the links' rates, are divided.
        program: what hosts run in place of our workers, if they do.
        reading: what is made of what its ranks tell, if arms may have schemes.
    """

    brings: ClassVar[str] = ""
    carries: ClassVar[str] = ""
    of_schemes: ClassVar[frozenset[str]] = frozenset()
    takes_scale: ClassVar[bool] = False
    kind: str

    if TYPE_CHECKING:  # a field of some, a property of others

        @property
        def scale(self) -> float: ...

        @property
        def chunk_bytes(self) -> int | None: ...

    @property
    def program(self) -> Program | None:
        return None

    @property
    def reading(self) -> Reading | None:
        return None

    def check_ranks(self, folder: Path, world: int) -> None:
        """Check that so many ranks of its program can do it; its files are named from ``folder`` on.

        Raises:
            SpecError: they cannot.
        """

    def traced(self, folder: Path, world: int) -> Trace | None:  # noqa: ARG002
        """Return what so many ranks of its program do; None where that is known only when they do it."""
        return None


class Synchronised(Workload):
    """A workload of workers that compute, the same in every arm, between the synchronisations of a scheme.

    Attributes:
        is_trained: whether weights depend on the sums: a process of the harness repeats the work. Otherwise workers
            count the wrong elements of each sum themselves.
        is_sketched: of work that is repeated, whether sums are held against gradients by sketches besides. That tells
            nothing more where nothing is rounded, because the weights then tell of every sum.
        uses_torch: whether workers need PyTorch.
        is_resumable: whether workers can go on from any weights, for they keep nothing that belongs to certain ones.
        placeable: the models that have operators, which a strategy can place.
        scale: what divides gradients and the links' rates alike.
    """

    is_trained: ClassVar[bool] = False
    is_sketched: ClassVar[bool] = True
    uses_torch: ClassVar[bool] = False
    is_resumable: ClassVar[bool] = True
    placeable: ClassVar[Sequence[str]] = NAMES

    model: str
    """The model whose gradient is synchronised: one of ``testbed models``."""
    batch: Annotated[list[Batch], BeforeValidator(listed)] = Field(min_length=1, examples=["[16, 64]"])
    """The number of samples per worker and iteration. With a list, every arm runs with each number in it."""
    iterations: Whole = Field(ge=1, le=MOST_ITERATIONS, examples=["20"])
    """The number of iterations of each worker."""
    warmup: Whole = Field(1, ge=0)
    """The number of iterations at the beginning that medians and percentiles leave out. JCT includes them."""
    compute: Annotated[ComputeTime, BeforeValidator(mode_alone)] = ComputeTime()
    """The time that computing a gradient takes. The default is the time that it takes on this machine, or a profile's
    published time."""
    overlap: Literal["none", "layer", "both"] = "none"
    """``none``: a worker sends when it has the whole gradient. ``layer``: it sends each layer as soon as the backward
    pass has its gradient."""
    bucket_bytes: Annotated[Size, Field(gt=0)] | None = Field(None, examples=["25 MB"])
    """With overlap, layers are put together until a bucket has this size, as in PyTorch's DDP. By default each layer is
    sent by itself."""
    priority: Literal["none", "layer"] = "none"
    """``layer``: with overlap, layers that the next forward pass needs first are sent before others that wait.
    ``none``: layers are sent in the order in which they are ready."""
    chunk_bytes: Size | None = Field(None, alias="chunk", examples=["128 KiB"])
    """The size of the pieces in which the gradient is sent and summed. Smaller chunks take more processor time. Larger
    chunks reach the next node later. ``scale`` does not change it. The default is what the slowest link carries in
    5 ms, from 128 KiB to 512 KiB. Where links would wait for the first pieces, as under trees, it may be as small as a
    quarter of that. Where nodes send different amounts in different steps, as under halving-doubling, it may be as
    small as 128 KiB."""

    def layers(self) -> list[list[int]]:
        """Floats of each tensor, by layer, in the order in which gradients become ready.

        Raises:
            SpecError: there is no such model.
        """
        raise NotImplementedError

    def operators(self, batch: int, parts: int) -> Model:
        """Operators of its model, divided by its scale, with batches of so many samples, for strategies. Embedding
        tables are cut by columns into so many parts each.

        Raises:
            SpecError: the model has none, or its tables cannot be cut so.
        """
        return scaled(self.whole(batch, parts), self.scale)

    def whole(self, batch: int, parts: int) -> Model:
        """Operators of its model in the model's own size.

        Raises:
            SpecError: as :meth:`operators`.
        """
        if parts != 1 and self.is_trained:
            raise SpecError(
                f"a model that is trained has whole tables, and cut is {parts}",
                fix="remove cut, or play the model: kind: profile",
            )
        if self.model not in self.placeable:
            raise SpecError(
                f"model {self.model} has no operators for a strategy to place",
                fix=f"remove strategy, or take a model that has some: {', '.join(self.placeable)}",
            )
        found = operators_of(self.model) if parts == 1 else cut(operators_of(self.model), parts)
        return replace(found, samples=batch)

    def check(self) -> None:
        """Check that what the workload names goes together.

        Raises:
            SpecError: it does not.
        """

    def needs(self, seed: int) -> Hashable:  # noqa: ARG002
        """Key of the files that have to be prepared, in a spec with this seed; None where none are."""
        return None

    def prepare(self, folder: Path, seed: int) -> Prepared:
        """Prepare files for workers, made once for all workloads that :meth:`needs` finds equal; paths start from
        ``folder``.

        Raises:
            SpecError: what the workload names cannot be used.
            MissingToolError: a package that it takes is not installed.
        """
        raise NotImplementedError

    def refuse(self, own: Prepared | None, world: int) -> None:
        """Check that so many workers can do it, with the files that were prepared.

        Raises:
            SpecError: they cannot.
        """

    def largest(self, own: Prepared | None) -> int | None:  # noqa: ARG002
        """The largest magnitude that an element of a gradient or of a sum can have, if all of them are whole numbers
        whose sums must be exact; otherwise None."""
        return None

    def task(self, batch: int, seed: int, gradient: Gradient, rounding: float) -> Task:
        """Make the task of each worker; ``rounding`` is by how much an element of a right sum of a profile may be
        off."""
        raise NotImplementedError

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(set(self.batch)) < len(self.batch):
            raise refuse(f"batch {self.batch} holds a size twice", "give each size once; use repeats to run it again")
        if self.warmup >= self.iterations:
            raise refuse(
                f"warmup {self.warmup} leaves none of {self.iterations} iterations to measure",
                f"give a warmup of at most {self.iterations - 1}, or more iterations",
            )
        for name, value in (("bucket_bytes", self.bucket_bytes), ("priority: layer", self.priority == "layer")):
            if self.overlap == "none" and value:
                raise refuse(
                    f"overlap none sends everything at once, and takes no {name}", "write overlap: layer, or remove it"
                )
        if self.chunk_bytes is not None and self.chunk_bytes % 4:
            raise refuse(f"chunk of {self.chunk_bytes} bytes cuts a float32", "give a multiple of 4 B, such as 128 KiB")
        return self
