"""Experiments on real SSH hosts, through the playbooks, from prepare to reset, and the steps of ``make rehearse``,
which runs them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from testbed.analysis.load import load
from testbed.base.errors import PrivilegeError
from testbed.fidelity import link_rate
from testbed.workloads.sync.cost import goodput
from tests.patience import until
from tests.rehearsal import rehearse
from tests.rehearsal.rehearsal import CLOCK_STEP_S, SUDOER, Rehearsal
from tests.rehearsal.snapshot import Snapshot
from tests.testbed.records import check

from .conftest import as_sudoer, run, skip_without_hosts
from .networks.test_racks import MBIT, TWO_RACKS


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """Four hosts in two racks, with two training NICs each; two are reached as an ordinary user with sudo."""
    skip_without_hosts()
    with Rehearsal(tmp_path_factory.mktemp("racks"), hosts=4, nics=2, racks=2) as hosts:
        if shutil.which("sudo"):
            hosts.write_inventory(lambda found: as_sudoer(list(found.values())[1::2]))
        yield hosts


@pytest.fixture(scope="module")
def before(rehearsal: Rehearsal) -> list[Snapshot]:
    """What the hosts were like at first."""
    return rehearse.looked_at(rehearsal)


@pytest.fixture(scope="module")
def prepared(rehearsal: Rehearsal, before: list[Snapshot]) -> Rehearsal:
    """The hosts, prepared."""
    assert rehearse.prepare(rehearsal, before) == 0
    return rehearsal


RING = '  - {label: "Ring on fat-tree", topology: "fat_tree(k=4,hosts=9)", scheme: ring}\n'
PS = '  - {label: "PS on fat-tree", topology: "fat_tree(k=4,hosts=9)", scheme: ps}\n'
FABRIC = '  - {topology: "star(hosts=4)", scheme: "mlfabric_a(delay_bound=100,aggregators=0)"}\n'
BESIDE = "perturb: [{kind: background, from: h1, to: h0, rate: 100 Mbit/s, at: 0 s, until: 4 s}]\n"
SMALLER = {
    "kind: train": "kind: profile",
    "  dataset: digits          # 1,797 real handwritten digits\n": "",
    "  learning_rate: 0.01\n  momentum: 0.9\n": "",
    "iterations: 14": "iterations: 3",
    "pace: fit": "pace: {16: 0.3 s}",
    "[16, 64]": "[16]",
    PS: "",
    RING: FABRIC,
    "n=3,k=2": "n=2,k=2",
    "timeout:": f"{BESIDE}retries: 0\ntimeout:",
}
"""Of the demo. It plays gradients back: each agent would import PyTorch for each trial, as those of tests of
``test_rehearsal.py`` do."""


@pytest.mark.rehearse
@pytest.mark.lab
def test_a_smaller_demo_runs(prepared: Rehearsal, root: Path, tmp_path: Path) -> None:
    """``make rehearse`` runs the whole one, on nine hosts."""
    spec, out = (root / "experiments/quickstart.yaml").read_text(), tmp_path / "run"
    for was, now in SMALLER.items():
        assert was in spec
        spec = spec.replace(was, now)
    run(prepared, tmp_path, spec)
    found = load(out)
    assert len(found.finished) == found.planned == 2
    lab = json.loads((out / "env.json").read_text())["lab"]
    for trial in found.trials:
        assert trial.accuracy.wrong_elements == 0
        assert trial.accuracy.checked_elements
        assert next(check for check in trial.checks if check.name == "read back").ok
        if trial.transfers is None:
            assert trial.metrics.gst_uncertainty_s is not None
            assert 0 < trial.metrics.gst_uncertainty_s < 1
        for node, host in enumerate(lab[trial.id]["hosts"].values()):
            assert host["host"] == f"node{node + 1}"
            off_s = host["clock"]["offset_s"] + CLOCK_STEP_S * (node + 1)
            assert abs(off_s) <= host["clock"]["uncertainty_s"], "a host's clock is an hour times its number ahead"
    (moved,) = [one for trial in found.trials if (one := trial.transfers) is not None]
    planned_s = (moved["end_s"] - moved["start_s"]).groupby([moved["from"], moved["to"]])
    assert planned_s.max()[1, 2] > 1.5 * planned_s.median()[0, 2], "its scheduler heard of flows out of h1"
    assert "by clocks" in (out / "report.html").read_text()


@pytest.mark.rehearse
@pytest.mark.lab
def test_hosts_of_an_ordinary_user_with_sudo_are_among_them(rehearsal: Rehearsal) -> None:
    if shutil.which("sudo") is None:
        pytest.skip("this machine has no sudo")
    assert rehearsal.inventory.read_text().count(f'"ansible_user": "{SUDOER}"') == 2


ACROSS = f"""\
name: racks
links: {{rate: 100 Mbit/s}}
workload: {{kind: profile, model: lenet5, batch: 32, iterations: 2, compute: none}}
arms: [{{topology: "{TWO_RACKS}", scheme: ring}}]
timeout: 20 s
retries: 0
"""


def measured(rehearsal: Rehearsal, folder: Path) -> tuple[dict[str, Any], float] | None:
    """A trial's record, and the share of its rate that the way out of the first rack has; None if the way back, which
    is as asked, was found slower still or too fast, because other tests held the cores during a burst."""
    shutil.rmtree(folder / "run", ignore_errors=True)
    (record,) = run(rehearsal, folder, ACROSS)
    between = [one for one in record["probes"] if not one["port_address"]]
    ways = {one["name"]: one["rate_bps"] / one["asked_bps"] / goodput(1500) for one in between}
    assert list(ways) == ["rack r0 (leaf0) to rack r1 (leaf1)", "rack r1 (leaf1) to rack r0 (leaf0)"]
    out, back = ways.values()
    return (record, out) if out < min(0.65, back) and back <= 1 + link_rate.FASTER else None


@pytest.mark.rehearse
@pytest.mark.lab
def test_a_link_between_racks_that_is_not_as_asked_is_found(prepared: Rehearsal, tmp_path: Path) -> None:
    for end, rate_bps in {"up0": 60 * MBIT, "down0": 100 * MBIT, "up1": 100 * MBIT, "down1": 100 * MBIT}.items():
        rate = ["rate", f"{rate_bps}bit", "burst", "100kb", "limit", "16mb"]
        prepared.run(["tc", "qdisc", "add", "dev", end, "root", "tbf", *rate], check=True)
    record, out = until(lambda: measured(prepared, tmp_path), 180.0)
    assert record["fidelity"]["verdict"] == "INVALID"
    found = check(record, "link rate")
    assert not found["ok"]
    assert found["value"] == pytest.approx(out)
    assert "rack r0 (leaf0) to rack r1 (leaf1)" in found["detail"]
    uncounted = [link for link in record["links"] if link["bytes"] is None]
    assert {(link["from"][:4], link["to"][:4]) for link in uncounted} == {("leaf", "spin"), ("spin", "leaf")}
    assert "Links between switches, 4 of 12, are not counted" in (tmp_path / "run/report.html").read_text()


@pytest.mark.rehearse
@pytest.mark.lab
def test_hosts_that_are_reset_are_as_before(prepared: Rehearsal, before: list[Snapshot]) -> None:
    assert rehearse.reset(prepared, before) == 0


@dataclass
class MadeUp:
    """Hosts on which every command ends with ``status``, and says that it has changed ``changes`` things; the last of
    them is otherwise than before after the first ``same`` looks at it."""

    status: int = 0
    changes: int = 0
    same: int = 10
    names: Sequence[str] = ("node1", "node2")
    folder: Path = Path("folder")
    inventory: Path = Path("lab.yml")
    called: list[str] = field(default_factory=list)

    def __enter__(self) -> MadeUp:
        return self

    def __exit__(self, *_: object) -> None: ...

    def snapshot(self, host: int) -> int:
        return host

    def differs(self, host: int, before: int) -> list[str]:
        assert host == before
        self.same -= host
        return ["files: new: left"] if self.same < 0 else []

    def command(self, words: Sequence[str]) -> list[str]:
        self.called.append(" ".join(words[4:]))
        return ["sh", "-c", f"echo '{json.dumps({'changed': {'node1': self.changes}})}'; exit {self.status}"]


def rehearsed(hosts: MadeUp, patch: pytest.MonkeyPatch) -> int:
    patch.setattr(rehearse, "Rehearsal", lambda *_: hosts)
    return rehearse.main(["mine.yaml", "--hosts", "2", "--out", "out"])


def test_a_rehearsal_goes_from_prepare_to_reset(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hosts = MadeUp()
    assert rehearsed(hosts, monkeypatch) == 0
    assert hosts.called == [
        "hosts prepare --check --inventory lab.yml",
        "hosts prepare --inventory lab.yml",
        "hosts prepare --inventory lab.yml --json",
        "run mine.yaml --retries 0 --out out --inventory lab.yml",
        "hosts collect --inventory lab.yml --into folder/collected",
        "hosts reset --inventory lab.yml",
        "hosts reset --inventory lab.yml --json",
    ]
    said = capsys.readouterr().out
    assert "prepare, only looked at: exit status 0" in said
    assert said.count(", 0 changed") == 2
    assert said.count("2 of 2 hosts as before") == 2


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        (lambda: MadeUp(status=1), "run: exit status 1"),
        (lambda: MadeUp(changes=3), "prepare, again: exit status 0 after"),
        (lambda: MadeUp(same=0), "node2: files: new: left"),
        (lambda: MadeUp(same=1), "1 of 2 hosts as before"),
    ],
)
def test_a_rehearsal_that_goes_wrong_says_where(
    hosts: Callable[[], MadeUp], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rehearsed(hosts(), monkeypatch) == 1
    assert said in capsys.readouterr().out


def test_a_machine_that_cannot_rehearse_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise PrivilegeError("rehearsed hosts need root", fix="run as root")

    monkeypatch.setattr(rehearse, "Rehearsal", refuse)
    assert rehearse.main([]) == 2
    assert capsys.readouterr().err.startswith("error: rehearsed hosts need root")
