"""Settings as names and values: many like values become one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from analysis import settings
from analysis.load import load

Edit = Callable[[Path, Callable[[dict[str, Any]], object]], None]


def test_the_machine_the_kernel_and_the_packages(run_dir: Path) -> None:
    parts = dict(settings.environment(load(run_dir)))
    assert list(parts) == ["Machine", "Kernel settings", "Packages"]
    machine = dict(parts["Machine"])
    assert machine["cpu.model"] == "AMD EPYC"
    assert machine["memory"] == "8 GiB"
    assert machine["git.dirty"] == "no"
    assert dict(parts["Packages"])["torch"] == "2.13.0+cpu"


def test_like_links_become_one_line_a_setting(run_dir: Path) -> None:
    ((trial, pairs),) = settings.labs(load(run_dir))
    assert trial == "ps-b16"
    assert dict(pairs) == {
        "mtu": "1500",
        "links.*.link": "18 values, 0 to 17",
        "links.*.rate_bps": "200000000 (all 18)",
        "links.*.burst_bytes": "16000 (all 18)",
    }


def test_trials_whose_networks_were_the_same_share_an_entry(run_dir: Path, edit: Edit) -> None:
    edit(run_dir / "env.json", lambda env: env["lab"].update({"ring-b16": env["lab"]["ps-b16"], "bml-b16": {}}))
    assert [trials for trials, _ in settings.labs(load(run_dir))] == ["ps-b16, ring-b16"]


def test_things_with_names_are_merged_too(run_dir: Path, edit: Edit) -> None:
    interfaces = {"h0": {"rate": 1, "queue": None}, "h1": {"rate": 2, "queue": None}, "h2": {"rate": 1, "queue": None}}
    edit(run_dir / "env.json", lambda env: env.update(lab={"a": {"ports": interfaces, "none": []}}))
    ((_, pairs),) = settings.labs(load(run_dir))
    assert dict(pairs) == {
        "ports.*.rate": "1 (2), 2 (1)",
        "ports.*.queue": "not known (all 3)",
        "none": "none",
    }
