"""The kind of workload ``command``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import PydanticKnownError

from testbed.base.groups import Size, Time, Whole, listed, refuse
from testbed.spec.workload.base import Program, Reading, Workload
from testbed.spec.workload.launchers import through_python

MOST_INPUTS = 50
"""The most entries of ``inputs``. Each may be a pattern that is held against every file in the spec's directory."""
MOST_METRICS = 20
LONGEST_PATTERN = 500
"""The most characters of a pattern."""


OF_SHELLS = re.compile(
    r"""\|\|?|&&?|;|([^'"]*[^'"\\])?;"""
    r"""|(\d|&)?>>?(&\d|[^'">]*)|<[^'"<>]*"""  # with the file's name at once, too
    r"""|[^'"\\]*\$[A-Za-z_{(][^'"]*"""
)
"""Words of a command that mean something else to a shell."""
SETTING = re.compile(r"[A-Za-z_]\w*=")


def words(value: object) -> object:
    """Split a command into its words. Signs of shells are refused, unless they are quoted."""
    if isinstance(value, str):
        try:
            quoted = shlex.split(value, posix=False)
        except ValueError:  # a quotation that does not end, which is told below
            quoted = []
        _check_no_shell(value, quoted)
    try:
        found = shlex.split(value) if isinstance(value, str) else value
    except ValueError as error:  # a quotation that does not end
        raise refuse(f"cannot read {value!r}: {str(error).lower()}", "write it as python train.py --epochs 2") from None
    if isinstance(found, bool | int | float):  # what YAML makes of an unquoted word
        raise PydanticKnownError("string_type")
    if found in (None, [], [""]):
        raise refuse("an empty command", "write it as python train.py --epochs 2")
    return found


def _check_no_shell(value: str, quoted: Sequence[str]) -> None:
    said = f"{value!r:.200}"
    if sign := next(filter(OF_SHELLS.fullmatch, quoted), ""):
        raise refuse(f"{said} has {sign!r}, and no shell runs it", f"write it as bash -c {shlex.quote(value)}")
    if quoted and SETTING.match(quoted[0]):
        raise refuse(f"{said} sets a variable, and no shell runs it", f"write it as env {value}")


def _pattern(value: str) -> str:
    """Check a regular expression that finds one number."""
    example = "write it as loss ([0-9.]+)"
    try:
        groups = re.compile(value).groups
    except (re.error, OverflowError, RecursionError) as error:
        raise refuse(f"{value!r} is no regular expression: {error}", example) from None
    if groups != 1:
        raise refuse(f"{value!r} has {groups} groups, and needs one around the number", example)
    return value


Pattern = Annotated[str, Field(strict=True, max_length=LONGEST_PATTERN), AfterValidator(_pattern)]


def _name(value: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", value):
        raise refuse(f"{value!r:.60} is no name of a metric", "use up to 40 of a-z, 0-9 and _, such as samples_per_s")
    return value


Metric = Annotated[str, AfterValidator(_name)]


def _some(value: object) -> object:
    if value == []:
        raise refuse("an empty list names no files", "write outputs: [checkpoints/], or leave it out")
    return listed(value)


def _below(value: str) -> str:
    """Check the name or the pattern of files below the directory that a command starts in."""
    fix = "name files below it, such as checkpoints/ or 'traces/*.json'"
    if value.startswith("/") or ".." in value.split("/"):
        raise refuse(f"{value!r:.200} is not below the directory that the command starts in", fix)
    if not value.strip("./"):
        raise refuse(f"{value!r:.200} names no file", fix)
    return value


Output = Annotated[str, Field(strict=True, min_length=1, max_length=LONGEST_PATTERN), AfterValidator(_below)]


class Command(Workload):
    """A script of yours runs on each host as one rank, as torchrun would start it. In an arm without a scheme it
    synchronises by itself. In an arm with a scheme, its collectives (``torch.distributed``) go along the scheme's
    trees."""

    brings: ClassVar[str] = "command"
    carries: ClassVar[str] = "script"
    of_schemes: ClassVar[frozenset[str]] = frozenset({"warmup", "chunk_bytes", "check", "pace_s", "metrics"})
    kind: Literal["command"]
    command: Annotated[list[Annotated[str, Field(strict=True)]], BeforeValidator(words)] = Field(
        examples=["python train.py --epochs 2"]
    )
    """The command that each host runs, in the spec's directory. It is split into words as a shell would split it, but
    no shell runs it. ``python`` is the Python that testbed runs with. In arms with a scheme, ``torchrun``,
    ``accelerate launch``, ``deepspeed`` and ``fabric run`` before a script are left out, because testbed starts the
    ranks. In arms without one they run, and must be told of all hosts."""
    python: Annotated[str, Field(strict=True)] | None = Field(None, exclude=True, examples=["/opt/venv/bin/python"])
    """The Python of the ranks, as an absolute path: that of an environment of your own, with another PyTorch. It needs
    numpy, and not testbed, which is lent to it. By default ranks have the Python that testbed runs with. For the labs
    ``netns`` and ``mininet``."""
    inputs: Annotated[list[Annotated[str, Field(strict=True, min_length=1)]], BeforeValidator(listed)] | None = Field(
        None, max_length=MOST_INPUTS, examples=["[train.py, 'model/*.py']"]
    )
    """Files in the spec's directory on which the result depends, as names or patterns. ``--resume`` refuses to go on if
    one was changed. The default is all Python files there. Scripts that the command names always count."""
    outputs: Annotated[list[Output], BeforeValidator(_some)] | None = Field(
        None, max_length=MOST_INPUTS, examples=["[checkpoints/, 'traces/*.json']"]
    )
    """Files that ranks write below the directory that they start in, or into the folder ``TESTBED_SHARED``, and that
    are kept in the run directory, in ``outputs/``, by trial and rank: names, folders or patterns. Of each rank, and of
    the folder that they share, 1 GiB is kept at most. No link is followed. By default nothing is kept."""
    warmup: Whole = Field(1, ge=0)
    """In arms with a scheme, the number of iterations at the beginning that medians leave out. JCT includes them."""
    chunk_bytes: Annotated[Size, Field(gt=0)] | None = Field(None, alias="chunk", examples=["128 KiB"])
    """In arms with a scheme, the largest size of the pieces in which arrays are sent and summed. The default is what
    the slowest link carries in 5 ms, from 128 KiB to 2 MiB (to 512 KiB under schemes with windows, such as SwitchML).
    Where links would wait for the first pieces, as under ATP, pieces may be as small as a quarter of this size, but
    they are not cut below 32 KiB. Where nodes send different amounts in different steps, as under halving-doubling,
    they may be as small as 128 KiB. This holds for a given ``chunk``, too."""
    check: Whole = Field(0, ge=0, examples=["50"])
    """In arms with a scheme, sums over all ranks (all_reduce, reduce_scatter) have numbers. Each whose number this
    divides is compared with Gloo's sum of the same arrays, outside of the measured time. The default, 0, compares
    none."""
    pace_s: Time | None = Field(None, alias="pace", gt=0, examples=["0.3 s"])
    """In arms with a scheme, how long each backward pass takes at least, as on a device of that speed. Sums are asked
    for evenly in that time. By default it takes as long as it takes on this machine."""
    metrics: dict[Metric, Pattern] = Field({}, max_length=MOST_METRICS, examples=["{loss: 'loss ([0-9.]+)'}"])
    """Numbers that the command prints, by name. Each regular expression has one group, around the number. Of arms with
    a scheme, ``loss`` is the training loss, which must be printed in each iteration, and ``samples_per_s`` the
    throughput of all ranks together. ``testbed.log(loss=...)`` in the script does the same."""

    @property
    def program(self) -> Program:
        inputs = None if self.inputs is None else tuple(self.inputs)
        return Program(tuple(self.command), inputs, tuple(self.outputs or ()), self.python)

    @property
    def reading(self) -> Reading:
        return Reading(self.warmup, self.check, self.pace_s or 0.0, dict(self.metrics))

    @model_validator(mode="after")
    def _started_by_python(self) -> Self:
        if self.python is None or self.command[0] == self.python:
            return self
        if not self.python.startswith("/"):
            raise refuse(f"python: {self.python} is no absolute path", "write it as /opt/venv/bin/python")
        if (rest := through_python(self.command)) is None:
            problem = (
                f"python: {self.python} is for commands that Python runs, and this one starts with {self.command[0]}"
            )
            raise refuse(problem, "write the command as python train.py, or leave python out")
        command = [self.python, *rest]
        object.__setattr__(self, "command", command)  # whose identity has it, too
        return self

    @model_validator(mode="after")
    def _whole_numbers_in_a_chunk(self) -> Self:
        if self.chunk_bytes is not None and self.chunk_bytes % 8:
            raise refuse(f"chunk of {self.chunk_bytes} bytes cuts a float64", "give a multiple of 8 B, such as 128 KiB")
        return self

    @property
    def batch(self) -> list[int]:
        """Batch 0, which stands for a batch of which nothing is known."""
        return [0]

    @property
    def scale(self) -> float:
        """Scale 1: rates are as the spec has them."""
        return 1.0
