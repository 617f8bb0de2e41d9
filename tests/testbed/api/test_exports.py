"""``import testbed``: quick, typed, and of names that nothing else takes."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

import testbed
from testbed.base import errors


def test_import_loads_nothing_and_topologies_need_no_pandas() -> None:
    script = (
        "import sys, testbed\nbefore = set(sys.modules)\nprint(*before)\n"
        "testbed.topology('star(hosts=3)')\nprint(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    before, after = (set(line.split()) for line in done.stdout.splitlines())
    assert not {"numpy", "pandas", "pydantic", "rich", "typer", "yaml", "testbed.api"} & before
    assert not {"pandas", "plotly", "torch"} & after


@pytest.mark.parametrize("name", testbed.__all__)
def test_every_name_is_there_and_no_module_takes_its_place(name: str) -> None:
    """Importing a module of that name would put it where the function is."""
    assert getattr(testbed, name).__name__.endswith(name)
    assert name in dir(testbed)
    assert name == "errors" or importlib.util.find_spec(f"testbed.{name}") is None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'runs'"):
        testbed.runs  # type: ignore[attr-defined]  # noqa: B018


def test_an_error_comes_back_from_json_as_it_was() -> None:
    for kind in (errors.SpecError, errors.NeighbourError, errors.TestbedError):
        for fix in (None, "mend it"):
            again = errors.from_json(errors.as_json(kind("it is wrong", fix=fix)))
            assert (type(again), str(again)) == (kind, str(kind("it is wrong", fix=fix)))


def test_an_error_of_a_class_of_ones_own_is_its_nearest_in_the_tree() -> None:
    class OwnError(errors.TopologyError):
        pass

    assert type(errors.from_json(errors.as_json(OwnError("wrong")))) is errors.TopologyError
