"""Other people's libraries in place of our engine, unchanged; their schemes say which of their algorithms there are."""

from __future__ import annotations

import importlib.util
import shutil
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import MissingToolError
from workloads.job import Job
from workloads.sync.chunks import ChunkTable
from workloads.sync.forest import Library

if TYPE_CHECKING:
    from workloads.sync.libraries.gloo import Gloo
    from workloads.sync.libraries.openmpi import OpenMpi

MPIRUN = ("mpirun", "sudo apt-get install openmpi-bin")
MPI4PY = ("mpi4py", "pip install mpi4py (with testbed's own: pip install --editable '.[mpi]')")
"""What Open MPI needs here, and how to get it."""


def require(library: Library | None) -> None:
    """
    Raises:
        MissingToolError: the library is not installed.
    """
    if library is None or library.name != "openmpi":
        return
    if shutil.which(MPIRUN[0]) is None:
        raise MissingToolError(f"scheme openmpi needs {MPIRUN[0]}, which is not installed", fix=MPIRUN[1])
    if importlib.util.find_spec(MPI4PY[0]) is None:
        raise MissingToolError(f"scheme openmpi needs {MPI4PY[0]}, which is not installed", fix=MPI4PY[1])


def needs_agent(library: Library | None) -> bool:
    """Whether a rank starts programs on the hosts of others."""
    return library is not None and library.name == "openmpi"


def imports_torch(library: Library | None) -> bool:
    """Whether ranks have a use for PyTorch even where they train nothing."""
    return library is not None and library.name == "gloo"


def connect(job: Job, library: Library, table: ChunkTable, gradient: NDArray[np.float32]) -> Gloo | OpenMpi:
    """Join the library's group of ranks; the imports are here for our own schemes need neither.

    Raises:
        TrialTimeoutError, WorkerError: the ranks do not meet.
    """
    if library.name == "gloo":
        from workloads.sync.libraries.gloo import Gloo

        return Gloo(job, library, table, gradient)
    from workloads.sync.libraries.openmpi import OpenMpi

    return OpenMpi(job, library, table, gradient)
