"""Bytes per link."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from testbed.analysis.record.trial import LinkCount
from testbed.analysis.recorded import Run
from testbed.analysis.report.questions import links

from ..helpers import answer, only, sharing


def test_links_tell_the_busiest_and_the_drops() -> None:
    counted = [
        LinkCount(0, "h0", "s0", 1e9, 3 * 2**20, 0, 2 * 2**20),
        LinkCount(1, "s0", "h0", 1e9, 1 * 2**20, 2, None),
    ]
    assert links.seen(counted) == (
        "The busiest link, h0 to s0, carried 3\u00a0MiB, 1.50× the bytes by theory; that is 1.50× the mean of all "
        "links. All links together carried 4\u00a0MiB; 2 packets were dropped."
    )


def test_links_that_are_not_counted_are_told_of(run: Run) -> None:
    counted = LinkCount(0, "h0", "leaf0", 1e9, 3 * 2**20, 0, 3 * 2**20)
    silent = LinkCount(1, "leaf0", "spine0", 1e9, None, None, 6 * 2**20)
    assert links.seen([counted, silent]) == (
        "The busiest link, h0 to leaf0, carried 3\u00a0MiB, 1.00× the bytes by theory; that is 1.00× the mean of all "
        "links. All links together carried 3\u00a0MiB; nothing was dropped. Links between switches, 1 of 2, are not "
        "counted in this lab."
    )
    still = LinkCount(0, "h0", "leaf0", 1e9, 0, 0, 0)
    assert links.seen([still]) == (
        "The busiest link, h0 to leaf0, carried 0\u00a0B. All links together carried 0\u00a0B; nothing was dropped."
    )
    idle = tuple(replace(trial, links=(still,)) for trial in only(run, "ps-b16", "bml-b16").trials)
    assert {row["Carried / mean link"] for row in answer(replace(run, trials=idle), "links").told} == {"–"}
    assert links.seen([silent]) == "Links between switches, 1 of 1, are not counted in this lab."
    trials = tuple(replace(trial, links=(*trial.links[:-1], silent)) for trial in only(run, "bml-b16").trials)
    columns = json.loads(answer(replace(run, trials=trials), "links").json())["columns"]
    assert columns["bytes"][-2:] == [trials[0].links[-2].bytes, None]
    both = replace(run, trials=(*only(run, "ps-b16").trials, *trials))
    assert [row["Not counted, between switches"] for row in answer(both, "links").told] == [
        "0 of 18 links",
        "1 of 36 links",
    ]


def test_several_networks_are_told_in_a_table(run: Run) -> None:
    question = answer(only(run, "ps-b16", "bml-b16"), "links")
    assert not any(panel.seen for panel in question.panels)
    assert [list(row.values())[:2] for row in question.told] == [
        ["PS on fat-tree at batch 16", "h2 to s0"],
        ["BML on BCube at batch 16", "h1 to s0.0"],
    ]
    assert {row["Packets dropped"] for row in question.told} == {"0"}
    assert "Not counted, between switches" not in question.told[0]


def test_one_drawing_for_each_network_and_scheme(run: Run) -> None:
    question = answer(run, "links")
    assert [panel.caption for panel in question.panels] == [
        "PS on fat-tree at batch 16: ps on star(hosts=9)",
        "Ring on fat-tree at batch 16: ring on star(hosts=9)",
        "BML on BCube at batch 16: bml on bcube(n=3,k=2)",
    ]
    assert len(question.frame) == 18 + 18 + 36
    assert question.frame["bytes"].tolist()[:2] == [link.bytes for link in run.trials[0].links[:2]]


def test_a_page_has_room_for_some(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "MOST_LINKS", 40)
    question = answer(run, "links")
    assert len(question.panels) == 2
    assert question.defined.endswith("Drawn are the first 2 of 3.")


EVIL = "from pathlib import Path\nPath(__file__).with_name('ran').touch()\ndef net(rate_bps, delay_s): ...\n"


def test_reading_a_run_runs_no_code_that_it_names(run: Run, tmp_path: Path) -> None:
    """A network from somebody's file is drawn as its links were recorded."""
    file = tmp_path / "evil.py"
    file.write_text(EVIL)
    (trial,) = only(run, "bml-b16").trials
    (panel,) = answer(replace(run, trials=(replace(trial, topology=f"{file}:net()"),)), "links").panels
    assert not (tmp_path / "ran").exists()
    assert panel.problem == ""
    assert panel.picture.count("<title>") > len(trial.links)


def test_links_that_are_not_numbered_one_after_the_other_are_not_drawn(run: Run) -> None:
    (trial,) = only(run, "bml-b16").trials
    odd = replace(trial, topology="mine.py:net()", links=trial.links[1:])
    (panel,) = answer(replace(run, trials=(odd,)), "links").panels
    assert panel.problem == "Not drawn: its links are not numbered from 0 on."


@pytest.mark.parametrize("lie", ["star(hosts=1000000000)", "star(hosts=200000)", "fat_tree(k=80)", "bcube(n=16,k=4)"])
def test_a_network_of_more_links_than_were_recorded_is_not_built(run: Run, lie: str) -> None:
    (trial,) = only(run, "ps-b16").trials
    began_s = time.process_time()
    (panel,) = answer(replace(run, trials=(replace(trial, topology=lie),)), "links").panels
    assert time.process_time() - began_s < 1
    assert "has more than 9 links" in panel.problem


def test_jobs_that_shared_a_network_are_drawn_once(run: Run) -> None:
    question = answer(sharing(run, {"ps-b16": "x: a", "ring-b16": "x: b"}), "links")
    (panel,) = question.panels
    assert panel.caption.startswith("x at batch 16: ps, ring on ")


def test_a_sweep_says_that_each_arm_is_shown_at_one_setting(run: Run, sweep: Run) -> None:
    told = "The table has each arm at its first setting"
    assert f"{told}. All settings are in the trials' JSON." in answer(sweep, "links").seen
    assert not any("first setting" in said for said in answer(only(run, "ps-b16", "bml-b16"), "links").seen)
    larger = replace(sweep, trials=tuple(replace(one, topology=f"star(hosts={one.batch})") for one in sweep.trials))
    question = answer(larger, "links")
    assert len(question.panels) > len(question.told)
    assert f"{told}. All settings are in the trials' JSON." in question.seen
    assert question.defined.endswith(" Networks are drawn at other settings, too.")
    alone = answer(replace(larger, trials=tuple(one for one in larger.trials if one.label == "BML on BCube")), "links")
    assert "Each network is shown at its first setting; all are in the trials' JSON." in alone.seen
