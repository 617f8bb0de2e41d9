"""What a host is told of a rank of a script: its file, with addresses and paths as they are there."""

from __future__ import annotations

import json
from pathlib import Path

from testbed.lab.baremetal.controller.shipping import Site, launching
from testbed.lab.baremetal.preparing.inventory import Host, InventoryNic
from testbed.lab.programs import Launch, Program
from testbed.workloads.job import Peer
from testbed.workloads.rank_job import VARIABLE, RankJob


def test_a_ranks_file_is_sent_with_the_plan_and_names_what_is_there(tmp_path: Path) -> None:
    plan, path = tmp_path / "forest.npz", tmp_path / "h1.rank.json"
    plan.write_bytes(b"trees")
    job = RankJob(
        node=1,
        name="h1",
        rank=1,
        world=2,
        kind="script",
        plan=str(plan),
        peers=(Peer(0, "10.0.0.2", "10.0.0.1", 10000),),
        addresses=("10.0.0.1", "10.0.0.2"),
        chunk_bytes=1024,
        congestion_control="reno",
        start_timeout_s=1.0,
        timeout_s=1.0,
        samples=str(tmp_path / "h1" / "rank-samples.jsonl"),
        position=str(tmp_path / "h1" / "position"),
    )
    path.write_text(job.text())
    program = Program(("python", "train.py"), {VARIABLE: str(path), "GLOO_SOCKET_IFNAME": "eth0"}, "/spec")
    host = Host("box", (InventoryNic("enp3s0"),), None, "/home/there", {})
    site = Site(
        host, {"10.0.0.1": "192.168.1.5", "10.0.0.2": "192.168.1.6"}, 3, "token", ["enp3s0"], "/home/there/work/token"
    )
    call, files, followed = launching(Launch("h1", 1, str(path), str(tmp_path / "logs/h1.log"), program), site)
    work = "/home/there/work/token/3/work"
    told = json.loads(files["3/work/h1.rank.json"][0])
    assert (told["plan"], told["addresses"]) == (f"{work}/forest.npz", ["192.168.1.5", "192.168.1.6"])
    assert told["samples"] == f"{work}/h1/rank-samples.jsonl"
    assert files["3/work/forest.npz"][0] == b"trees"
    assert followed["3/work/h1/rank-samples.jsonl"] == Path(job.samples)
    assert followed["3/work/h1/position"] == Path(job.position)
    assert "3/work/h1/position" in call.arguments["outputs"], "which is told when the rank has ended"
    assert f"{work}/h1.rank.json" in json.dumps(call.arguments)
    assert '"enp3s0"' in json.dumps(call.arguments)
    assert '"TMPDIR": "/home/there/work/token"' in json.dumps(call.arguments), "which goes when the run has ended"
