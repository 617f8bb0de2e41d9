"""Programs and packages that each library needs on the machines that run it."""

from __future__ import annotations

from testbed.base.errors import MissingToolError
from testbed.base.extras import pip
from testbed.workloads.kinds.base import Tool
from testbed.workloads.kinds.library.plan import Library

OPENMPI = (
    Tool("mpirun", "the scheme openmpi", "sudo apt-get install openmpi-bin"),
    Tool("mpi4py", "the scheme openmpi", f"{pip()} install mpi4py", is_package=True),
)


def require(library: Library) -> None:
    """
    Raises:
        MissingToolError: the library is not installed.
    """
    for tool in OPENMPI if library.name == "openmpi" else ():
        if not tool.is_there:
            raise MissingToolError(f"scheme openmpi needs {tool.name}, which is not installed", fix=tool.fix)


def needs_agent(library: Library) -> bool:
    """Whether a rank starts programs on the hosts of others."""
    return library.name == "openmpi"


def imports_torch(library: Library) -> bool:
    """Whether ranks have a use for PyTorch even where they train nothing."""
    return library.name == "gloo"
