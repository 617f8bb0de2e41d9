"""The environment of a rank, as ``torchrun`` makes it: what is set, and what of the caller's is left out. A rank that
inherits another launcher's variables takes itself for a rank of that launcher's job.

Sources: torch.distributed.run ("Environment Variables"); Slurm's srun ("OUTPUT ENVIRONMENT VARIABLES"); Open MPI's
mpirun ("Exported Environment Variables"); lightning.fabric.plugins.environments; deepspeed.comm;
accelerate.utils.environment.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from testbed.base.errors import SpecError

MASTER_PORT = 29500
"""Port that torchrun takes unless told otherwise."""
_CLEARED = """
NODE_RANK LOCAL_SIZE CROSS_RANK CROSS_SIZE HOROVOD_RANK HOROVOD_SIZE HOROVOD_LOCAL_RANK HOROVOD_LOCAL_SIZE
HOROVOD_CROSS_RANK HOROVOD_CROSS_SIZE HOROVOD_HOSTNAME TORCHELASTIC_ERROR_FILE MPI_LOCALRANKID MPI_LOCALNRANKS
LSB_JOBID LSB_DJOB_RANKFILE LSB_HOSTS LSB_MCPU_HOSTS AZUREML_EXPERIMENT_ID AZ_BATCH_MASTER_NODE
AZ_BATCHAI_MPI_MASTER_NODE DLTS_JOB_ID KUBERNETES_PORT
"""
CLEARED = frozenset(_CLEARED.split())
"""Variables of other launchers that are left out."""
PREFIXES = ("SLURM_", "OMPI_COMM_", "OMPI_UNIVERSE_", "PMI_", "PMI2_", "PMIX_", "PRTE_", "MV2_COMM_", "JSM_NAMESPACE_")
"""Beginnings of such variables. Those that a user sets, such as OMPI_MCA_* and ACCELERATE_*, stay."""


def rank_environment(rank: int, world: int, master: str) -> dict[str, str]:
    """Return the environment that torchrun gives a rank that is alone on its host. No agent of torchrun's is there, so
    the store is the first rank's own."""
    numbers = {
        "RANK": rank,
        "WORLD_SIZE": world,
        "LOCAL_RANK": 0,
        "LOCAL_WORLD_SIZE": 1,
        "GROUP_RANK": rank,
        "GROUP_WORLD_SIZE": world,
        "ROLE_RANK": rank,
        "ROLE_WORLD_SIZE": world,
        "ROLE_NAME": "default",
        "MASTER_PORT": MASTER_PORT,
        "OMP_NUM_THREADS": 1,  # torchrun's own default
        "TORCHELASTIC_RESTART_COUNT": 0,
        "TORCHELASTIC_MAX_RESTARTS": 0,
        "TORCHELASTIC_RUN_ID": "none",  # torchrun's own default
        "TORCHELASTIC_USE_AGENT_STORE": False,
    }
    return {"MASTER_ADDR": master, "PATH": search_path(), **{name: str(value) for name, value in numbers.items()}}


def left_out(callers: Iterable[str], given: Collection[str]) -> tuple[str, ...]:
    """Return the caller's variables that a rank does not get, in their order: other launchers', unless they are
    ``given``."""
    return tuple(
        sorted(name for name in callers if name not in given and (name in CLEARED or name.startswith(PREFIXES)))
    )


LAUNCHERS = ("torchrun", "accelerate")


def search_path() -> str:
    """Return the path on which a command's program is looked for: beside the Python that runs testbed first, so
    ``python`` is that one."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def check_program(words: Sequence[str], folder: Path, *, is_here: bool) -> None:
    """Check that a command's program is there, and its script, if hosts have the files of this machine (``is_here``).

    Raises:
        SpecError: there is no such program, or no such script.
    """
    program = words[0]
    found = shutil.which(str(folder / program)) if os.sep in program else shutil.which(program, path=search_path())
    if found is None:
        if program.startswith(os.sep):
            raise SpecError(f"there is no program {program!r}", fix="correct its path in command, or in python")
        raise SpecError(
            f"there is no program {program!r} to run" + (f" in {folder}" if os.sep in program else " on PATH"),
            fix="correct its name, or start a script with its interpreter, such as python train.py",
        )
    script = _script(words) if is_here else None
    if script is not None and not Path(script).is_absolute() and not (folder / script).exists():
        raise SpecError(f"the spec's folder has no {script}", fix="correct its name in command")


def _script(words: Sequence[str]) -> str | None:
    """Find the script that Python, or a launcher, is to run; None if it runs none, or a module."""
    if not re.fullmatch(r"python[0-9.]*", Path(words[0]).name):
        return next((word for word in words[1:] if word.endswith(".py")), None) if words[0] in LAUNCHERS else None
    left = iter(words[1:])
    for word in left:
        if word in ("-c", "-m", "-"):
            return None
        if not word.startswith("-"):
            return word
        if word in ("-W", "-X"):
            next(left, None)
    return None
