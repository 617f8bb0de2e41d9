"""Every command line in the documentation is one that testbed's parser takes, or a target of the Makefile."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from testbed.cli import app
from tests.docs.markdown import ROOT, blocks, inline, pages

GROUP: Any = typer.main.get_command(app)
PAGES = [page for page in pages() if "testbed " in page.read_text()]


def calls(page: Path) -> Iterator[list[str]]:
    """The words after ``testbed`` in the page's blocks of shell commands."""
    for block in blocks(page, "sh"):
        for line in block.text.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            names = [i for i, word in enumerate(words) if word == "testbed" or word.endswith("/testbed")]
            if names and words[0] not in ("cd", "pip"):
                yield words[names[0] + 1 :]


def command(words: list[str]) -> tuple[Any, list[str]]:
    """The command that they call, and the words after its name."""
    found = GROUP
    while hasattr(found, "commands"):
        assert words, "no command"
        assert words[0] in found.commands, f"there is no command {words[0]}"
        found, words = found.commands[words[0]], words[1:]
    return found, words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_line_can_be_parsed(page: Path) -> None:
    for words in calls(page):
        found, rest = command(list(words))
        found.make_context(found.name, rest)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_the_text_calls_exists(page: Path) -> None:
    """Within a sentence, a command may lack its arguments."""
    for text in inline(page):
        if not text.startswith("testbed "):
            continue
        words = text.removeprefix("testbed ").split()
        found, rest = command(words)
        if found.name == "exec":
            continue
        options = {name for parameter in found.params for name in parameter.opts} | {"-h", "--help"}
        assert {word.partition("=")[0] for word in rest if word.startswith("--")} <= options, text


def test_specs_that_commands_name_are_there() -> None:
    named = {word for page in PAGES for words in calls(page) for word in words if word.startswith("experiments/")}
    assert named
    assert [word for word in named if not (ROOT / word.partition(":")[0]).is_file()] == []


def test_targets_of_make_exist() -> None:
    known = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    texts = [text for page in pages() for text in [*(b.text for b in blocks(page, "sh")), *inline(page)]]
    asked = {found for text in texts for found in re.findall(r"^make ([a-z-]+)", text, re.M)}
    assert {"demo", "test", "docs"} <= asked
    assert asked <= known
