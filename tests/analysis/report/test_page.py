"""report.html as a document: one file, nothing fetched, everything escaped, the same bytes each time."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from plotly.offline import get_plotlyjs

from testbed.analysis import report
from testbed.analysis.html import plotly
from testbed.analysis.recorded import Run
from testbed.analysis.report import words
from testbed.base.errors import OutputError

Edit = Callable[[Path, Callable[[dict[str, Any]], object]], None]

LOADING = {"src", "srcset", "href", "action", "data", "poster", "xlink:href"}
"""Attributes that make a browser fetch something."""


class Page(HTMLParser):
    """What a page holds: its tags with their attributes, its text, and the text of its scripts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.texts: list[str] = []
        self._inside = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside != "style":
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def page(run_dir: Path) -> Page:
    return Page(report.write(run_dir).read_text())


def test_it_lands_in_the_run_directory(run_dir: Path) -> None:
    path = report.write(run_dir)
    assert path == run_dir / "report.html"
    assert path.stat().st_size < 2e6
    assert [left.name for left in run_dir.iterdir() if left.name.startswith(".")] == []


def test_the_same_run_gives_the_same_bytes(run_dir: Path) -> None:
    """In every form, again, and in another process."""

    def written() -> dict[str, bytes]:
        return {form: report.write(run_dir, form=form).read_bytes() for form in report.FORMATS}

    first = written()
    assert all((run_dir / name).read_bytes() == first[form] for form, name in report.FORMATS.items())
    assert written() == first
    again = (
        "import sys; from pathlib import Path; from testbed.analysis import report\n"
        "for form in report.FORMATS: report.write(Path(sys.argv[1]), form=form)"
    )
    for name in report.FORMATS.values():
        (run_dir / name).unlink()
    command = [sys.executable, "-c", again, str(run_dir)]
    subprocess.run(command, check=True, env=os.environ | {"PYTHONHASHSEED": "7"})
    assert {form: (run_dir / name).read_bytes() for form, name in report.FORMATS.items()} == first


def test_a_run_whose_bytes_nobody_knows_has_a_page(run_dir: Path, edit: Edit) -> None:
    """As of libraries with algorithms of their own."""

    def unknown(record: dict[str, Any]) -> None:
        if record["metrics"]:
            record["metrics"] |= {"wire_bytes": None, "wire_bytes_theory": None}
        for link in record["links"]:
            link["theory_bytes"] = None

    for path in (run_dir / "trials").iterdir():
        edit(path, unknown)
    assert page(run_dir).text


def test_plotly_is_there_once_and_nothing_is_fetched(run_dir: Path) -> None:
    found = page(run_dir)
    packed = [script for script in found.scripts if script.startswith(plotly()[:100])]
    assert len(packed) == 1
    assert unpacked(packed[0]) == get_plotlyjs()
    assert not {"<", "&", "/"} & set(packed[0])  # nothing in it can end its element
    assert [(tag, attrs) for tag, attrs in found.tags if LOADING & attrs.keys()] == []
    assert "link" not in {tag for tag, _ in found.tags}
    html = (run_dir / "report.html").read_text()
    styles = "".join(re.findall(r"<style>(.*?)</style>", html, re.DOTALL))
    assert styles
    assert "url(" not in styles
    assert "@import" not in styles


def figures_of(found: Page) -> dict[str, dict[str, Any]]:
    """By question, its columns and figures."""
    names = [attrs["data-question"] for tag, attrs in found.tags if tag == "script" and "data-question" in attrs]
    data = [json.loads(script) for script in map(unpacked, found.scripts) if script.startswith('{"columns"')]
    return {str(name): one for name, one in zip(names, data, strict=True)}


def unpacked(script: str) -> str:
    """What a script holds packed; nothing if it is not."""
    if set(script) & set("<& \n"):
        return ""
    return zlib.decompress(base64.b85decode(script.translate(str.maketrans(".,", "<&")))).decode()


def test_every_figure_has_its_place_and_its_data(run_dir: Path) -> None:
    found = page(run_dir)
    places = [attrs["id"] for _, attrs in found.tags if attrs.get("class") == "plot"]
    questions = figures_of(found)
    assert [name for one in questions.values() for name in one["figures"]] == places
    assert list(questions) == [
        "jct",
        "speed-up",
        "gst",
        "accuracy",
        "learning-curves",
        "loss",
        "waits",
        "gantt",
        "links",
    ]
    assert questions["links"]["figures"] == {}
    for question in questions.values():
        lengths = {len(column if isinstance(column, list) else column["at"]) for column in question["columns"].values()}
        assert len(lengths) == 1
        for figure in question["figures"].values():
            for trace in figure["data"]:
                start, end = trace.get("rows", (0, 0))
                assert 0 <= start <= end <= min(lengths)
                assert named_columns(trace) <= question["columns"].keys()


def named_columns(value: Any) -> set[str]:
    """Every column that a trace asks for."""
    if not isinstance(value, dict):
        return set()
    named = [value[key] for key in ("column", "minus") if isinstance(value.get(key), str)]
    return {*named, *value.get("columns", ()), *(name for one in value.values() for name in named_columns(one))}


def test_data_is_there_once(run_dir: Path) -> None:
    html = report.write(run_dir).read_text()
    found = Page(html)
    gst = str(figures_of(found)["gst"]["columns"]["gst_s"][7])
    assert html.count(gst) + sum(unpacked(script).count(gst) for script in found.scripts) == 1


def test_the_finding_comes_first_and_the_arms_next(run_dir: Path) -> None:
    text = page(run_dir).text
    places = [
        text.index(words)
        for words in (
            "BML on BCube took 0.50×",
            "Arms side by side",
            "not VALID",
            "How long did",
            "Environment",
        )
    ]
    assert places == sorted(places)


def test_an_invalid_trial_is_said_to_be_with_its_reason(run_dir: Path) -> None:
    text = page(run_dir).text
    assert "Ring on fat-tree at batch 64 is INVALID: comparisons with it mean nothing." in text
    assert "Ring on fat-tree at batch 64 INVALID cpu: share of both cores in use while synchronising" in text


def test_a_finding_from_invalid_trials_is_red(run_dir: Path, edit: Edit) -> None:
    def doubt(trial: dict[str, Any]) -> None:
        trial["fidelity"] = {"verdict": "INVALID", "checks": []}

    for scheme in ("ps", "ring", "bml"):
        edit(run_dir / "trials" / f"{scheme}-b16.json", doubt)
    found = page(run_dir)
    assert ("h1", {"class": "bad"}) in found.tags
    assert " On another network, BML on BCube took 0.50×" in found.text
    assert " at 1 of 2 settings. Not reliable: GST is INVALID. " in found.text
    assert (
        "Left out: Ring on fat-tree at 1 of 2 settings, BML on BCube at 1 of 2 settings (PS on fat-tree" in found.text
    )


def test_a_failed_trial_is_listed_with_its_error(run_dir: Path) -> None:
    assert (
        "PS on fat-tree at batch 64 FAILED h3: worker ended with status -9 last lines of its log: <none>"
        in page(run_dir).text
    )


def test_a_label_that_says_what_it_is_stands_alone(run_dir: Path, edit: Edit) -> None:
    for trial in ("ps-b16", "ps-b64"):
        edit(run_dir / f"trials/{trial}.json", lambda record: record.update(label="ps on star(hosts=9)"))
    edit(run_dir / "resolved.json", lambda spec: spec["arms"][0].update(label="ps on star(hosts=9)"))
    page = report.write(run_dir).read_text()
    assert "<small>ps on star(hosts=9)</small>" not in page
    assert "<small>ring on star(hosts=9)</small>" in page
    assert "ps on star(hosts=9) at batch 16</figcaption>" in page


def test_what_comes_from_a_spec_is_text_everywhere(run_dir: Path, edit: Edit) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&"
    for scheme in ("ps", "ring", "bml"):
        edit(run_dir / "trials" / f"{scheme}-b16.json", lambda trial: trial.update(label=evil + trial["scheme"]))
    edit(run_dir / "trials" / "ps-b64.json", lambda trial: trial.update(label=evil, error=evil, scheme=evil))
    check = {"name": evil, "ok": False, "value": 1, "limit": 2, "unit": evil, "detail": evil}
    edit(
        run_dir / "trials" / "bml-b64.json",
        lambda trial: trial.update(topology=evil, fidelity={"verdict": "INVALID", "checks": [check]}),
    )
    edit(run_dir / "env.json", lambda env: env.update({"kernel": evil, evil: 1, "lab": {evil: {evil: evil}}}))
    edit(run_dir / "resolved.json", lambda resolved: resolved.update(name=evil, arms=[{"label": evil + "ps"}]))
    (run_dir / "spec.yaml").write_text(evil)
    before = {tag for tag, _ in Page(report.write(run_dir).read_text()).tags}
    found = page(run_dir)
    assert "img" not in before
    assert not [attrs for _, attrs in found.tags if any(name.startswith("on") for name in attrs)]
    assert not [script for script in found.scripts if script.startswith("alert")]
    assert evil in "".join(found.texts)
    packed = [script for script in found.scripts if unpacked(script)]
    assert packed
    assert not [script for script in packed if "<" in script]
    ticks = figures_of(found)["jct"]["figures"]["jct-0"]["layout"]["yaxis"]["ticktext"]
    assert ticks[0].startswith("&lt;/script&gt;&lt;")


def test_fields_that_may_be_missing(run_dir: Path, edit: Edit) -> None:
    for path in (run_dir / "trials").glob("*.json"):
        edit(
            path, lambda trial: trial.update(metrics={}, accuracy=None, fidelity=None, links=[], loss=None, error=None)
        )
        edit(path, lambda trial: trial.pop("duration_s"))
    (run_dir / "spec.yaml").unlink()
    text = page(run_dir).text
    assert "PS on fat-tree at batch 16 finished; there is nothing to compare it with." in text
    assert "not judged" in text
    assert "Which links" not in text


def test_a_run_without_a_finished_trial_has_its_table_only(run_dir: Path) -> None:
    for name in ("ps-b16", "ring-b16", "bml-b16", "ring-b64", "bml-b64"):
        (run_dir / "trials" / f"{name}.json").unlink()
    found = page(run_dir)
    assert "No trial finished" in found.text
    assert "1 trial: 0 VALID, 1 failed. 5 of 6 planned trials have not run." in found.text
    assert "FAILED h3" in found.text
    assert "plotly" not in [attrs.get("id") for _, attrs in found.tags]
    assert figures_of(found) == {}


def test_a_network_whose_file_is_gone_is_drawn_and_one_that_nobody_knows_is_told(run_dir: Path, edit: Edit) -> None:
    trial = run_dir / "trials" / "bml-b16.json"
    edit(trial, lambda found: found.update(topology="./gone.py:network()"))
    text = page(run_dir).text
    assert "Not drawn: " not in text
    assert "gone.py" in text
    edit(trial, lambda found: found.update(topology="bcube(n=3,k=2"))
    assert "Not drawn: " in page(run_dir).text


def test_a_directory_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="not a run directory"):
        report.write(tmp_path)


def test_a_trace_says_what_its_scale_means(run: Run) -> None:
    resolved = {"workload": {"kind": "trace", "scale": 10.0}, "links": {"rate_bps": 2e8}}
    told = words.scale(replace(run, resolved={**run.resolved, **resolved}))
    assert told.startswith("A trace was played: ")
    assert "The scale is 10: arrays have 1/10 of their bytes" in told


def test_a_profile_says_that_nothing_was_trained_and_what_scale_means(run_dir: Path, edit: Edit) -> None:
    def played(resolved: dict[str, Any]) -> None:
        resolved["workload"] |= {"kind": "profile", "model": "vgg19", "scale": 200.0}
        resolved["links"] = {"rate_bps": 40_000_000_000}

    edit(run_dir / "resolved.json", played)
    sums = {"checked_elements": 1000, "wrong_elements": 0}
    for path in (run_dir / "trials").glob("*.json"):
        edit(path, lambda trial: trial.update(accuracy=None, loss=None, sums=sums))
    for path in (run_dir / "samples").glob("*.parquet"):
        pd.read_parquet(path).assign(loss=np.nan).to_parquet(path)
    text = page(run_dir).text
    assert "No model was trained: workers summed random values of vgg19's gradient sizes" in text
    assert "The scale is 200" in text
    assert "links of 40 Gbit/s" in text
    assert "sums right of 1,000" in text
    assert "How did the loss fall?" not in text
    assert "the same accuracy" not in text


def test_a_sweep_is_drawn_along_its_numbers(swept: Path) -> None:
    found = page(swept)
    questions = figures_of(found)
    rates = questions["jct"]["columns"]["rate (Mbit/s)"]
    assert rates[:3] == [50, 100, 200]
    assert questions["jct"]["figures"]["jct-0"]["layout"]["xaxis"]["title"]["text"] == "rate (Mbit/s)"
    assert questions["jct"]["columns"]["jct_s_low"][0] < questions["jct"]["columns"]["jct_s"][0]
    assert "BML on BCube at batch 16, rate 50 Mbit/s" in found.text


def test_a_label_like_markup_does_not_break_the_downloads(run_dir: Path, edit: Edit) -> None:
    edit(run_dir / "resolved.json", lambda resolved: resolved.update(name='a"b<c>'))
    found = page(run_dir)
    assert dict(found.tags)["body"]["data-name"] == 'a"b<c>'
