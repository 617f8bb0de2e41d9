"""The documentation in a browser: how long a line of code may be, tables, and two dashes."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from benchmarks.chromium import EXECUTABLE, Chromium
from docs.generate import PAGES, markdown
from docs.generate.markdown import WIDEST
from tests.docs.markdown import DOCS, ROOT, all_blocks, blocks, pages

WINDOW_PX = 1280
"""The narrowest laptop's."""
PAGE = f"""\
# A page

With --baseline and "quotes", as `--baseline`.

## A part, so that the page has a table of contents and the least room

```text
{"x" * WIDEST}
```

```text
{"x" * (WIDEST + 1)}
```

| short | path | text |
| --- | --- | --- |
| `resnet269` | `{"folder/" * 20}file.py` | {"word " * 40} |
"""
CUT = "[...document.querySelectorAll('pre')].map((block) => block.scrollWidth > block.clientWidth)"
WIDE = "[...document.querySelectorAll('.table-wrapper')].map((box) => box.scrollWidth > box.clientWidth)"
LINES = "[...document.querySelectorAll('td code')].map((code) => code.getClientRects().length)"
SHOWN = [page for page in pages() if page.is_relative_to(DOCS) or page.parent == ROOT]
PART = re.compile(r"^:pyobject: (\w+)$", re.M)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small page, made with the settings of ``docs/``."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("out")
    (source / "index.md").write_text(PAGE)
    command = [sys.executable, "-P", "-m", "sphinx", "-q", "-W", "-c", DOCS, source, out]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return out / "index.html"


@pytest.mark.skipif(EXECUTABLE is None, reason="needs the Debian package chromium")
def test_the_widest_line_is_measured(page: Path, tmp_path: Path) -> None:
    with Chromium(tmp_path) as browser:
        browser.size(WINDOW_PX, 900)
        browser.open(page.as_uri())
        assert browser.run(CUT) == [False, True]


@pytest.mark.skipif(EXECUTABLE is None, reason="needs the Debian package chromium")
def test_long_paths_wrap_in_a_table_and_short_names_do_not(page: Path, tmp_path: Path) -> None:
    with Chromium(tmp_path) as browser:
        browser.size(WINDOW_PX, 900)
        browser.open(page.as_uri())
        assert browser.run(WIDE) == [False]
        short, path = browser.run(LINES)
        assert (short, path > 1) == (1, True)


def test_two_dashes_stay_two_dashes(page: Path) -> None:
    text = page.read_text()
    assert text.count("--baseline") == 2
    assert "“quotes”" in text


def wide(code: Iterable[str]) -> list[str]:
    return [line for block in code for line in block.splitlines() if len(line) > WIDEST]


def included(page: Path) -> Iterator[str]:
    """The files that a page shows, or the parts of them."""
    for block in blocks(page, "{literalinclude}"):
        text, part = (page.parent / block.words[1]).read_text(), PART.search(block.text)
        nodes = [node for node in ast.parse(text).body if getattr(node, "name", "") == part[1]] if part else []
        yield ast.get_source_segment(text, *nodes) or "" if part else text


@pytest.mark.parametrize("page", SHOWN, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_can_be_seen_whole(page: Path) -> None:
    assert wide([*all_blocks(page.read_text()), *included(page)]) == []


@pytest.mark.parametrize("name", PAGES)
def test_code_of_pages_that_are_made_can_be_seen_whole(name: str) -> None:
    assert wide(all_blocks(PAGES[name]())) == []


def test_a_part_of_a_file_that_is_shown_is_measured_alone() -> None:
    (shown,) = included(DOCS / "extend/runner.md")
    assert shown.startswith("class TwoProcesses:\n")
    assert "PROCESSES = 2" not in shown


def test_a_comment_that_would_be_cut_is_above_its_command() -> None:
    words = "x" * (WIDEST - 4)
    assert markdown.in_sight(f"a  # b\n{words}  # c\n{words}yyyyy") == f"a  # b\n# c\n{words}\n{words}yyyyy"


def test_a_command_that_would_be_cut_goes_on_below() -> None:
    words = "x" * (WIDEST - 6)
    assert markdown.in_sight(f"{words} --a bc") == f"{words} --a \\\n    bc"
    assert markdown.in_sight(f"{words} --a bc  # d") == f"# d\n{words} --a \\\n    bc"
