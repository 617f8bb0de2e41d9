"""report.html in a real browser: nothing complains, everything is drawn and nothing sticks out, on laptop and phone."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from shutil import copytree
from xml.etree import ElementTree

import pandas as pd
import pytest

from benchmarks.chromium import EXECUTABLE, Chromium
from benchmarks.report_layout import FAULTS, WIDTHS_PX, faults
from testbed.analysis import report
from tests.analysis.conftest import schedule, write_run
from tests.patience import until

pytestmark = pytest.mark.skipif(EXECUTABLE is None, reason="needs the Debian package chromium")

SIZES = {"laptop": (1366, 900), "phone": (390, 844)}
DRAWN = "document.querySelectorAll('.plot > .plot-container').length"
PLOTS = "document.querySelectorAll('.plot').length"
WIDTH = "document.documentElement.scrollWidth"
BEYOND = "[...document.querySelectorAll('.plot svg')].filter((one) => one.getBoundingClientRect().right > innerWidth)"
ROWS = "[...document.querySelectorAll('#summary tbody tr')].map((row) => row.cells[{column}].childNodes[0].textContent)"


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("chromium")


@pytest.fixture(scope="module")
def browser(profile: Path) -> Iterator[Chromium]:
    with Chromium(profile) as one:
        yield one


@pytest.fixture(scope="module")
def address(quickstart: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of the made-up run's report, with queues of one trial."""
    run = copytree(quickstart, tmp_path_factory.mktemp("run") / "quickstart")
    (run / "queues").mkdir()
    waited = {"most_bytes": 10**6, "mean_bytes": 10.0**6, "full_share": 0.0, "drops": 0, "marks": 0}
    table = pd.DataFrame({"link": [0, 1, 0], "start_s": [0.0, 0.0, 2.0], "window_s": 2.0, **waited})
    table.to_parquet(run / "queues" / "bml-b16.parquet", index=False)
    return report.write(run).as_uri()


@pytest.fixture(scope="module")
def planned(quickstart: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of a run in which a scheduler planned the transfers of two arms, while a link had several rates."""
    run = schedule(copytree(quickstart, tmp_path_factory.mktemp("planned") / "quickstart"))
    path = run / "trials" / "ring-b16.json"
    slow = {"kind": "rate", "what": "h1", "begun_s": 3.0, "done_s": 3.0, "links": {"rate_bps": {"2": 20_000_000}}}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"events": [slow]}))
    return report.write(run).as_uri()


@pytest.fixture
def checked(browser: Chromium) -> Iterator[Chromium]:
    """The browser at a laptop's size; the test fails if it complains or asks for more."""
    browser.complaints.clear()
    browser.requests.clear()
    browser.size(*SIZES["laptop"])
    yield browser
    assert browser.complaints == []
    assert [address for address in browser.requests if not address.startswith(("file:", "blob:", "data:"))] == []


@pytest.fixture
def page(checked: Chromium, address: str) -> Chromium:
    """The report in it."""
    checked.open(address)
    return checked


def see_everything(browser: Chromium) -> None:
    """Scroll through the page, as a reader does."""
    browser.run("for (const one of document.querySelectorAll('details')) one.open = true")
    for i in range(browser.run(PLOTS)):
        browser.run(f"document.querySelectorAll('.plot')[{i}].scrollIntoView()")
        drawn = f"document.querySelectorAll('.plot')[{i}].querySelector('.plot-container') !== null"
        until(partial(browser.run, drawn))


def fits(page: Chromium, address: str, width: int) -> None:
    """Nothing sticks out, is cut off or overlaps where all is drawn."""
    assert faults(page, address, width) == []
    assert page.run(WIDTH) <= width
    assert page.run(f"{BEYOND}.length") == 0


def test_figures_are_drawn_when_they_come_into_sight(page: Chromium) -> None:
    """Their lines have the colour of the text, and none sticks out."""
    page.run("document.querySelector('.plot').scrollIntoView()")
    until(lambda: page.run(f"{DRAWN} > 0"))
    assert page.run(DRAWN) < page.run(PLOTS)
    see_everything(page)
    assert page.run(DRAWN) == page.run(PLOTS) == 22
    assert page.run("document.querySelectorAll('.plot .point, .plot .js-line, .plot .box').length") > 300
    assert page.run("document.querySelectorAll('.drawings svg[role=img]').length") == 3
    ink = page.run("getComputedStyle(document.body).color")
    strokes = "[...document.querySelectorAll('.plot .shapelayer path')].map((one) => getComputedStyle(one).stroke)"
    assert set(page.run(strokes)) == {ink}
    assert page.run(WIDTH) <= SIZES["laptop"][0]
    assert page.run(f"{BEYOND}.length") == 0


@pytest.mark.parametrize("width", WIDTHS_PX)
def test_nothing_sticks_out_is_cut_off_or_overlaps(checked: Chromium, address: str, width: int) -> None:
    fits(checked, address, width)


@pytest.mark.parametrize("width", WIDTHS_PX)
def test_planned_transfers_are_drawn_and_nothing_overlaps(checked: Chromium, planned: str, width: int) -> None:
    fits(checked, planned, width)
    for name, marks in (("fates-0", 8), ("update-rates-0", 4), ("transfers-0", 64), ("transfers-1", 64)):
        drawn = checked.run(f"document.querySelectorAll('[data-panel=\"{name}\"] .plot .point').length")
        assert drawn >= marks, name


def test_what_is_cut_off_and_what_overlaps_is_found(page: Chromium) -> None:
    page.run(
        "document.body.insertAdjacentHTML('beforeend', '<div style=\"width: 9px; overflow: hidden\">unbreakable</div>'"
        " + '<div style=\"position: absolute; left: 40px\">one</div>'"
        " + '<div style=\"position: absolute; left: 42px\">upon</div>')"
    )
    found = page.run(FAULTS)
    assert any(told.startswith('overlap: div. "one"') for told in found)
    page.run("document.body.style.overflowWrap = 'normal'")
    assert any(told.startswith('wider than its box: div. "unbreakable"') for told in page.run(FAULTS))


def test_a_phone_shows_an_arm_as_a_card_that_begins_with_gst_jct_and_verdict(page: Chromium) -> None:
    page.size(*SIZES["phone"], phone=True)
    until(lambda: page.run("document.querySelector('#summary').classList.contains('cards')"))
    shown = "[...document.querySelectorAll('#summary tbody tr')[0].querySelectorAll('td:not(.setting, .nothing)')]"
    assert page.run(f"{shown}.map((one) => one.dataset.label).slice(0, 3)") == ["GST, s", "JCT, s", "Fidelity"]
    page.size(*SIZES["laptop"])
    until(lambda: not page.run("document.querySelector('#summary').classList.contains('cards')"))


def test_units_of_columns_stay_on_a_line_with_their_names(page: Chromium) -> None:
    """Also where columns are as narrow as they can be."""
    page.run("document.querySelector('#summary').style.width = '1px'")
    tops = """[...document.querySelectorAll('#summary .unit')].map((unit) => {
      const range = document.createRange();
      range.setStart(unit.previousSibling, unit.previousSibling.length - 1);
      range.setEnd(unit.firstChild, unit.firstChild.length);
      return [unit.textContent, new Set([...range.getClientRects()].map((one) => one.top)).size];
    })"""
    assert page.run(tops) == [[", s", 1]] * 4


def test_a_browser_that_cannot_unpack_the_figures_says_so(browser: Chromium, address: str, tmp_path: Path) -> None:
    text = Path(address.removeprefix("file://")).read_text()
    old = tmp_path / "old.html"
    old.write_text(text.replace("<head>", "<head><script>delete window.DecompressionStream</script>", 1))
    browser.complaints.clear()
    browser.open(old.as_uri())
    until(lambda: "too old to unpack them" in browser.run("document.querySelector('header').innerText"))
    assert browser.run("[...document.querySelectorAll('.plot')].every((one) => !one.checkVisibility())")
    browser.run("dispatchEvent(new Event('beforeprint')); dispatchEvent(new Event('afterprint'))")
    assert browser.complaints == []


def test_tables_sort_by_the_keyboard_too(page: Chromium) -> None:
    titles = page.run("[...document.querySelectorAll('#summary thead th')].map((one) => one.textContent)")
    column = titles.index("JCT, s")
    header = f"document.querySelectorAll('#summary thead th')[{column}]"
    page.run(f"{header}.querySelector('button').focus()")
    page.press("Enter")
    assert page.run(f"{header}.getAttribute('aria-sort')") == "ascending"
    *known, last = page.run(ROWS.format(column=column))
    assert [float(text) for text in known] == sorted(float(text) for text in known)
    assert last == "–"  # the trial that failed
    page.press("Enter")
    assert page.run(f"{header}.getAttribute('aria-sort')") == "descending"
    again = page.run(ROWS.format(column=column))
    assert [float(text) for text in again[:-1]] == sorted((float(text) for text in known), reverse=True)
    assert again[-1] == "–"


def test_figures_and_their_data_can_be_downloaded(page: Chromium, tmp_path: Path) -> None:
    page.save_downloads(tmp_path)
    for panel in ("gst-0", "links-0"):
        page.run(f"document.querySelector('[data-panel=\"{panel}\"] .take button').click()")
        path = tmp_path / f"quickstart-{panel}.svg"
        until(partial(written, path))
        assert ElementTree.fromstring(path.read_text()).tag.endswith("svg")
    page.run("document.querySelector('[data-panel=\"gst-0\"] .take button:last-child').click()")
    until(partial(written, tmp_path / "quickstart-gst.csv"))
    rows = list(csv.DictReader(io.StringIO((tmp_path / "quickstart-gst.csv").read_text())))
    assert len(rows) == 5 * 19
    assert rows[0]["arm"] == "PS on fat-tree"
    assert float(rows[0]["gst_s"]) == pytest.approx(0.2, rel=0.1)


def written(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def test_paper_has_every_figure(page: Chromium) -> None:
    until(lambda: page.run("'Plotly' in window"))
    page.run("dispatchEvent(new Event('beforeprint'))")
    assert page.run(DRAWN) == page.run(PLOTS)
    assert page.run("document.querySelectorAll('details:not([open])').length") == 0
    page.run("dispatchEvent(new Event('afterprint'))")


def test_a_sweep_with_labels_like_markup(browser: Chromium, tmp_path: Path) -> None:
    swept = write_run(tmp_path / "swept", 2, (50, 200))
    for path in (swept / "trials").glob("bml-*.json"):
        path.write_text(path.read_text().replace("BML on BCube", "<img src=x onerror=alert(1)>&lt;b>"))
    browser.complaints.clear()
    browser.size(*SIZES["phone"], phone=True)
    browser.open(report.write(swept).as_uri())
    see_everything(browser)
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert browser.complaints == []
    assert browser.run(WIDTH) <= SIZES["phone"][0]
