"""The picture of a report on the start page and in the README, light and dark.

    .venv/bin/testbed run experiments/quickstart.yaml --point batch=16 --out runs/picture
    .venv/bin/python -m docs.generate.picture runs/picture

The first command takes a minute and a half. The second one opens the run's report in headless Chromium and writes
``docs/start/report.png`` and ``docs/start/report-dark.png``, which git has.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks.chromium import Chromium
from testbed.analysis import report

FOLDER = Path(__file__).parents[1] / "start"
WIDTH_PX, MOST_HEIGHT_PX = 1280, 1300
PICTURES = {"light": "report.png", "dark": "report-dark.png"}
"""By the colours that a reader prefers, the file's name."""
FIGURE = "document.querySelector('.plot')"
DRAWN = f"""new Promise((done) => {{
  {FIGURE}.scrollIntoView();
  const look = () => {FIGURE}.querySelector('.plot-container') ? done(true) : setTimeout(look, 50);
  look();
}})"""
"""Figures are drawn when they come into sight."""
END = f"{FIGURE}.closest('section').querySelector('.plot').getBoundingClientRect().bottom + scrollY"
MARGIN_PX = 12


def pictures(page: Path) -> dict[str, bytes]:
    """By file name, the first page of a report down to the end of its first figure, as PNG."""
    made = {}
    with tempfile.TemporaryDirectory() as profile, Chromium(Path(profile)) as browser:
        browser.size(WIDTH_PX, MOST_HEIGHT_PX)
        for colours, name in PICTURES.items():
            browser.colours(colours)
            browser.open(page.as_uri())
            browser.run(DRAWN)
            height = min(MOST_HEIGHT_PX, round(browser.run(END)) + MARGIN_PX)
            made[name] = browser.picture(WIDTH_PX, height)
    return made


def main(run: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        page = report.write([run], Path(folder).resolve() / "report.html", "html")
        for name, content in pictures(page).items():
            (FOLDER / name).write_bytes(content)
            print(f"{FOLDER / name}: {len(content):,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
