"""The pages that are made from the code: nothing is missing on them, and git has none of them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

import pytest
import yaml
from pydantic import BeforeValidator, Field

from docs.generate import (
    PAGES,
    benchmarks,
    command_line,
    dictionary,
    exit_codes,
    markdown,
    notebook,
    public_scripts,
    spec_keys,
    write,
)
from testbed.analysis import schema
from testbed.analysis.dictionary import FILES, QUEUES, RECORD, RESULTS, TRANSFERS
from testbed.analysis.record.columns import COLUMNS, OF_JOBS
from testbed.analysis.record.tables import Transfer, Window, columns
from testbed.base import exits
from testbed.base.groups import Group, Rate, Size, Time, Whole, listed
from testbed.files.shape import EACH, NO_NULL, Kind, Shape
from testbed.spec import reference
from tests.docs.markdown import ROOT

SECTIONS = list(reference.sections())


def test_every_key_says_what_it_means() -> None:
    silent = [
        f"{section.place}.{key.name}"
        for section in SECTIONS
        for key in section.keys
        if not key.text and key.name != "kind"
    ]
    assert silent == []


def test_every_group_of_keys_is_there_once() -> None:
    titles = [section.title for section in SECTIONS]
    assert len(set(titles)) == len(titles)
    assert {"The whole spec", "`links`", "`arms`", "`workload`, kind `profile`"} <= set(titles)


def test_groups_lead_to_their_keys() -> None:
    page = spec_keys.page()
    addresses = re.findall(r"^\((.*)\)=$", page, re.M)
    assert len(addresses) == len(set(addresses)) == len(SECTIONS)
    linked = set(re.findall(r"\]\(#(.*?)\)", page))
    assert linked == set(addresses) - {"keys-the-whole-spec"}
    shown = re.findall(r"^### (.*)\n\n\*Takes\* .*of keys.*\n\n(.*)$", page, re.M)
    silent = [key for key, below in shown if not below.startswith("*Keys in it:* [")]
    assert len(shown) > 10
    assert silent == []
    assert "*Keys in it:* [`train`](#keys-workload-kind-train), [`profile`](#keys-workload-kind-profile)" in page


class Example(Group):
    """Keys of every sort."""

    mode: Literal["fast", "slow"] = "fast"
    """How."""
    rate_bps: Rate | None = Field(None, alias="rate", examples=["5 Mbit/s"])
    wait_s: Time = Field(0.5, alias="wait", gt=0)
    sizes: Annotated[list[Size], BeforeValidator(listed)]
    count: Whole = Field(1, ge=1, le=2000)


def test_types_defaults_and_examples_are_in_words() -> None:
    found = [(key.name, key.takes, key.default, key.example, key.text) for key in reference.keys(Example)]
    assert found == [
        ("mode", "`fast` or `slow`", "`fast`", "", "How."),
        ("rate", "a rate in bit/s, kbit/s, Mbit/s, Gbit/s or Tbit/s", "nothing", "5 Mbit/s", ""),
        ("wait", "a time in s, ms, us or min, more than 0", "`0.5 s`", "", ""),
        ("sizes", "a size in B, KiB, MiB, GiB, kB, MB or GB, or a list of them", "none, it is required", "", ""),
        ("count", "a whole number, at least 1, at most 2,000", "`1`", "", ""),
    ]


def test_every_command_is_on_its_page() -> None:
    page = command_line.page()
    assert {"## `testbed run`", "## `testbed hosts prepare`"} <= set(page.splitlines())
    assert "| `--resume RUN` | Go on with the interrupted run in this directory. |" in page


def test_every_exit_code_has_a_meaning() -> None:
    codes = {value for name, value in vars(exits).items() if name.isupper()}
    assert codes == set(exit_codes.MEANINGS)


def test_every_column_and_key_that_is_checked_has_a_definition_and_no_other_column() -> None:
    assert set(RESULTS) == {*COLUMNS, *OF_JOBS}
    assert tuple(QUEUES) == columns(Window)
    assert tuple(TRANSFERS) == columns(Transfer)
    known = {tuple(path.replace("[]", "").split(".")) for path in RECORD}
    checked = {path if path in known or path[0] != "jobs" else path[1:] for path in keys_of(schema.RECORD)}
    assert {path for path in checked if path and path not in known} == set()
    page = dictionary.page()
    assert "| `links[].bytes` | whole number from 0 on | B | counted by the kernel" in page
    assert all(f"## {name}" in page for name in FILES)


def keys_of(shape: Shape, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of each key that has a name; sums are checked as accuracies are, and events' links not at all."""
    if isinstance(shape, Mapping):
        for key, inner in shape.items():
            if key not in (EACH, NO_NULL) and path[-1:] not in (("sums",), ("accuracy",)):
                yield from keys_of(inner, (*path, key))
    elif isinstance(shape, Kind):
        yield path
    else:
        yield from keys_of(shape[0], path)


def test_every_benchmark_says_what_it_measures() -> None:
    page = benchmarks.page()
    assert len(benchmarks.programs()) > 25
    assert all(f"`benchmarks/{path.name}`" in page for path in benchmarks.programs())


def test_the_notebook_is_a_page() -> None:
    page = notebook.page()
    assert page.startswith("# First steps")
    assert "```python\nimport testbed\n```" in page


def test_docstrings_become_markdown() -> None:
    text = """One :class:`a.B` and ``code``.

    Args:
        x: not on a page.
    """
    assert markdown.prose(text) == "One `a.B` and `code`."
    assert markdown.table(("a",), [("x | y",)]) == "| a |\n| --- |\n| x \\| y |\n"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    write(folder)
    return folder


def test_a_page_that_would_be_the_same_is_left_alone(written: Path) -> None:
    before = {name: (written / name).stat().st_mtime_ns for name in PAGES}
    write(written)
    assert {name: (written / name).stat().st_mtime_ns for name in PAGES} == before


def test_git_has_none_of_them() -> None:
    paths = [f"docs/{name}" for name in PAGES]
    ignored = subprocess.run(["git", "check-ignore", *paths], cwd=ROOT, capture_output=True, text=True, check=False)
    if ignored.returncode == 128:
        pytest.skip("not a git repository")
    assert ignored.stdout.split() == paths


def test_a_public_script_that_was_run_has_an_outcome_in_each_arm() -> None:
    rows = yaml.safe_load((ROOT / "benchmarks" / "public_scripts.yaml").read_text())
    for row in rows:
        assert "edits" not in row or "line" in row["needed"], row["command"]
        if seen := row.get("seen"):
            failed = seen.get("plain", "").startswith("failed")
            assert failed or set(seen) >= {*public_scripts.ARMS, *(() if "expected" in row else ("plain",))}, row
            assert re.fullmatch("[0-9a-f]{40}", row["commit"]), row["command"]
    assert len(re.findall(r"^\| .*/", public_scripts.page(), re.M)) == sum("seen" in row for row in rows)
