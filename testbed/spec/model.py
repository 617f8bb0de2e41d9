"""The experiment's schema: every key a spec may hold, its default, and which values make sense."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, create_model, model_validator
from pydantic_core import PydanticCustomError

from testbed.base.errors import SpecError, UsageError
from testbed.base.groups import (
    Group,
    Line,
    Number,
    Rate,
    Share,
    Size,
    Time,
    Whole,
    kind_of,
    listed,
    one_line,
    refuse,
    tag,
    tagged,
)
from testbed.base.plugins import with_plugged
from testbed.base.units import time_text
from testbed.lab import BUILT_IN, choice
from testbed.lab.base import Impairment, LinkSettings
from testbed.lab.place import Place
from testbed.spec.options import LabOptions, group_of
from testbed.spec.perturb import Perturbations
from topologies.call import parse
from workloads.buckets import Gradient, shares
from workloads.catalogue import check_dataset
from workloads.job import Replay, Task, Training
from workloads.models import model
from workloads.own import is_own_data, is_own_model
from workloads.profiles import TABLE_6_1, profile


def _call(value: object, example: str) -> str:
    if not isinstance(value, str):
        raise refuse(f"{value!r} is not text", f"write it as {example}")
    try:
        return one_line(str(parse(value, example)))  # it is an arm's label where none is given
    except SpecError as error:
        raise refuse(error.problem, error.fix or "") from None


TopologyText = Annotated[str, BeforeValidator(lambda value: _call(value, "bcube(n=3,k=2)"))]
SchemeText = Annotated[str, BeforeValidator(lambda value: _call(value, "ring or ps(place=tensor)"))]


class Links(Group):
    """How fast, far and wide each link is."""

    rate_bps: Rate = Field(alias="rate", examples=["200 Mbit/s"])
    """Rate of each host's link, each way. A profile's ``scale`` divides it."""
    delay_s: Time = Field(0.0, alias="delay")
    """One way over one link, so host to host through a switch and back is four times that. ``scale`` does not divide
    it."""
    jitter_s: Time = Field(0.0, alias="jitter")
    """Standard deviation of the delay, which has a normal distribution. Packets keep their order."""
    loss: Share = Field(0.0, examples=["1 %"])
    """Probability that a packet is lost, on each link and in each direction by itself."""
    reorder: Share = Field(0.0, examples=["1 %"])
    """Share of the packets that are not delayed, and so overtake others. It needs a delay."""
    queue_bytes: Size = Field(LinkSettings.queue_bytes, alias="queue")
    """Room for packets that wait at each end of a link. Packets that do not fit are dropped."""
    mtu: Whole = Field(1500, ge=576, le=9000)
    """Largest packet, in bytes."""
    congestion_control: Literal["cubic", "reno", "bbr"] | None = None
    """TCP's, on all hosts. The default is reno where the kernel has it. ``env.json`` records which one ran."""

    @model_validator(mode="after")
    def _can_be(self) -> Links:
        try:
            Impairment(self.delay_s, self.jitter_s, self.loss, self.reorder)
        except SpecError as error:
            raise refuse(error.problem, error.fix or "") from None
        if self.queue_bytes < self.mtu:
            raise refuse(
                f"a queue of {self.queue_bytes:,} B has no room for a packet of {self.mtu:,} B",
                f"give a queue of {self.mtu} B or more",
            )
        return self


class ComputeTime(Group):
    """How long a worker takes to compute a gradient. ``compute: none`` is short for ``compute: {mode: none}``."""

    mode: Literal["real", "paced", "none"] = "real"
    """``real``: what the processor takes. ``paced``: the time that ``pace`` gives. ``none``: no time."""
    pace_s: dict[Whole, Time] = Field(default={}, alias="pace")
    """For each batch size, the time that computing a gradient takes. It includes the optimizer's step."""

    @model_validator(mode="after")
    def _pace_only_when_paced(self) -> ComputeTime:
        if self.mode != "paced" and self.pace_s:
            raise refuse(f"mode {self.mode!r} takes no pace", "remove the pace, or write mode: paced")
        return self


class PlayedTime(ComputeTime):
    """How long a profile's worker takes to compute a gradient. Without a pace it takes the published time."""

    mode: Literal["paced", "none"] = "paced"
    """``paced``: the time that ``pace`` gives, or the published one. ``none``: no time."""


def _compute(value: object) -> object:
    return {"mode": value} if isinstance(value, str) else value


def _no_pace(missing: list[int], known: str = "") -> PydanticCustomError:
    return refuse(
        f"compute.pace has no time for batch {', '.join(map(str, missing))}",
        f"add it, such as pace: {{{missing[0]}: 0.3 s}}{known}",
    )


def _profile_name(name: str) -> str:
    try:
        return profile(name).name
    except SpecError as error:
        raise refuse(error.problem, error.fix or "") from None


LARGEST_BATCH = 2**16
"""No published experiment gives one worker more samples at once, and images of that many fit into memory."""
MOST_ITERATIONS = 1_000_000
"""At 10 ms each, three hours of one trial; a worker keeps a line of each."""
LONGEST_LABEL = 80
"""Characters: labels are columns of tables."""
MOST_REPEATS = 1000
MOST_ARMS = 200
"""All are built and verified before the first runs."""
MOST_INPUTS = 50
"""Each may be a pattern that is held against every file in the spec's directory."""
Batch = Annotated[int, Field(strict=True, ge=1, le=LARGEST_BATCH)]


@dataclass(frozen=True)
class Program:
    """What every host runs in place of our worker: words, and the files that its result depends on (None: all Python in
    the spec's directory)."""

    words: tuple[str, ...]
    inputs: tuple[str, ...] | None


class Workload(Group):
    """What is computed, the same in every arm.

    Attributes:
        brings: the kind of trial (:mod:`workloads.kinds`) that it makes of each arm by itself; empty where an arm needs
            a scheme, which says that.
        program: what hosts run in place of our workers, if they do.
    """

    brings: ClassVar[str] = ""
    kind: str

    if TYPE_CHECKING:  # a field of some, a property of others

        @property
        def scale(self) -> float: ...

    @property
    def program(self) -> Program | None:
        return None


class Synchronised(Workload):
    """What every worker does, the same in every arm, between the synchronisations of a scheme.

    Attributes:
        is_trained: whether weights depend on the sums: a process of the harness repeats the training, and sums are held
            against gradients by sketches. Otherwise workers count the wrong elements of each sum themselves.
        scale: what divides gradients and the links' rates alike.
    """

    is_trained: ClassVar[bool] = False

    model: str
    """Whose gradient is synchronised: one of ``testbed models``."""
    batch: Annotated[list[Batch], BeforeValidator(listed)] = Field(min_length=1, examples=["[16, 64]"])
    """Samples per worker and iteration. With a list, every arm runs with each of them."""
    iterations: Whole = Field(ge=1, le=MOST_ITERATIONS, examples=["20"])
    """How many each worker trains."""
    warmup: Whole = Field(1, ge=0)
    """How many of the first iterations are trained and left out of medians and percentiles. JCT includes them."""
    compute: Annotated[ComputeTime, BeforeValidator(_compute)] = ComputeTime()
    """How long computing a gradient takes."""
    overlap: Literal["none", "layer", "both"] = "none"
    """``none`` waits for the whole gradient. ``layer`` sends each layer as soon as the backward pass has it."""
    bucket_bytes: Annotated[Size, Field(gt=0)] | None = Field(None, examples=["25 MB"])
    """With overlap, layers are fused until they have this size, as in PyTorch's DDP. By default each leaves alone."""
    priority: Literal["none", "layer"] = "none"
    """With overlap, ``layer`` lets layers that the next forward pass needs first overtake those that wait to be
    sent."""
    chunk_bytes: Size = Field(128 * 2**10, alias="chunk")
    """How many bytes of the gradient are sent and summed at once. Smaller chunks take more processor time. Larger ones
    reach the next node later. ``scale`` does not divide it."""

    def layers(self) -> list[list[int]]:
        """Floats of each tensor, by layer, in the order in which gradients become ready.

        Raises:
            SpecError: there is no such model.
        """
        raise NotImplementedError

    @property
    def own(self) -> tuple[str, str] | None:
        """The names of model and data set, if one of them is the user's own (:mod:`workloads.own`)."""
        return None

    def check(self) -> None:
        """Return only if what it names goes together.

        Raises:
            SpecError: it does not.
        """

    def task(self, batch: int, seed: int, gradient: Gradient, rounding: float) -> Task:
        """What each worker does; ``rounding`` is by how much an element of a right sum of a profile may be off."""
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
        if self.chunk_bytes % 4:
            raise refuse(f"chunk of {self.chunk_bytes} bytes cuts a float32", "give a multiple of 4 B, such as 128 KiB")
        return self


class Train(Synchronised):
    """A real model on real data: its real gradient on the wire."""

    kind: Literal["train"] = "train"
    model: str = Field(examples=["lenet5"])
    """The model to train: one of ``testbed models`` that has a data set, your own ``./net.py:Net(classes=10)``, or
    ``torchvision.resnet18(num_classes=10)`` and the like."""
    dataset: str = Field(examples=["digits"])
    """What it is trained on: ``digits``, ``python_reference``, your own ``./data.py:load``, or files of MNIST or
    CIFAR-10: ``mnist(path=./mnist)``, ``cifar10(path=./cifar-10-batches-py)``."""
    learning_rate: Number = Field(0.05, gt=0)
    """Of SGD."""
    momentum: Number = Field(0.9, ge=0, lt=1)
    """Of SGD."""
    overlap: Literal["none", "layer"] = "none"
    is_trained: ClassVar[bool] = True

    @property
    def scale(self) -> float:
        """A model that is trained has its own size."""
        return 1.0

    def layers(self) -> list[list[int]]:
        return [[prod(shape) for _, shape in layer] for layer in reversed(model(self.model).layers)]

    @property
    def own(self) -> tuple[str, str] | None:
        either = is_own_model(self.model) or is_own_data(self.dataset)
        return (self.model, self.dataset) if either else None

    def check(self) -> None:
        if not self.own:
            check_dataset(self.dataset, self.model)

    def task(self, batch: int, seed: int, gradient: Gradient, rounding: float) -> Task:  # noqa: ARG002
        rate, momentum = self.learning_rate, self.momentum
        return Training(self.model, self.dataset, batch, self.iterations, rate, momentum, seed)

    @model_validator(mode="after")
    def _pace_known(self) -> Self:
        missing = [batch for batch in self.batch if batch not in self.compute.pace_s]
        if self.compute.mode == "paced" and missing:
            raise _no_pace(missing)
        return self


class Profile(Synchronised):
    """A published model's layer sizes and times: random values on the wire, whose sums are checked."""

    kind: Literal["profile"]
    model: Annotated[str, AfterValidator(_profile_name)] = Field(examples=["vgg19"])
    scale: Number = Field(1.0, ge=1, le=1e6, examples=["200"])
    """Divides the gradient and the links' rates alike, so that times stay those of the model on links as given. ``fit``
    takes the smallest scale at which this machine carries every arm."""
    compute: Annotated[PlayedTime, BeforeValidator(_compute)] = PlayedTime()
    overlap: Literal["none", "layer", "both"] = "none"
    """As for training. ``both`` also lets the next forward pass begin with the layers whose sums are there."""

    def layers(self) -> list[list[int]]:
        return [[prod(shape) for _, shape in layer.tensors] for layer in reversed(profile(self.model).layers)]

    def task(self, batch: int, seed: int, gradient: Gradient, rounding: float) -> Task:  # noqa: ARG002
        macs = [layer.macs for layer in reversed(profile(self.model).layers)]
        return Replay(self.iterations, seed, shares(macs, gradient.layers), rounding)

    @model_validator(mode="after")
    def _times_known(self) -> Self:
        """Times that are not given are the published ones, and then part of the resolved spec."""
        if self.compute.mode == "none":
            return self
        known = profile(self.model).times_s
        pace_s = {batch: s for batch, s in known.items() if batch in self.batch} | self.compute.pace_s
        missing = [batch for batch in self.batch if batch not in pace_s]
        if missing:
            published = f"; {TABLE_6_1}, has one for batch {', '.join(map(str, known))}" if known else ""
            raise _no_pace(missing, published)
        return self.model_copy(update={"compute": self.compute.model_copy(update={"pace_s": pace_s})})


def _words(value: object) -> object:
    try:
        words = shlex.split(value) if isinstance(value, str) else value
    except ValueError as error:  # a quotation that does not end
        raise refuse(f"cannot read {value!r}: {str(error).lower()}", "write it as python train.py --epochs 2") from None
    if isinstance(value, str) and not words:
        raise refuse("an empty command", "write it as python train.py --epochs 2")
    return words


class Command(Workload):
    """Any script that torchrun could start: a rank a host, run as it is, which synchronises by itself."""

    brings: ClassVar[str] = "command"
    kind: Literal["command"]
    command: Annotated[list[Annotated[str, Field(strict=True)]], BeforeValidator(_words)] = Field(
        examples=["python train.py --epochs 2"]
    )
    """Started on each host, in the spec's directory. It is split into words as a shell does it, and no shell runs it.
    ``python`` is the one that testbed runs with."""
    inputs: Annotated[list[Annotated[str, Field(strict=True, min_length=1)]], BeforeValidator(listed)] | None = Field(
        None, max_length=MOST_INPUTS, examples=["[train.py, 'model/*.py']"]
    )
    """Files in the spec's directory that the result depends on. ``--resume`` refuses to go on if one was changed. The
    default is all Python files there. Scripts among the command's words always count."""

    @property
    def program(self) -> Program:
        return Program(tuple(self.command), None if self.inputs is None else tuple(self.inputs))

    @property
    def batch(self) -> list[int]:
        """One, of which nothing is known."""
        return [0]

    @property
    def scale(self) -> float:
        """Rates are as the spec has them."""
        return 1.0


_BUILT_IN = (Train, Profile, Command)
KINDS: dict[str, type[Workload]] = with_plugged("workloads", {kind_of(one): one for one in _BUILT_IN})
"""The kinds of workload, by the name that ``kind`` gives; each entry point ``testbed.workloads`` is such a class."""


def _kind(value: object) -> Any:
    """``kind`` of a workload as a tag of the union below; what is no group of keys is refused as the default's."""
    kind = value.get("kind", "train") if isinstance(value, dict) else getattr(value, "kind", "train")
    return tag(str(kind))


if TYPE_CHECKING:
    AnyWorkload = Train | Profile | Command
else:
    AnyWorkload = Annotated[tagged(KINDS.values()), Discriminator(_kind)]


class Arm(Group):
    """One way to synchronise on one network; the experiment compares arms."""

    label: Line = Field("", max_length=LONGEST_LABEL)
    """What tables and figures call it. The default is scheme and topology."""
    topology: TopologyText = Field(examples=["star(hosts=9)"])
    """The network: a family and its parameters, or a function in a file."""
    scheme: SchemeText = Field("", examples=["ring"])
    """How gradients are synchronised. Every arm needs one, unless the workload is a command, which synchronises by
    itself."""
    perturb: Perturbations = Field([], examples=["[C1, N2]"])
    """Perturbations of this arm, in addition to those of the experiment."""

    @property
    def title(self) -> str:
        """The label, or scheme, network and perturbations where none is given."""
        under = f" under {', '.join(one.title for one in self.perturb)}" if self.perturb else ""
        return self.label or (f"{self.scheme} on {self.topology}" if self.scheme else self.topology) + under


class Until(Group):
    """Repeat until what is measured is known well enough."""

    until: Share = Field(gt=0, lt=1, examples=["3 %"])
    """Rounds go on until the 95 % interval of each cell's median GST is within this share of the median."""
    most: Whole = Field(20, ge=2, le=MOST_REPEATS)
    """Rounds at most."""
    least: Whole = Field(3, ge=2, le=MOST_REPEATS)
    """Rounds at least."""

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


def _nothing(value: object) -> object:
    return "0 s" if not isinstance(value, bool) and value in (0, "0") else value


LABS = choice.places()
LAB_OPTIONS: dict[str, type[LabOptions]] = {
    name: group_of(place.options) for name, place in LABS.items() if place.options is not None
}
"""The settings of each lab that has some, a key of a spec by its name; where a spec's lab is another, they mean
nothing."""
OF_BUILT_IN = frozenset(LAB_OPTIONS) & frozenset(BUILT_IN)
if TYPE_CHECKING:
    LabName = str
else:
    LabName = Literal[tuple(LABS)]


class _Head(Group):
    """What comes before a lab's settings."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=60, examples=["quickstart"])
    """What the run directory is called: letters, digits, ``.``, ``_`` and ``-``."""
    seed: Whole = Field(1, ge=0, lt=2**31)
    """All that happens by chance is drawn from it: weights, batches, perturbations, lost packets."""
    lab: LabName = choice.DEFAULT
    """Where the network is built. ``--backend`` is short for it."""


if TYPE_CHECKING:
    _WithLabs = _Head
else:
    _about = "Settings of the lab ``{}``. Other labs ignore them."
    _keys = {name: (one, Field(one(), description=_about.format(name))) for name, one in LAB_OPTIONS.items()}
    _WithLabs = create_model("_WithLabs", __base__=_Head, **_keys)


class Spec(_WithLabs):
    """One experiment. Every arm runs with every batch size, ``repeats`` times, and at every point of a sweep."""

    links: Links = Field(examples=["{rate: 200 Mbit/s}"])
    """All links of every network."""
    workload: AnyWorkload = Field(examples=["{model: lenet5, dataset: digits, batch: 16, iterations: 20}"])
    """What is trained or played, the same in every arm."""
    arms: list[Arm] = Field(
        min_length=1, max_length=MOST_ARMS, examples=['[{topology: "star(hosts=9)", scheme: ring}]']
    )
    """What is compared: networks and schemes. Speed-ups are relative to the first arm."""
    perturb: Perturbations = Field([], examples=["[C1, N2]"])
    """What happens to every arm while it runs."""
    repeats: Repeats = Field(1, examples=["5"])
    """How many rounds run, or until when rounds go on. Each cell runs once in each round."""
    retries: Whole = Field(2, ge=0, le=MOST_RETRIES)
    """How often at most a trial is measured again if it is INVALID only because of the machine."""
    quiet_s: Annotated[Time, BeforeValidator(_nothing)] = Field(30.0, alias="quiet")
    """How long at most a trial waits until other programs leave the machine's cores; 0 turns this off. Labs whose
    workers run elsewhere do not wait."""
    where: Annotated[list[Annotated[str, Field(strict=True)]], BeforeValidator(listed)] = Field(
        [], max_length=MOST_CONDITIONS, examples=["[servers <= hosts]"]
    )
    """Conditions. A point of a sweep runs if all of them hold."""
    certify: Share = Field(0.03, ge=0, lt=1, examples=["3 %"])
    """A number whose error is at most this is certified: failed checks of the machine do not make it INVALID."""
    timeout_s: Time = Field(60.0, alias="timeout", gt=0)
    """A trial fails if none of its workers makes progress for this long."""
    start_timeout_s: Time = Field(60.0, alias="start_timeout", gt=0)
    """The same until the workers have met. It has a key of its own because many workers on few cores need longer to
    load their data than any iteration should take."""
    failover_s: Time | None = Field(None, alias="failover", gt=0, examples=["2 s"])
    """For schemes that go on without a node that dies (``rina``): a node that lets the others wait for this long has
    died, too. It must be longer than computing a gradient takes. The default is ``timeout``. A killed process is
    noticed at once."""

    @model_validator(mode="after")
    def _schemes_where_needed(self) -> Spec:
        brings = self.workload.brings
        for i, arm in enumerate(self.arms):
            if brings and arm.scheme:
                raise refuse(f"arms.{i} has a scheme, and a {brings} synchronises by itself", "remove the scheme")
            if not brings and not arm.scheme:
                raise refuse(f"arms.{i} has no scheme", "add it, such as scheme: ring")
        return self

    @property
    def place(self) -> Place:
        """Its lab."""
        return LABS[self.lab]

    @property
    def lab_settings(self) -> LabOptions | None:
        """Those of its lab; None where such a lab has none."""
        return getattr(self, self.lab) if self.lab in LAB_OPTIONS else None

    @property
    def lab_options(self) -> Any:
        """The same as the lab takes them (:attr:`testbed.lab.place.Opening.options`)."""
        return self.lab_settings and self.lab_settings.made()

    @property
    def of_other_labs(self) -> set[str]:
        """Keys that only other labs have, which installed packages add: the spec means the same without them."""
        return set(LAB_OPTIONS) - OF_BUILT_IN - {self.lab}

    @property
    def least_repeats(self) -> int:
        """How often every trial runs in any case."""
        return self.repeats.least if isinstance(self.repeats, Until) else self.repeats

    @property
    def most_repeats(self) -> int:
        """How often it runs at most."""
        return self.repeats.most if isinstance(self.repeats, Until) else self.repeats

    @property
    def silence_s(self) -> float:
        """How long a node may let the others wait before it has died."""
        return self.timeout_s if self.failover_s is None else self.failover_s

    @model_validator(mode="after")
    def _failover_before_the_timeout(self) -> Spec:
        if self.silence_s > self.timeout_s:
            raise refuse(
                f"the failover time of {time_text(self.silence_s)} is above the timeout of "
                f"{time_text(self.timeout_s)}, which comes first",
                "give a shorter failover, or a longer timeout",
            )
        return self

    @model_validator(mode="after")
    def _arms_differ(self) -> Spec:
        seen: dict[Any, int] = {}
        for i, arm in enumerate(self.arms):
            for identity in ((arm.topology, arm.scheme, str(arm.perturb)), arm.title):
                first = seen.setdefault(identity, i)
                if first != i:
                    what = "label" if isinstance(identity, str) else "topology, scheme and perturbations"
                    raise refuse(
                        f"arms.{first} and arms.{i} have the same {what}",
                        "remove one; use repeats to run an arm more than once",
                    )
        return self


def _check_names() -> None:
    """
    Raises:
        UsageError: a lab's settings have the name of another key.
    """
    for name, one in LAB_OPTIONS.items():
        if Spec.model_fields[name].annotation is not one or name in _Head.model_fields:
            raise UsageError(
                f"the lab {name} has settings, and a spec has a key {name} already", fix="give the lab another name"
            )


_check_names()
