"""Files that ranks write: which are kept, which are told of; and what a rank or a machine that lies can do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from testbed.base.errors import LabError
from testbed.execution import outputs
from testbed.experiment.expand import trials
from testbed.files.foreign import Listing
from testbed.spec import read
from testbed.trial.files import Files

from ..experiment.test_run import call

SPEC = """\
name: kept
links: {rate: 100 Mbit/s}
workload: {kind: command, command: python script.py, outputs: [ckpt/, '*.json', never.txt]}
arms:
  - {topology: star(hosts=2), scheme: ring}
  - {topology: star(hosts=2), scheme: gloo}
retries: 0
quiet: 0 s
"""
CHECKPOINTS = """
import os
import torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
dist.init_process_group("gloo")
rank, shared = dist.get_rank(), os.environ["TESTBED_SHARED"]
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
whole = torch.arange(48.0).reshape(12, 4)
def state(of):
    return {"sharded": distribute_tensor(of, mesh, [Shard(0)]), "plain": of.clone()}
dcp.save(state(whole), checkpoint_id=f"{shared}/ckpt")
found = state(torch.zeros(12, 4))
dcp.load(found, checkpoint_id=f"{shared}/ckpt")
assert torch.equal(found["sharded"].full_tensor(), whole) and torch.equal(found["plain"], whole)
open(f"rank{rank}.json", "w").write("{}")
open("notes.txt", "w").write("x" * 2048)
dist.destroy_process_group()
"""


@dataclass
class Told:
    """A lab that has nothing but what its ranks are said to have written; ``lost`` are nodes of which it is not
    known."""

    by_node: Mapping[int, Mapping[str, bytes]]
    lost: frozenset[int] = frozenset()
    sizes: Mapping[str, int] = field(default_factory=dict)

    def written(self, node: int, folder: Path) -> Listing:
        del folder
        if node in self.lost:
            raise LabError("its machine is gone")
        files = self.by_node.get(node, {})
        return Listing(tuple((name, self.sizes.get(name, len(data))) for name, data in files.items()), is_whole=True)

    def read_written(self, node: int, folder: Path, name: str, offset: int) -> bytes:
        del folder
        return self.by_node[node][name][offset : offset + 3]


def kept(folder: Path, lab: Any) -> tuple[list[str], dict[str, str]]:
    """Return lines told of files, and the files kept."""
    (folder / "script.py").write_text("")
    trial = trials(read(SPEC, "spec.yaml", folder))[0]
    files = Files(folder / "out" / "work" / trial.id, folder / "out" / "logs" / trial.id)
    files.shared.mkdir(parents=True)
    (files.shared / "all.json").write_text("all")
    told = outputs.keep(trial, lab, files)
    found = files.outputs.rglob("*")
    return told, {str(one.relative_to(files.outputs)): one.read_text() for one in found if one.is_file()}


def test_what_fits_is_kept_by_rank_and_the_rest_is_told_in_a_line(tmp_path: Path) -> None:
    lab = Told({0: {"ckpt/a/b": b"weights", "t.json": b"{}", "deep/t.json": b"no", "log.txt": b"12"}, 1: {"x y": b"1"}})
    told, files = kept(tmp_path, lab)
    assert files == {"rank0/ckpt/a/b": "weights", "rank0/t.json": "{}", "shared/all.json": "all"}
    assert told == [
        "h0, h1 wrote 3 files (5 B) that are not kept: outputs: [deep/, log.txt, 'x y']",
        "outputs: no rank wrote never.txt",
    ]


def test_files_beyond_the_bound_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "MOST_BYTES", 10)
    told, files = kept(tmp_path, Told({0: {"ckpt/a": b"12345678", "ckpt/b": b"123", "ckpt/c": b"12"}}))
    assert set(files) == {"rank0/ckpt/a", "rank0/ckpt/c", "shared/all.json"}
    assert told[0] == "h0 wrote 1 file (3 B) beyond the 10 B and 2,000 files that are kept of each rank: ckpt/"


def test_a_file_that_grows_meanwhile_is_kept_as_long_as_it_was_listed(tmp_path: Path) -> None:
    _, files = kept(tmp_path, Told({0: {"t.json": b"12345"}}, sizes={"t.json": 4}))
    assert files["rank0/t.json"] == "1234"


def test_a_node_of_which_nothing_is_known_is_told(tmp_path: Path) -> None:
    told, files = kept(tmp_path, Told({0: {"t.json": b"{}"}}, lost=frozenset({1})))
    assert set(files) == {"rank0/t.json", "shared/all.json"}
    assert told[0] == "what h1 wrote is lost: its machine is gone"


@pytest.mark.parametrize(
    "names", [["../../../spec.json"], ["/tmp/x.json"], ["ckpt/../../x"], ["ckpt/a", "ckpt/a/b"], ["a//b.json"], [""]]
)
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, names: list[str]) -> None:
    told, files = kept(tmp_path, Told({0: dict.fromkeys(names, b"1")}))
    assert set(files) == {"shared/all.json"}
    assert told[0].startswith("what h0 wrote is lost: ")
    assert told[0].endswith("is no name of a file below its folder")


@pytest.mark.rehearse
@pytest.mark.lab
def test_ranks_save_and_load_checkpoints_and_a_trace_shows_their_collectives(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC.replace("  - {topology: star(hosts=2), scheme: gloo}\n", ""))
    (tmp_path / "script.py").write_text(CHECKPOINTS)
    done = call(tmp_path, "run", str(tmp_path / "spec.yaml"), "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stdout + done.stderr
    folder = tmp_path / "out" / "outputs" / "ring-star2"
    found = {str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file()}
    shards = {f"shared/ckpt/__{rank}_0.distcp" for rank in range(2)}
    assert found == {"rank0/rank0.json", "rank1/rank1.json", "shared/ckpt/.metadata", *shards}
    record = json.loads((tmp_path / "out" / "trials" / "ring-star2.json").read_text())
    line = "h0, h1 wrote 2 files (4 KiB) that are not kept: outputs: [notes.txt]"
    assert record["not_kept"] == [line, "outputs: no rank wrote never.txt"]
    assert f"noted: {line}" in done.stdout
    words = ("trace", "timeline", str(tmp_path / "out"), "--trial", "ring-star2", "--out", str(tmp_path / "t.json"))
    assert call(tmp_path, *words).returncode == 0
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert {"all_gather", "chunks"} <= {one["name"] for one in events if one["ph"] == "X"}
