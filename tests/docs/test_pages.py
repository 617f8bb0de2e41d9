"""The pages: their length, and that every link leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from docs.generate.picture import ENDS, PICTURES
from testbed.spec import reference
from testbed.topologies.build import families
from testbed.workloads.sync.schemes import schemes
from tests.docs.markdown import ROOT, anchors, inline, is_generated, links, pages

BUILT = "docs/_build/"
"""What `make docs` makes."""
OURS = re.compile(r"(analysis|benchmarks|docs|experiments|playbooks|testbed|tests|topologies|workloads)(/[\w.]+)+/?")
"""A path in the repository."""
LONGEST = {"README.md": 150, "ARCHITECTURE.md": 200}
"""Lines: these two are read from the first line to the last."""


@pytest.mark.parametrize(("name", "most"), LONGEST.items())
def test_a_page_that_is_read_whole_is_short(name: str, most: int) -> None:
    assert len((ROOT / name).read_text().splitlines()) <= most


@pytest.mark.parametrize("page", [*pages(), ROOT / "CHANGELOG.md"], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in links(page):
        address = urlsplit(link)
        if address.scheme:
            continue
        target = (page.parent / address.path).resolve() if address.path else page
        assert target.exists() or is_generated(target), link
        assert not address.fragment or is_generated(target) or address.fragment in anchors(target), link


@pytest.mark.parametrize("name", [f"{name}{end}" for name in PICTURES.values() for end in ENDS.values()])
def test_the_picture_is_small(name: str) -> None:
    assert 10_000 < (ROOT / "docs" / name).stat().st_size < 200_000


def test_the_start_page_shows_what_this_is_and_then_guides_in_reading_order() -> None:
    text = (ROOT / "docs" / "index.md").read_text()
    begin, guides, _ = re.split(r"^## (?:Guides, in reading order|To look things up)$", text, flags=re.M)
    assert all(f"{PICTURES['']}{end}" in begin for end in ENDS.values())
    assert re.findall(r"^make (\w+)", begin, re.M) == ["demo", "test"]
    assert len(re.findall(r"^\*\*.*\?\*\*$", begin.partition("## Three questions")[2], re.M)) == 3
    groups = re.findall(r":caption: (.*)\n:maxdepth: 1\n\n((?:\S+\n)+)", guides)
    assert [name for name, _ in groups] == ["Begin", "Your own work", "Papers", "In CI", "On machines"]
    listed = [page for _, pages_of in groups for page in pages_of.split()]
    assert {f"guides/{path.stem}" for path in (ROOT / "docs" / "guides").glob("*.md")} <= set(listed)
    assert "glob" not in guides


def test_every_page_of_the_readme_is_written_by_hand() -> None:
    """GitHub has no others."""
    targets = [(ROOT / urlsplit(link).path).resolve() for link in links(ROOT / "README.md") if "://" not in link]
    assert targets
    assert not [target for target in targets if is_generated(target)]


def test_every_network_and_scheme_is_in_the_guide() -> None:
    told = {re.split(r"\W", text)[0] for text in inline(ROOT / "docs" / "guides" / "networks-and-schemes.md")}
    assert {*families(), *schemes()} <= told


def test_every_kind_of_perturbation_is_in_the_guide() -> None:
    kinds = {section.kind for section in reference.sections() if section.place == "perturb"}
    assert kinds
    assert kinds <= set(inline(ROOT / "docs" / "guides" / "perturbations.md"))


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_the_text_names_is_there(page: Path) -> None:
    named = [text for text in inline(page) if OURS.fullmatch(text) and not text.startswith(BUILT)]
    assert [text for text in named if not (ROOT / text).exists() and not is_generated(ROOT / text)] == []
