"""The kind of workload ``trace``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from testbed.base.errors import SpecError
from testbed.base.groups import Number, Size, Whole, refuse
from testbed.files import foreign
from testbed.spec.workload.base import MOST_ITERATIONS, Program, Reading, Workload
from testbed.workloads.trace import files
from testbed.workloads.trace.agenda import check_ends
from testbed.workloads.trace.graph import Groups, Node, Trace, check, counted_from, within

PLAYER = "testbed.workloads.trace.player"
_FACTOR = re.compile(r"(\d+(?:\.\d+)?)\s*x")
LARGEST_FACTOR = 1000


def _below(value: str) -> str:
    """Check the name of a file below the spec's directory."""
    if value.startswith(("/", "-")) or ".." in value.split("/"):
        raise refuse(
            f"{value!r:.200} is not below the spec's directory", "copy the files there, such as traces/x.%d.et"
        )
    return value


def _of_each_rank(value: str) -> str:
    ranks = 0 if value.endswith(files.OF_ALL) else 1
    if not value.count("%d") == value.count("%") == ranks:
        raise refuse(
            f"{value!r:.200} names no file for each rank",
            "write %d in place of the rank, as in traces/x.%d.et; a file of all ranks ends in .goal",
        )
    if re.search(r"[*?\[]", value):
        raise refuse(f"{value!r:.200} has one of the characters * ? [", "rename the files")
    return value


def _range(value: str) -> str:
    match = re.fullmatch(r"(\d{1,6})\.\.(\d{1,6})", value)
    if not match or int(match[1]) > int(match[2]):
        raise refuse(f"{value!r:.60} is no range of ranks", "write it as 0..7")
    return value


def _factor(value: object) -> object:
    """Read ``recorded``, ``none`` or ``0.5 x`` as a factor."""
    fix = "write recorded, none, or a factor such as 0.5 x"
    if isinstance(value, str):
        value = {"recorded": "1 x", "none": "0 x"}.get(value, value)
        match = _FACTOR.fullmatch(value)
        value = float(match[1]) if match else value
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= LARGEST_FACTOR:
        raise refuse(f"compute {value!r:.60} is no time of nodes", fix)
    return float(value)


class ExecutionTrace(Workload):
    """Each host plays a rank of an execution trace: it computes for as long as the trace says, and asks for the same
    collectives and messages, which go along the arm's scheme. All results are checked."""

    carries: ClassVar[str] = "script"
    takes_scale: ClassVar[bool] = False

    kind: Literal["trace"]
    file: Annotated[str, Field(strict=True, max_length=500), AfterValidator(_below), AfterValidator(_of_each_rank)] = (
        Field(examples=["traces/dlrm.%d.et"])
    )
    """The file of each rank, with ``%d`` in place of its number, below the spec's directory: one of Chakra's, or, if
    its name ends in ``.json``, a host trace of PyTorch's ``ExecutionTraceObserver`` or a list of PARAM's. A GOAL
    schedule, whose name ends in ``.goal``, is one file of all ranks."""
    groups: Annotated[str, Field(strict=True, max_length=500), AfterValidator(_below)] | None = Field(
        None, examples=["traces/groups.json"]
    )
    """A JSON file with the ranks of each group, as ASTRA-sim has it. Without it, groups that a trace only names are all
    ranks."""
    ranks: Annotated[str, Field(strict=True), AfterValidator(_range)] | None = Field(None, examples=["0..7"])
    """The ranks of the trace that are played, if they are fewer than it has. They must talk among themselves only."""
    iterations: Whole = Field(ge=1, le=MOST_ITERATIONS, examples=["3"])
    """How many times the trace is played."""
    warmup: Whole = Field(1, ge=0)
    """The number of iterations at the beginning that medians leave out. JCT includes them."""
    scale: Number = Field(1.0, ge=1, le=1e6, examples=["100"])
    """Bytes of the trace and rates of all links are divided by this number, so that all times stay the same."""
    compute: Annotated[float, BeforeValidator(_factor)] = Field(
        1.0,
        examples=["0.5 x", "recorded", "none"],
        json_schema_extra={"also": ["recorded", "none"], "otherwise": "`recorded`"},
    )
    """The time of nodes that compute: ``recorded``, as in the trace; ``none``; or a multiple of it."""
    chunk_bytes: Annotated[Size, Field(gt=0)] | None = Field(None, alias="chunk", examples=["128 KiB"])
    """The largest size of the pieces in which arrays are sent and summed, as for ``command``."""

    @property
    def first(self) -> int:
        """The rank of the trace that the first host plays."""
        return int(self.ranks.split("..")[0]) if self.ranks else 0

    @property
    def program(self) -> Program:
        words = ["python", "-P", "-m", PLAYER, self.file, "--first", str(self.first)]
        words += ["--iterations", str(self.iterations), "--scale", f"{self.scale:g}", "--pace", f"{self.compute:g}"]
        if self.groups:
            words += ["--groups", self.groups]
        inputs = (self.file.replace("%d", "*"), *([self.groups] if self.groups else []))
        return Program(tuple(words), inputs, inputs_key="workload", computes=False)

    @property
    def reading(self) -> Reading:
        return Reading(self.warmup, metrics={"iteration_s": r"iteration ([0-9.]+) s"})

    @property
    def batch(self) -> list[int]:
        """Batch 0, which stands for a batch of which nothing is known."""
        return [0]

    def check_ranks(self, folder: Path, world: int) -> None:
        if self.ranks:
            last = int(self.ranks.split("..")[1])
            if last - self.first + 1 != world:
                raise SpecError(
                    f"ranks {self.ranks} are {last - self.first + 1}, and hosts are {world}",
                    fix="name as many ranks as hosts",
                )
        elif (other := files.of_rank(self.file, world)) != self.file and (folder / other).exists():
            raise SpecError(
                f"there is {other}, and hosts are {world}",
                fix=f"take as many hosts as the trace has ranks, or write ranks: 0..{world - 1}",
            )
        self.traced(folder, world)

    def traced(self, folder: Path, world: int) -> Trace:
        """
        Raises:
            SpecError: files are no trace that so many ranks can play.
            MissingToolError: protobuf is not installed.
        """
        ranks, groups = _checked(folder, self.file, self.groups, self.first, world, self.ranks is not None)
        return Trace(ranks, groups, self.iterations, self.scale, self.compute)

    @model_validator(mode="after")
    def _some_measured(self) -> Self:
        if self.warmup >= self.iterations:
            raise refuse(
                f"warmup {self.warmup} leaves none of {self.iterations} iterations to measure",
                f"give a warmup of at most {self.iterations - 1}, or more iterations",
            )
        if self.chunk_bytes is not None and self.chunk_bytes % 8:
            raise refuse(f"chunk of {self.chunk_bytes} bytes cuts a float64", "give a multiple of 8 B, such as 128 KiB")
        return self


@lru_cache(16)
def _checked(
    folder: Path, pattern: str, groups: str | None, first: int, world: int, are_some: bool
) -> tuple[Mapping[int, list[Node]], Groups]:
    """Read the files of so many ranks, once for all arms, and check them; return their nodes in order, and the groups,
    with ranks that are numbered from 0 on. If they ``are_some`` of the ranks, groups of others count only if a node is
    in them, as do groups that ranks tell of themselves.

    Raises:
        SpecError: they are no trace that so many ranks can play.
        MissingToolError: protobuf is not installed.
    """
    ranks: dict[int, list[Node]] = {}
    told: dict[str, tuple[int, ...]] = {}
    for rank in range(first, first + world):
        name = files.of_rank(pattern, rank)
        read, own = files.read(folder / name, foreign.opened, name=name, rank=rank)
        for group, members in own.items():
            if told.setdefault(group, members) != members:
                raise SpecError(
                    f"{name}: group {group} has other ranks than in files before",
                    fix="give each group a name of its own, or write groups: FILE",
                )
        ranks[rank] = read.nodes
    if groups:
        told = dict(files.read_groups(folder / groups, foreign.opened, groups))
    if are_some or not groups:
        told = dict(within(ranks, told, {node.group for nodes in ranks.values() for node in nodes}))
    ordered = check(ranks, told)
    check_ends(ordered, told)
    renamed = {rank - first: counted_from(first, nodes, {})[0] for rank, nodes in ordered.items()}
    return renamed, counted_from(first, (), told)[1]
