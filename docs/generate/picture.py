"""Pictures of reports on pages, light and dark: of the start page and the README, and of guides.

    .venv/bin/testbed run experiments/quickstart.yaml --point batch=16 --out runs/picture
    .venv/bin/python -m docs.generate.picture runs/picture
    .venv/bin/python -m docs.generate.picture runs/clouds distances

The first command takes a minute and a half. The second one opens the run's report in headless Chromium and writes
``docs/start/report.png`` and ``docs/start/report-dark.png``, which git has. The third one takes the first figure of a
question instead, from a run of the spec in ``docs/guides/clouds.md``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks.chromium import Chromium
from testbed.analysis import report

FOLDER = Path(__file__).parents[1]
WIDTH_PX, MOST_HEIGHT_PX = 1280, 1300
PICTURES = {"": "start/report", "distances": "guides/clouds"}
"""Names of pictures without their ends, by question; that of none shows the page from its top."""
ENDS = {"light": ".png", "dark": "-dark.png"}
"""End of a file's name by the colours that a reader prefers."""
FIGURE = "document.querySelector('{} .plot')"
DRAWN = f"""new Promise((done) => {{{{
  {FIGURE}.scrollIntoView();
  const look = () => {FIGURE}.querySelector('.plot-container') ? done(true) : setTimeout(look, 50);
  look();
}}}})"""
"""Figures are drawn when they come into sight."""
ENDS_AT = f"{FIGURE}.getBoundingClientRect().bottom + scrollY"
BEGINS_AT = f"{FIGURE}.closest('figure').getBoundingClientRect().top + scrollY"
MARGIN_PX = 12


def pictures(page: Path, question: str = "") -> dict[str, bytes]:
    """Return the first page of a report down to the end of its first figure, or the first figure of a question, as PNG
    by file name."""
    made = {}
    within = f"#{question}" if question else "section"
    with tempfile.TemporaryDirectory() as profile, Chromium(Path(profile)) as browser:
        browser.size(WIDTH_PX, MOST_HEIGHT_PX)
        for colours, end in ENDS.items():
            browser.colours(colours)
            browser.open(page.as_uri())
            browser.run(DRAWN.format(within, within))
            top = round(browser.run(BEGINS_AT.format(within))) - MARGIN_PX if question else 0
            height = min(MOST_HEIGHT_PX, round(browser.run(ENDS_AT.format(within))) + MARGIN_PX - top)
            made[f"{PICTURES[question]}{end}"] = browser.picture(WIDTH_PX, height, top)
    return made


def main(run: Path, question: str = "") -> None:
    with tempfile.TemporaryDirectory() as folder:
        page = report.write([run], Path(folder).resolve() / "report.html", "html")
        for name, content in pictures(page, question).items():
            (FOLDER / name).write_bytes(content)
            print(f"{FOLDER / name}: {len(content):,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
