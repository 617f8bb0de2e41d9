"""Reports of eleven kinds of run, on a laptop and a phone: what is cut off or overlaps, sizes, and times until drawn.

    python benchmarks/report_layout.py [--runs DIR]

Makes eleven short runs (about fifteen minutes), or takes those that are in DIR already, and writes the report of each.
In headless Chromium each page is opened 1280 and 390 px wide, with everything unfolded and drawn. A script then finds
what is wider than its box or than the window, and texts that overlap. The time until drawn is the median of five, as in
``report_scale.py``, which has the report on 500 trials. To reach: nothing cut off and no overlap in any; for the run of
three trials 2 MB and 1 s.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from chromium import EXECUTABLE, Chromium
from report_scale import drawn

from testbed.base.columns import columns

ROOT = Path(__file__).parents[1]
WIDTHS_PX = (1280, 390)
HEIGHT_PX = 900
LONGEST_PX = 60_000
"""As long as a window is made for a page to be drawn as a whole."""
SHORT_BYTES, SHORT_S = 2_000_000, 1.0
SHORT = "three arms"
DRAWN_WITHIN_S = 60.0
QUICKSTART = "experiments/quickstart.yaml"
THREE_PACES = "workload.compute={mode: paced, pace: {8: 0.2 s, 16: 0.3 s, 32: 0.4 s}}"
SCHEDULED = (
    "arms=[{topology: star(hosts=6), scheme: mlfabric_a(delay_bound=9)}, "
    "{topology: star(hosts=6), scheme: mlfabric_ssp}]"
)
RATES = "perturb=[{kind: rate, links: [h1], share: 0.3, at: 0.5 s}]"
KINDS: dict[str, Sequence[str]] = {
    "one trial": (QUICKSTART, "workload.batch=16", "arms=[{topology: star(hosts=9), scheme: ps}]"),
    SHORT: (QUICKSTART, "workload.batch=16"),
    "batches": (QUICKSTART, "workload.batch=[8,16,32]", "workload.iterations=6", THREE_PACES),
    "sweep": ("experiments/sweep.yaml",),
    "numbers of workers": ("experiments/bml/gst.yaml",),
    "many arms": ("experiments/rina/jitter.yaml", "workload.iterations=4"),
    "asynchronous": ("experiments/mlfabric/asynchronous.yaml", "workload.iterations=8"),
    "scheduled": ("experiments/mlfabric/asynchronous.yaml", "workload.iterations=8", SCHEDULED, RATES),
    "nodes that die": ("experiments/rina/failover.yaml",),
    "command": ("experiments/command/ddp.yaml",),
}
"""By name, a spec and what is set in it. The eleventh is two of them side by side."""
BESIDE = (SHORT, "batches")

UNFOLD = "for (const one of document.querySelectorAll('details')) one.open = true"
ALL_DRAWN = "[...document.querySelectorAll('.plot')].every((one) => one.querySelector('.plot-container'))"
FAULTS = """
(() => {
  const ROUNDING = 1.5, SHARE = 2;
  const told = [];
  const begins = (one) => one.textContent.trim().slice(0, 40);
  const name = (one) => `${one.tagName.toLowerCase()}.${one.getAttribute("class") ?? ""} "${begins(one)}"`;
  const isSeen = (one) =>
    one.checkVisibility({ visibilityProperty: true }) && getComputedStyle(one).clipPath === "none";

  for (const one of document.querySelectorAll("body *:not(svg *):not(script)")) {
    if (!isSeen(one) || one.id === "js-plotly-tester") continue;
    const { width, left, right } = one.getBoundingClientRect();
    if (width && (right > innerWidth + ROUNDING || left < -ROUNDING)) told.push(`beyond the window: ${name(one)}`);
    const isBox = getComputedStyle(one).display !== "inline" && !one.closest(".plot");
    if (isBox && one.scrollWidth > one.clientWidth + ROUNDING) told.push(`wider than its box: ${name(one)}`);
  }
  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const of = node.parentElement;
    if (!node.data.trim() || of.closest("script, style, noscript") || !isSeen(of) || of.closest("caption")) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const { left, right, top, bottom, width } of range.getClientRects()) {
      if (width) texts.push({ of: of.closest("text") ?? of, node, left, right, top, bottom });
    }
  }
  for (const { of, left, right } of texts) {
    const panel = of.closest("figure");
    if (!panel || !of.closest("svg")) continue;
    const room = panel.getBoundingClientRect();
    if (left < room.left - ROUNDING || right > room.right + ROUNDING) told.push(`out of its figure: ${name(of)}`);
  }
  texts.sort((a, b) => a.top - b.top);
  texts.forEach((a, i) => {
    for (let k = i + 1; k < texts.length && texts[k].top < a.bottom - SHARE; k++) {
      const b = texts[k];
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const down = Math.min(a.bottom, b.bottom) - b.top;
      const ways = a.of === b.of || a.node === b.node ? 0 : Math.min(across, down - SHARE);
      if (ways > SHARE) told.push(`overlap: ${name(a.of)} and ${name(b.of)}`);
    }
  });
  return told;
})()
"""
"""What is wrong with how a page is laid out, as a list of texts."""


@dataclass(frozen=True)
class Seen:
    """One report: its size, the median time until it is drawn, and what is wrong, by width."""

    name: str
    size_bytes: int
    drawn_s: float
    faults: dict[int, list[str]]
    complaints: list[str]


def faults(browser: Chromium, page: str, width_px: int) -> list[str]:
    """What is cut off or overlaps in a page of this width, all of it unfolded and drawn.

    Raises:
        TimeoutError: a figure is not drawn.
    """
    phone = width_px < 600
    browser.size(width_px, HEIGHT_PX, phone=phone)
    browser.open(page)
    browser.run(UNFOLD)
    until_s = time.monotonic() + DRAWN_WITHIN_S
    while True:
        height = min(LONGEST_PX, browser.run("document.documentElement.scrollHeight"))
        browser.size(width_px, height, phone=phone)
        if browser.run(ALL_DRAWN):
            break
        if time.monotonic() > until_s:
            raise TimeoutError(f"{page}: a figure is not drawn after {DRAWN_WITHIN_S:g} s")
        time.sleep(0.05)
    browser.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    found: list[str] = browser.run(FAULTS)
    return found


def runs(folder: Path) -> dict[str, list[Path]]:
    """The run directories of each report, by its name; makes those that are not there."""
    made = {name: folder / name.replace(" ", "-") for name in KINDS}
    for name, path in made.items():
        if not (path / "resolved.json").exists():
            spec, *settings = KINDS[name]
            given = [word for setting in settings for word in ("--set", setting)]
            command = [sys.executable, "-m", "testbed", "run", str(ROOT / spec), "--retries", "0", *given]
            subprocess.run([*command, "--out", str(path)], check=False, stdout=subprocess.DEVNULL)
    return {name: [path] for name, path in made.items()} | {"side by side": [made[name] for name in BESIDE]}


def look(name: str, run_dirs: Iterable[Path], folder: Path) -> Seen:
    """Write the report, and open it."""
    page = folder / f"{name.replace(' ', '-')}.html"
    command = [sys.executable, "-m", "testbed", "report", *map(str, run_dirs), "--out", str(page)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    times_s, complaints = drawn(page.resolve(), folder / "timed")
    with Chromium(folder / "chromium") as browser:
        wrong = {width: faults(browser, page.resolve().as_uri(), width) for width in WIDTHS_PX}
        complaints += browser.complaints
    return Seen(name, page.stat().st_size, statistics.median(times_s), wrong, complaints)


def _sizes(one: Seen) -> tuple[str, str]:
    return f"{one.size_bytes / 1e6:.2f} MB", f"{one.drawn_s:.2f} s"


def main() -> None:
    """Look at ten reports, and print what was found beside what is to be reached; exit code 1 if it is not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, help="a directory for the runs, or with them")
    asked = parser.parse_args()
    if EXECUTABLE is None:
        sys.exit("needs the Debian package chromium")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        found = [look(name, dirs, folder) for name, dirs in runs(asked.runs or folder / "runs").items()]
    rows = [
        (
            one.name,
            f"{one.size_bytes / 1e6:.2f} MB",
            f"{one.drawn_s:.2f} s",
            *(str(len(one.faults[w])) for w in WIDTHS_PX),
        )
        for one in found
    ]
    rows.append(("to reach", f"{SHORT_BYTES / 1e6:.0f} MB*", f"{SHORT_S:.0f} s*", "0", "0"))
    print(columns(("report", "size", "drawn", *(f"faults at {w} px" for w in WIDTHS_PX)), rows))
    print(f"\n* {SHORT}")
    for one in found:
        for width, told in one.faults.items():
            print(*(f"{one.name}, {width} px: {fault}" for fault in told), sep="\n", end="\n" if told else "")
        print(*(f"{one.name}: {told}" for told in one.complaints), sep="\n", end="\n" if one.complaints else "")
    small = next(one for one in found if one.name == SHORT)
    wrong = any(one.complaints or any(one.faults.values()) for one in found)
    sys.exit(wrong or small.size_bytes > SHORT_BYTES or small.drawn_s > SHORT_S)


if __name__ == "__main__":
    main()
