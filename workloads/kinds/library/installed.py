"""What each library needs on the machines that run it."""

from __future__ import annotations

import importlib.util
import shutil

from testbed.base.errors import MissingToolError
from workloads.kinds.library.plan import Library

MPIRUN = ("mpirun", "sudo apt-get install openmpi-bin")
MPI4PY = ("mpi4py", "pip install mpi4py (with testbed's own: pip install --editable '.[mpi]')")
"""What Open MPI needs here, and how to get it."""


def require(library: Library) -> None:
    """
    Raises:
        MissingToolError: the library is not installed.
    """
    if library.name != "openmpi":
        return
    if shutil.which(MPIRUN[0]) is None:
        raise MissingToolError(f"scheme openmpi needs {MPIRUN[0]}, which is not installed", fix=MPIRUN[1])
    if importlib.util.find_spec(MPI4PY[0]) is None:
        raise MissingToolError(f"scheme openmpi needs {MPI4PY[0]}, which is not installed", fix=MPI4PY[1])


def needs_agent(library: Library) -> bool:
    """Whether a rank starts programs on the hosts of others."""
    return library.name == "openmpi"


def imports_torch(library: Library) -> bool:
    """Whether ranks have a use for PyTorch even where they train nothing."""
    return library.name == "gloo"
