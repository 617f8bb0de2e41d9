"""What every test may use."""

from __future__ import annotations

import gc
import os
import signal
import sys
from contextlib import suppress
from importlib import import_module
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
)
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import settings

# No deadline: examples take longer while others use the machine. A change is held against the same examples each time;
# what nobody has thought of yet is found by `pytest -m hypothesis --hypothesis-profile search`.
settings.register_profile("testbed", deadline=None, derandomize=True, max_examples=25)
settings.register_profile("search", deadline=None, max_examples=2000)
settings.load_profile("testbed")

# Hypothesis would read all our files in each process, for constants to try: that takes seconds, and changes examples.
with suppress(ImportError):  # as early versions do not
    from hypothesis.internal.conjecture import providers

    providers._get_local_constants = lambda: providers._local_constants

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what it starts in the background ignore it

# Hundreds of processes are started, each of which would else compile all modules that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# As in an environment that is activated: fixes name ``pip``, wherever the environment is.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])

# As in workers and the referee. Threads that wait for each other take the cores of other test processes.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

# Almost all that is made while modules are imported stays, so that looking for rubbish then is a fifth of the time.
gc.disable()

ROOT = Path(__file__).parents[1]


OLD_NAMES = ("topologies", "workloads", "analysis")


class Root(FileFinder):
    """Has the suite import what an installation can: the clone's root is on its path, and folders there have names that
    packages of ours had before. Modules of these names elsewhere are found as ever."""

    def find_spec(self, name: str, target: ModuleType | None = None) -> ModuleSpec | None:
        """None for the folders with old names."""
        return None if name in OLD_NAMES else super().find_spec(name, target)


sys.path_importer_cache[str(ROOT)] = Root(
    str(ROOT), (ExtensionFileLoader, EXTENSION_SUFFIXES), (SourceFileLoader, SOURCE_SUFFIXES)
)


@pytest.fixture
def root() -> Path:
    """The repository's root, where experiments/ is."""
    return ROOT


COSTLY = (
    *("rehearsal", "refused", "records", "finished", "trained", "network", "browser", "notebook", "package"),
    *("told", "mistaken", "by_mover", "sweep", "wheel"),
)
"""Fixtures that take many seconds to make, and that tests of a module or more share."""


def pytest_collection(session: pytest.Session) -> None:
    """Import all tests, in each of several processes from another place on: in a new clone each compiles some of them,
    and finds what the others have compiled."""
    config = session.config
    if not hasattr(config, "workerinput") or config.args_source is not config.ArgsSource.TESTPATHS:
        return
    paths = sorted((ROOT / "tests").rglob("test_*.py"))
    first = len(paths) * int(config.workerinput["workerid"].removeprefix("gw")) // config.workerinput["workercount"]
    for path in paths[first:] + paths[:first]:
        with suppress(Exception, pytest.skip.Exception):  # which the collection tells
            import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


def pytest_collection_finish() -> None:
    """From now on what has been imported is not looked at, and what tests make is."""
    gc.freeze()
    gc.enable()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Of several test processes, one runs all that share a costly fixture, so that it is made once."""
    info = getattr(item, "_fixtureinfo", None)
    for name in COSTLY:
        made = info and info.name2fixturedefs.get(name)
        if made and made[-1].scope != "function":
            value = item.callspec.indices.get(name, "") if hasattr(item, "callspec") else ""
            item.add_marker(pytest.mark.xdist_group(f"{made[-1].baseid} {name} {value}"))
