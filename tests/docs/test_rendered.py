"""The documentation in a browser: how long a line of code may be, and two dashes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.chromium import EXECUTABLE, Chromium
from docs.generate import PAGES, markdown
from docs.generate.markdown import WIDEST
from tests.docs.markdown import DOCS, ROOT, all_blocks, pages

WINDOW_PX = 1280
"""The narrowest laptop's."""
PAGE = f"""\
# A page

With --baseline and "quotes", as `--baseline`.

```text
{"x" * WIDEST}
```

```text
{"x" * (WIDEST + 1)}
```
"""
CUT = "[...document.querySelectorAll('pre')].map((block) => block.scrollWidth > block.clientWidth)"
INCLUDED = re.compile(r"^```\{literalinclude\} (\S+)$", re.M)
COMMENT = re.compile(r"(^|\s)# ")
SEEN_WHOLE = {
    DOCS / name
    for name in (
        *("start/first-hour.md", "start/python.md", "guides/sweeps.md", "guides/gate.md", "guides/programs.md"),
        *("guides/checkpoints.md", "guides/hybrid.md", "guides/jobs.md", "guides/panels.md", "guides/topic-models.md"),
        *("guides/networks-and-schemes.md", "guides/specs.md", "guides/own-models.md", "guides/profiles.md"),
        "guides/traces.md",
    )
}
"""Pages whose other lines of code fit, too: those of the first hour, and of one's own work."""


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


def test_two_dashes_stay_two_dashes(page: Path) -> None:
    text = page.read_text()
    assert text.count("--baseline") == 2
    assert "“quotes”" in text


def cut_comments(text: str) -> list[str]:
    return [line for line in text.splitlines() if len(line) > WIDEST and COMMENT.search(line)]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_comments_in_code_can_be_seen_whole(page: Path) -> None:
    if page.is_relative_to(DOCS):  # others are not on the site
        text = page.read_text()
        included = [(page.parent / name).read_text() for name in INCLUDED.findall(text)]
        assert [line for block in (*all_blocks(text), *included) for line in cut_comments(block)] == []
        if page in SEEN_WHOLE:
            assert [line for block in all_blocks(text) for line in block.splitlines() if len(line) > WIDEST] == []


@pytest.mark.parametrize("name", PAGES)
def test_comments_in_code_of_pages_that_are_made_can_be_seen_whole(name: str) -> None:
    assert [line for block in all_blocks(PAGES[name]()) for line in cut_comments(block)] == []


def test_a_comment_that_would_be_cut_is_above_its_command() -> None:
    words = "x" * (WIDEST - 4)
    assert markdown.comments_in_sight(f"a  # b\n{words}  # c\n{words}yyyyy") == f"a  # b\n# c\n{words}\n{words}yyyyy"
