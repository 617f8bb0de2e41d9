"""The schema of a whole spec. Links, arms and the kinds of workload have modules of their own beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    Tag,
    TypeAdapter,
    ValidationError,
    create_model,
    model_validator,
)

from testbed.base.errors import UsageError
from testbed.base.groups import Group, Share, Time, Whole, listed, refuse, tag
from testbed.base.limits import MOST_ARMS
from testbed.base.units import time_text
from testbed.lab import choice
from testbed.lab.place import DeclaredPlace
from testbed.spec.arm import Arm
from testbed.spec.jobs import JobKeys
from testbed.spec.links import Links
from testbed.spec.options import LAB_OPTIONS, LABS, OF_BUILT_IN, LabName, LabOptions
from testbed.spec.perturb import Perturbations
from testbed.spec.text import NAME, nothing
from testbed.spec.workload.kinds import AnyWorkload
from testbed.workloads.sync.schemes import begins_by_lot

MOST_REPEATS = 1000
TOPPED_UP = 2
"""Ratio of the repeats that run at most, where too few are VALID, to those that a spec asks for. Of 10 with half of
them INVALID, 10 more give the 10 that were wanted; a machine on which more are INVALID is none for a gate."""


class Until(Group):
    """Rounds go on until the medians are known well enough."""

    until: Share = Field(gt=0, lt=1, examples=["3 %"])
    """Rounds go on until the 95 % confidence interval of each cell's median GST is within this share of the median."""
    most: Whole = Field(20, ge=2, le=MOST_REPEATS)
    """The largest number of rounds."""
    least: Whole = Field(3, ge=2, le=MOST_REPEATS)
    """The smallest number of rounds."""

    @model_validator(mode="after")
    def _in_order(self) -> Until:
        if self.least > self.most:
            raise refuse(f"at least {self.least} repeats are more than at most {self.most}", "give a larger most")
        return self


_TIMES, _UNTIL = tag("times"), tag("until")
Repeats = Annotated[
    Annotated[Whole, Field(ge=1, le=MOST_REPEATS), Tag(_TIMES)] | Annotated[Until, Tag(_UNTIL)],
    Discriminator(lambda value: _UNTIL if isinstance(value, dict | Until) else _TIMES),
]
REPEATS: dict[str, type[Group]] = {"times": Group, "until": Until}
"""The ways to say how often a trial is repeated: a number, or :class:`Until`."""


MOST_CONDITIONS = 50
MOST_RETRIES = 20
LONGEST_NAME = 60
"""The most characters of an experiment's name."""


class _Head(Group):
    """Keys that come before a lab's settings."""

    name: str = Field(
        pattern=f"^{NAME}$",
        max_length=LONGEST_NAME,
        examples=["quickstart"],
        json_schema_extra={"otherwise": "the name of the spec's file without `.yaml`"},
    )
    """The experiment's name, with which the run directory's name begins. Letters, digits, ``.``, ``_`` and ``-``."""
    seed: Whole = Field(1, ge=0, lt=2**31)
    """The seed of all random numbers: initial weights, batches, perturbations, lost packets."""
    lab: LabName = choice.DEFAULT
    """The lab in which the network is built. ``--backend`` is short for ``--set lab=``."""


if TYPE_CHECKING:
    _WithLabs = _Head
else:
    _about = "Settings of the lab ``{}``. Other labs ignore them."
    _keys = {name: (one, Field(one(), description=_about.format(name))) for name, one in LAB_OPTIONS.items()}
    _WithLabs = create_model("_WithLabs", __base__=_Head, **_keys)


class Spec(_WithLabs):
    """One experiment. Every arm runs with every batch size, ``repeats`` times, and at every point of a sweep."""

    links: Links = Field(examples=["{rate: 200 Mbit/s}"])
    """Settings of all links of every network."""
    workload: AnyWorkload = Field(examples=["{model: lenet5, dataset: digits, batch: 16, iterations: 20}"])
    """The work of each host: training a model or topics, playing a profile or a trace, or a
    command. It is the same in every arm."""
    arms: list[Arm] = Field(
        min_length=1, max_length=MOST_ARMS, examples=['[{topology: "star(hosts=9)", scheme: ring}]']
    )
    """The networks and schemes to compare. Speed-ups are relative to the first arm."""
    perturb: Perturbations = Field([], examples=["[C1, N2]"])
    """Perturbations of every arm. The default is none."""
    draws: Literal["same", "by arm"] = "same"
    """What perturbations draw by chance. ``same``: it depends on ``seed`` alone, so all arms with the same number of
    workers meet the same. ``by arm``: it depends on ``seed`` and the arm's label. It is the same in all repeats."""
    repeats: Repeats = Field(1, examples=["5"])
    """The number of rounds, or a group of keys that says when there are enough. Each cell runs once in each round."""
    retries: Whole = Field(2, ge=0, le=MOST_RETRIES)
    """A trial whose GST, JCT or samples/s is INVALID only because of the machine is measured again, at most this many
    times. Each number is that of the first attempt in which it is VALID."""
    quiet_s: Annotated[Time, BeforeValidator(nothing)] = Field(30.0, alias="quiet")
    """Each trial waits until other programs leave the machine's cores, at most for this long. 0 turns waiting off. Labs
    whose workers run elsewhere do not wait."""
    where: Annotated[list[Annotated[str, Field(strict=True)]], BeforeValidator(listed)] = Field(
        [], max_length=MOST_CONDITIONS, examples=["[servers <= hosts]"]
    )
    """Conditions. A point of a sweep runs only if it meets all of them. By default every point runs."""
    certify: Share = Field(0.03, ge=0, lt=1, examples=["3 %"])
    """The largest error of a certified number, as a share of it. Failed checks of the machine do not make a certified
    number INVALID."""
    timeout_s: Time = Field(60.0, alias="timeout", gt=0)
    """A trial fails if none of its workers makes progress for this long."""
    start_timeout_s: Time = Field(60.0, alias="start_timeout", gt=0)
    """The ``timeout`` that holds until the workers have connected to each other. It is a key of its own because many
    workers on few cores need long to load their data."""
    failover_s: Time | None = Field(None, alias="failover", gt=0, examples=["2 s"])
    """For schemes that go on when a node dies: a node also counts as dead if the others wait for it for this long
    (``rina``), or if nothing comes from it for this long (``mlfabric_a``, ``mlfabric_ssp``). For ``rina`` it must be
    longer than the time to compute a gradient. The default is the value of ``timeout``. The death of a killed process
    is noticed at once."""

    _of_jobs: dict[tuple[str | None, int | None], AnyWorkload] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _schemes_where_needed(self) -> Spec:
        brings = self.workload.brings
        for i, arm in enumerate(self.arms):
            if brings and arm.scheme and not self.workload.carries:
                raise refuse(f"arms.{i} has a scheme, and a {brings} synchronises by itself", "remove the scheme")
            if (brings or self.workload.carries) and arm.jobs:
                problem = f"arms.{i} has jobs, and a {self.workload.kind} is one program on all hosts"
                raise refuse(problem, "remove the jobs, or take another workload")
            if not brings and not arm.scheme and not arm.jobs:
                raise refuse(f"arms.{i} has no scheme", "add it, such as scheme: ring")
            if not brings and len(self.workload.batch) > 1 and any(job.batch for job in arm.jobs):
                problem = f"a job of arms.{i} has its own batch, and workload.batch has several"
                raise refuse(problem, "give workload.batch one size, or remove the job's")
        return self

    @model_validator(mode="wrap")
    @classmethod
    def _with_workloads_of_jobs(cls, settings: Any, handler: ModelWrapValidatorHandler[Spec]) -> Spec:
        """Put a job's model and batch into the workload as it is written: what is not written depends on them."""
        spec = handler(settings)
        written = settings.get("workload") if isinstance(settings, dict) else None
        for job in (job for arm in spec.arms for job in arm.jobs):
            change = {"model": job.model, "batch": job.batch}
            own = {name: value for name, value in change.items() if value is not None}
            if own and isinstance(written, dict):
                spec._of_jobs[job.model, job.batch] = _validated({**written, **own}, job.name)
        return spec

    def workload_of(self, job: JobKeys) -> AnyWorkload:
        """Workload of a job's workers."""
        return self._of_jobs.get((job.model, job.batch), self.workload)

    @property
    def place(self) -> DeclaredPlace:
        """Lab of the spec."""
        return LABS[self.lab]

    @property
    def lab_settings(self) -> LabOptions | None:
        """Settings of its lab; None where such a lab has none."""
        return getattr(self, self.lab) if self.lab in LAB_OPTIONS else None

    @property
    def lab_options(self) -> Any:
        """Settings of its lab as the lab takes them (:attr:`testbed.lab.place.Opening.options`)."""
        return self.lab_settings and self.lab_settings.made()

    @property
    def meets_anywhere(self) -> bool:
        """Whether processes connect at any address of a host, as ranks of scripts do: their rendezvous knows one."""
        return bool(self.workload.carries) and any(arm.scheme for arm in self.arms)

    @property
    def of_other_labs(self) -> set[str]:
        """Keys that only other labs have, which installed packages add: the spec means the same without them."""
        return set(LAB_OPTIONS) - OF_BUILT_IN - {self.lab}

    def rates_bps(self, arm: Arm) -> dict[str, int]:
        """Rates in an arm's network (bit/s), by the key that gives each: that of all links, and those of some."""
        titles = [one.title for one in self.arms]
        key = "links.rate" if arm.rate_bps is None else f"arms.{titles.index(arm.title)}.rate"
        own = {f"links.{name}.rate": one.rate_bps for name, one in self.links.own.items() if one.rate_bps is not None}
        return {key: self.links.rate_bps if arm.rate_bps is None else arm.rate_bps, **own}

    @property
    def varies(self) -> bool:
        """Whether a trial that is repeated can have other numbers."""
        return self.place.varies or any(begins_by_lot(scheme) for arm in self.arms for scheme in arm.schemes)

    @property
    def without_repeats(self) -> str:
        """Sentence on repeats that are left out, because they would have the same numbers; empty if none are."""
        asked = self.repeats != 1 and not self.varies
        return f"repeats would have the same numbers in the lab {self.lab}, so each trial runs once" if asked else ""

    @property
    def least_repeats(self) -> int:
        """The least number of times that every trial runs."""
        if not self.varies:
            return 1
        return self.repeats.least if isinstance(self.repeats, Until) else self.repeats

    @property
    def most_repeats(self) -> int:
        """The largest number of times that a trial runs."""
        if not self.varies:
            return 1
        return self.repeats.most if isinstance(self.repeats, Until) else self.repeats

    @property
    def silence_s(self) -> float:
        """Seconds that a node may let the others wait before it counts as dead."""
        return self.timeout_s if self.failover_s is None else self.failover_s

    @model_validator(mode="after")
    def _failover_before_the_timeout(self) -> Spec:
        if self.silence_s > self.timeout_s:
            raise refuse(
                f"the failover time of {time_text(self.silence_s)} is longer than the timeout of "
                f"{time_text(self.timeout_s)}",
                "give a shorter failover, or a longer timeout",
            )
        return self

    @model_validator(mode="after")
    def _arms_differ(self) -> Spec:
        seen: dict[Any, int] = {}
        for i, arm in enumerate(self.arms):
            for identity in (
                (
                    *(arm.topology, arm.scheme, str(arm.jobs), arm.service, str(arm.strategy)),
                    *(str(arm.order), arm.rate_bps or self.links.rate_bps, str(arm.perturb), str(arm.checkpoint)),
                ),
                arm.title,
            ):
                first = seen.setdefault(identity, i)
                if first != i:
                    what = "topology, scheme or jobs, strategy, order, rate, perturbations and checkpoints"
                    fix = "remove one"
                    if isinstance(identity, str):
                        what, fix = f"label, {identity!r}", "give one of them another label, or remove it"
                    raise refuse(
                        f"arms.{first} and arms.{i} have the same {what}",
                        f"{fix}; use repeats to run an arm more than once",
                    )
        return self


_WORKLOAD: TypeAdapter[AnyWorkload] = TypeAdapter(AnyWorkload)


def _validated(written: dict[str, Any], job: str) -> AnyWorkload:
    """
    Raises:
        PydanticCustomError: a job's model and batch do not go with the rest of the workload.
    """
    try:
        return _WORKLOAD.validate_python(written)
    except ValidationError as error:
        (first, *_) = error.errors(include_url=False)
        told = first.get("ctx", {})
        problem, fix = told.get("problem", first["msg"]), told.get("fix", "take another model or batch")
        raise refuse(f"the job {job}: {problem}", fix) from None


for _name, _one in LAB_OPTIONS.items():
    if Spec.model_fields[_name].annotation is not _one or _name in _Head.model_fields:
        raise UsageError(
            f"the lab {_name} has settings, and a spec has a key {_name} already", fix="give the lab another name"
        )
