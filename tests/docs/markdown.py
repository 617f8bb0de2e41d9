"""The pages of the documentation, and the parts of them that tests look at."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.M | re.S)
_INDENTED_FENCE = re.compile(r"^ *```([^\n`]*)\n(.*?)^ *```$", re.M | re.S)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_INLINE = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Block:
    """A block of code: its page, its first line there, what stands behind its three ticks, and its text."""

    page: Path
    line: int
    words: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages() -> list[Path]:
    """Every page that is written by hand, but for the history of changes."""
    by_hand = (path for path in DOCS.rglob("*.md") if "_build" not in path.parts and not is_generated(path))
    return [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "SECURITY.md", *sorted(by_hand)]


def is_generated(path: Path) -> bool:
    """Whether the page is made when the documentation is built."""
    from docs.generate import PAGES

    return path.is_relative_to(DOCS) and str(path.relative_to(DOCS)) in PAGES


def blocks(page: Path, language: str) -> Iterator[Block]:
    """The page's blocks of a language."""
    text = page.read_text()
    for found in _FENCE.finditer(text):
        words = tuple(found[1].split())
        if words[:1] == (language,):
            yield Block(page, text.count("\n", 0, found.start()) + 1, words, found[2])


def all_blocks(text: str) -> list[str]:
    """The blocks of code in a page's text, of any language, also those in lists."""
    return [block[2] for block in _INDENTED_FENCE.finditer(text) if not block[1].startswith("{")]


def prose(page: Path) -> str:
    """The page without its blocks."""
    return _FENCE.sub("", page.read_text())


def links(page: Path) -> list[str]:
    """Where the page's links lead."""
    return _LINK.findall(re.sub(_INLINE, "", prose(page)))


def inline(page: Path) -> list[str]:
    """What stands between single ticks."""
    return _INLINE.findall(prose(page))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and MyST make them."""
    headings = re.findall(r"^#{1,6} (.*)$", prose(page), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
