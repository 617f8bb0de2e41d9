"""A report on 500 trials: how long it takes to write, how large it is, and how soon a browser has drawn it.

    python benchmarks/report_scale.py [--run RUN] [--keep DIR]

One real trial is run (or taken from RUN), and a run directory of 500 made from it: ten arms at five rates of the links
and two batch sizes, five repeats each, their times a few per cent apart. What is measured is what a user waits for: the
command from its start to its end; and, in headless Chromium, from asking for the page until it has loaded and every
figure in sight is drawn, the median of five. To reach: 15 s, 8 MB, 2 s.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from chromium import EXECUTABLE, Chromium

from testbed.base.columns import columns

SPEC = Path(__file__).parents[1] / "experiments" / "quickstart.yaml"
ARMS, RATES_MBPS, BATCHES, REPEATS = 10, (50, 100, 150, 200, 400), (16, 64), 5
REACH_S, REACH_BYTES, REACH_DRAWN_S = 15.0, 8_000_000, 2.0
OPENED = 5
LAPTOP = (1366, 900)
MOMENTS = ["start_s", "ready_s", "sum_s", "end_s"]
IN_SIGHT = """
(() => {
  const seen = [...document.querySelectorAll(".plot")].filter((one) => {
    const place = one.getBoundingClientRect();
    return place.top < innerHeight && place.bottom > 0;
  });
  return document.readyState === "complete" && seen.every((one) => one.querySelector(".plot-container") !== null);
})()
"""


def real_trial(folder: Path) -> Path:
    """The directory of a run of one trial: the quickstart's PS with 16 samples a worker."""
    shorter = ["--retries", "0", "--set", "workload.batch=16", "--set", "arms=[{topology: star(hosts=9), scheme: ps}]"]
    command = [sys.executable, "-m", "testbed", "run", str(SPEC), *shorter, "--out", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder


def multiplied(one: Path, into: Path) -> int:
    """Make a run directory of many trials like the first of run ``one``; returns how many."""
    record = json.loads(next(iter(sorted((one / "trials").glob("*.json")))).read_text())
    samples = pd.read_parquet(one / "samples" / f"{record['id']}.parquet")
    resolved = json.loads((one / "resolved.json").read_text())
    arms = [{**resolved["arms"][0], "label": f"arm {i}"} for i in range(ARMS)]
    resolved |= {"name": "many", "arms": arms, "repeats": REPEATS}
    resolved["workload"]["batch"] = list(BATCHES)
    for folder in ("trials", "samples"):
        (into / folder).mkdir(parents=True)
    (into / "resolved.json").write_text(json.dumps(resolved))
    environment = json.loads((one / "env.json").read_text())
    lab = environment["lab"].get(record["id"], {})
    rng = np.random.default_rng(1)
    settings = list(itertools.product(range(REPEATS), BATCHES, RATES_MBPS, range(ARMS)))
    for repeat, batch, rate_mbps, arm in settings:
        name = f"arm{arm}-b{batch}-{rate_mbps}-r{repeat + 1}"
        factor = 200 / rate_mbps * (1 - 0.04 * arm) * rng.normal(1, 0.02)
        trial = _scaled(record, factor) | {"id": name, "label": f"arm {arm}", "batch": batch, "repeat": repeat}
        trial |= {"point": {"links.rate": rate_mbps * 1_000_000}, "at": f"rate={rate_mbps} Mbit/s"}
        (into / "trials" / f"{name}.json").write_text(json.dumps(trial))
        times = samples.assign(**{moment: samples[moment] * factor for moment in MOMENTS})
        times.to_parquet(into / "samples" / f"{name}.parquet", index=False)
        environment["lab"][name] = lab
    (into / "env.json").write_text(json.dumps(environment))
    return len(settings)


def _scaled(record: dict[str, Any], factor: float) -> dict[str, Any]:
    """The record of a trial in which everything took so many times as long."""
    metrics = {
        name: value * factor if name.endswith("_s") and value is not None else value
        for name, value in record["metrics"].items()
    }
    return record | {"metrics": metrics}


def write(run: Path) -> float:
    """Seconds that the command takes."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "testbed", "report", str(run)], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def drawn(page: Path, folder: Path) -> tuple[list[float], list[str]]:
    """Seconds until the page is drawn, each time it is opened, and what the browser complained of."""
    found = []
    with Chromium(folder) as browser:
        browser.size(*LAPTOP)
        for _ in range(OPENED):
            browser.open("about:blank")
            began = time.monotonic()
            browser.open(page.as_uri())
            while not browser.run(IN_SIGHT):
                time.sleep(0.01)
            found.append(time.monotonic() - began)
        return found, browser.complaints


def main() -> None:
    """Measure, and print each figure beside what is to be reached; exit code 1 if one is not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, help="a run directory, in place of running a trial")
    parser.add_argument("--keep", type=Path, help="a new directory to keep what is made")
    asked = parser.parse_args()
    if EXECUTABLE is None:
        sys.exit("needs the Debian package chromium")
    with tempfile.TemporaryDirectory() as temporary:
        run = asked.keep or Path(temporary) / "many"
        count = multiplied(asked.run or real_trial(Path(temporary) / "one"), run)
        taken_s = write(run)
        size = (run / "report.html").stat().st_size
        times_s, complaints = drawn((run / "report.html").resolve(), Path(temporary) / "chromium")
    drawn_s = statistics.median(times_s)
    rows = [
        ("written", f"{taken_s:.1f} s", f"{REACH_S:.0f} s", taken_s <= REACH_S),
        ("size", f"{size / 1e6:.2f} MB", f"{REACH_BYTES / 1e6:.0f} MB", size <= REACH_BYTES),
        ("drawn", f"{drawn_s:.2f} s", f"{REACH_DRAWN_S:.0f} s", drawn_s <= REACH_DRAWN_S),
        ("complaints", str(len(complaints)), "0", not complaints),
    ]
    print(f"a report on {count} trials\n")
    print(
        columns(("", "measured", "to reach", ""), [(*row[:3], "reached" if row[3] else "NOT reached") for row in rows])
    )
    sys.exit(not all(row[3] for row in rows))


if __name__ == "__main__":
    main()
