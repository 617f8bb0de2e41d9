"""Commands that start a script through a launcher: torchrun, ``accelerate launch``, deepspeed, ``fabric run``, or
their modules, such as ``python -m torch.distributed.run``.

A launcher starts the ranks of one machine and tells each of its place. Here the lab starts a rank on each host with
the same environment, so a launcher's words are left out. Its options must fit what the lab does.

Sources: torch.distributed.run ("Launcher"), accelerate's command ``accelerate launch``, deepspeed.launcher.runner and
launch, lightning.fabric.cli.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from testbed.base.errors import SpecError

PLAIN = "start the script by itself, such as python train.py"
THEIR_OWN = frozenset({"mpirun", "mpiexec", "srun", "horovodrun", "horovod", "lightning", "colossalai"})
"""Launchers that are not left out before a script."""


@dataclass(frozen=True)
class Started:
    """A script without its launcher: its words, and what the launcher would add to the environment of each rank."""

    words: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Launcher:
    """A launcher's options, without dashes, by what is made of them.

    Attributes:
        words: those that start it.
        modules: those that are the launcher too, after ``python -m``.
        counts: those whose value says how many hosts, or ranks in all, there are.
        each: those whose value says how many ranks a host has.
        valued: those that are left out with their value.
        flags: those that have no value, and are left out.
        variables: those whose value each rank has in a variable of its environment.
        switches: those without a value that stand for a variable and its value.
        always: variables that each rank has; ``{ranks}`` stands for the number of ranks.
        added: a word for the script, before its own, unless there is the option ``no_local_rank``.
    """

    words: tuple[str, ...]
    modules: tuple[str, ...]
    counts: frozenset[str]
    each: frozenset[str]
    valued: frozenset[str]
    flags: frozenset[str]
    variables: Mapping[str, str] = field(default_factory=dict)
    switches: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    always: Mapping[str, str] = field(default_factory=dict)
    added: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return " ".join(self.words)


_OF_TORCHRUN = """
node_rank rdzv_backend rdzv_endpoint rdzv_id rdzv_conf max_restarts monitor_interval start_method role log_dir
r redirects t tee local_ranks_filter local_addr logs_specs master_addr master_port signals_to_handle shutdown_timeout
"""
_OF_ACCELERATE = """
machine_rank main_process_ip main_process_port rdzv_backend rdzv_conf max_restarts monitor_interval role log_dir tee
num_cpu_threads_per_process config_file
"""
_OF_DEEPSPEED = """
H hostfile i include e exclude master_port master_addr node_rank launcher launcher_args ssh_port venv_script log_level
bind_core_list
"""
_FLAGS_OF_DEEPSPEED = "no_ssh no_ssh_check force_multi enable_each_rank_log bind_cores_to_rank q quiet"
TORCHRUN = _Launcher(
    words=("torchrun",),
    modules=("torch.distributed.run", "torch.distributed.launch"),
    counts=frozenset({"nnodes"}),
    each=frozenset({"nproc_per_node"}),
    valued=frozenset(_OF_TORCHRUN.split()),
    flags=frozenset({"standalone", "use_env", "virtual_local_rank"}),
)
ACCELERATE = _Launcher(
    words=("accelerate", "launch"),
    modules=("accelerate.commands.launch",),
    counts=frozenset({"num_machines", "num_processes"}),
    each=frozenset(),
    valued=frozenset(_OF_ACCELERATE.split()),
    flags=frozenset({"quiet", "q", "same_network", "multi_cpu"}),
    variables={
        "mixed_precision": "ACCELERATE_MIXED_PRECISION",
        "gradient_accumulation_steps": "ACCELERATE_GRADIENT_ACCUMULATION_STEPS",
        "dynamo_backend": "ACCELERATE_DYNAMO_BACKEND",
    },
    switches={"cpu": ("ACCELERATE_USE_CPU", "true"), "debug": ("ACCELERATE_DEBUG_MODE", "true")},
)
DEEPSPEED = _Launcher(
    words=("deepspeed",),
    modules=("deepspeed.launcher.runner",),
    counts=frozenset({"num_nodes"}),
    each=frozenset({"num_gpus", "num_accelerators"}),
    valued=frozenset(_OF_DEEPSPEED.split()),
    flags=frozenset(_FLAGS_OF_DEEPSPEED.split()),
    added=("--local_rank=0",),
)
FABRIC = _Launcher(
    words=("fabric", "run"),
    modules=("lightning.fabric.cli", "lightning_fabric.cli"),
    counts=frozenset({"num_nodes"}),
    each=frozenset({"devices"}),
    valued=frozenset({"node_rank", "main_address", "main_port"}),
    flags=frozenset(),
    variables={"accelerator": "LT_ACCELERATOR", "strategy": "LT_STRATEGY", "precision": "LT_PRECISION"},
    always={"LT_CLI_USED": "1", "LT_DEVICES": "1", "LT_NUM_NODES": "{ranks}"},
)
LAUNCHERS = (TORCHRUN, ACCELERATE, DEEPSPEED, FABRIC)


def without_launcher(words: Sequence[str], ranks: int) -> Started:
    """Take the launcher away from a command, with so many ranks; a command without a launcher stays as it is.

    Raises:
        SpecError: the launcher is asked for something else than a rank on each host.
    """
    launcher, rest = _of(words)
    if launcher is None and (name := _name(words)) in THEIR_OWN:
        raise SpecError(
            f"{name} starts ranks by itself, and in an arm with a scheme testbed starts one on each host",
            fix=f"write the command as {_line(words)}, or remove scheme from the arm",
        )
    if launcher is None:
        return Started(tuple(words))
    python = words[0] if _is_python(words[0]) and PurePath(words[0]).is_absolute() else "python"
    return _parsed(launcher, python, rest, ranks)


def _name(words: Sequence[str]) -> str:
    """Name what a command starts: its program, or the package of ``python -m``."""
    first, *rest = words
    is_module = _is_python(first) and rest[:1] == ["-m"] and len(rest) > 1
    return rest[1].partition(".")[0] if is_module else PurePath(first).name


def _line(words: Sequence[str]) -> str:
    """Write the part of a command that starts its script."""
    for place, word in enumerate(words[1:], 1):
        if _is_python(word):
            return shlex.join(words[place:])
        if word.endswith(".py"):
            return shlex.join(("python", *words[place:]))
    return "python train.py"


def check_meets(words: Sequence[str], hosts: int) -> None:
    """Check that ranks of several hosts meet if each host runs this whole command, its launcher included.

    Raises:
        SpecError: the launcher is told of no other host, so that each would train alone.
    """
    launcher, rest = _of(words)
    options = {word.lstrip("-").replace("-", "_").partition("=")[0] for word in rest if word.startswith("-")}
    if launcher is None or hosts == 1 or options & (launcher.counts | {"config_file"}):
        return
    raise SpecError(
        f"{launcher.name} starts a job of its own on each host, and an arm without a scheme runs it as it is",
        fix="give the arm a scheme, such as gloo, or tell the launcher of all hosts",
    )


def _of(words: Sequence[str]) -> tuple[_Launcher | None, Sequence[str]]:
    """Find the launcher that a command starts with, and the words after it."""
    for launcher in LAUNCHERS:
        for own in (launcher.words, *(("python", "-m", module) for module in launcher.modules)):
            if (_program(words[0]), *words[1 : len(own)]) == own:
                return launcher, words[len(own) :]
    return None, words[1:]


def through_python(words: Sequence[str]) -> Sequence[str] | None:
    """Return the words after ``python`` with which Python runs a command; None if it starts with neither ``python`` nor
    a launcher."""
    launcher, rest = _of(words)
    if launcher is not None:
        return ["-m", launcher.modules[0], *rest]
    return words[1:] if words[0] in ("python", "python3") else None


def _program(word: str) -> str:
    return "python" if _is_python(word) else PurePath(word).name


def _is_python(word: str) -> bool:
    return PurePath(word).name.startswith("python")


def _parsed(launcher: _Launcher, python: str, words: Sequence[str], ranks: int) -> Started:
    left, by_itself, added = iter(words), False, launcher.added
    environment = {name: value.format(ranks=ranks) for name, value in launcher.always.items()}
    prefix: tuple[str, ...] = (python,) if launcher is ACCELERATE else (python, "-u")
    for word in left:
        if not word.startswith("-"):
            rest = (word, *added, *left)
            return Started(rest if by_itself else (*prefix, *rest), environment)
        name, equals, value = word.lstrip("-").replace("-", "_").partition("=")
        if equals:
            value = word.partition("=")[2]
        if name in ("m", "module"):
            prefix = (*prefix, "-m")
        elif name == "no_python":
            by_itself = True
        elif name == "no_local_rank":
            added = ()
        elif name in launcher.switches:
            variable, value = launcher.switches[name]
            environment[variable] = value
        elif name in launcher.flags:
            continue
        else:
            value = value if equals else next(left, "")
            environment |= _valued(launcher, word, name, value, ranks)
    raise SpecError(f"{launcher.name} starts no script: {' '.join(words)}", fix=PLAIN)


def _valued(launcher: _Launcher, word: str, name: str, value: str, ranks: int) -> dict[str, str]:
    """Variables that an option with a value adds to the environment.

    Raises:
        SpecError: it is not known here, or does not fit a rank on each host.
    """
    if name in launcher.variables:
        return {launcher.variables[name]: value}
    if name in launcher.valued:
        return {}
    option = word.partition("=")[0]
    if name in launcher.each:
        if value not in ("1", "auto", "cpu"):
            problem = f"{launcher.name} {option}={value}: a host has one rank"
            raise SpecError(problem, fix=f"write {option}=1, and give the topology as many hosts as you want ranks")
        return {}
    if name in launcher.counts:
        least, most = _range(value)
        if not least <= ranks <= most:
            problem = f"{launcher.name} {option}={value}, and the arm has {ranks} ranks, one on each host"
            raise SpecError(problem, fix=f"write {option}={ranks}, or remove it")
        return {}
    raise SpecError(
        f"{launcher.name} {option}: testbed starts the ranks itself, and does not know this option", fix=PLAIN
    )


def _range(value: str) -> tuple[int, int]:
    """Read a range: ``2`` or ``1:4``; what is none fits nothing."""
    numbers = value.split(":")
    if len(numbers) > 2 or not all(number.isdecimal() for number in numbers):
        return 1, 0
    return int(numbers[0]), int(numbers[-1])
