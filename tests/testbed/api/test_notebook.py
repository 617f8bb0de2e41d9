"""The notebook, and what a real run and a real lab give to Python."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import testbed
from testbed.spec import read

from .conftest import NOTEBOOK

pytestmark = pytest.mark.lab


def test_the_notebook_runs_and_its_objects_show_themselves(notebook: dict[str, Any]) -> None:
    assert "<svg" in notebook["network"]._repr_html_()
    for forest in notebook["forests"].values():
        assert "<svg" in forest._repr_html_()
    run, trial = notebook["run"], notebook["trial"]
    assert run.failed == ()
    assert [one.recorded.label for one in run] == ["PS", "ring"]
    assert list(run.table["status"]) == ["done", "done"]
    assert list(run.table.index) == list(run.trials)
    assert run[trial.id] is trial
    assert "<td>ring</td>" in run._repr_html_()
    assert Path(notebook["page"]).exists()
    assert "1 received" in notebook["ping"].stdout
    assert isinstance(notebook["mistake"], testbed.base.errors.SpecError)


def test_samples_links_and_checks_are_tables(notebook: dict[str, Any]) -> None:
    trial = notebook["trial"]
    assert len(trial.samples) == 3 * 4
    assert len(trial.links) == 2 * 3
    assert trial.links["bytes"].sum() >= 0.9 * trial.links["theory_bytes"].sum()
    assert "link rate" in set(trial.checks["name"])
    assert trial.metrics["gst_median_s"] == notebook["run"].table.loc[trial.id, "gst_median_s"]


def test_a_run_is_the_same_when_it_is_loaded(notebook: dict[str, Any]) -> None:
    again = testbed.load(notebook["run"].path)
    assert again.table.equals(notebook["run"].table)


def test_the_dict_and_the_changes_are_what_ran(notebook: dict[str, Any]) -> None:
    path: Path = notebook["run"].path
    assert json.loads((path / "resolved.json").read_text())["overrides"] == ["quiet=0 s", "retries=0"]
    assert read((path / "spec.yaml").read_text(), "spec.yaml", path).spec.workload.model == "vgg19"
    assert [one.name for one in path.parents[1].iterdir()] == ["runs"]  # the file that the dict was in is gone


def test_the_notebook_is_kept_without_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)


def test_the_notebook_opens_after_one_line_that_it_names() -> None:
    """The line installs an extra that is there and has Jupyter, and opens this notebook."""
    text = "".join(json.loads(NOTEBOOK.read_text())["cells"][0]["source"])
    (extra, path) = re.findall(
        r"^\.venv/bin/pip install -e '\.\[(\w+)\]' && \.venv/bin/jupyter lab (\S+)$", text, re.M
    )[0]
    root = Path(__file__).parents[3]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert [needed.partition(">")[0] for needed in project["optional-dependencies"][extra]] == ["jupyterlab"]
    assert (root / path).samefile(NOTEBOOK)


def test_programs_that_the_notebook_calls_are_installed_by_set_up() -> None:
    """``./setup.sh run`` is what comes before the first hour."""
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    called = set(re.findall(r"exec\(\"\w+\", \"(\w+)", "".join("".join(cell["source"]) for cell in cells)))
    script = (Path(__file__).parents[3] / "setup.sh").read_text()
    packages = re.search(r"^programs=\((.*?)\)", script, re.M)
    assert packages
    assert called == {"ping"} <= {pair.partition(":")[0] for pair in packages[1].split()}
    assert re.search(r'^    run\)  packages=\("\$\{programs\[@\]\}"\)', script, re.M)
