"""The archive of code for hosts has the layout of an installation, no links, and nothing that hosts do not need."""

from __future__ import annotations

import tarfile
from pathlib import Path

from testbed.lab.baremetal.preparing.hosts import MARK, bundle


def test_every_file_is_there_once_and_none_is_a_link(tmp_path: Path) -> None:
    digest, path = bundle(tmp_path)
    with tarfile.open(path) as tar:
        entries = tar.getmembers()
    names = [entry.name for entry in entries]
    assert all(entry.isfile() for entry in entries)
    assert len(names) == len(set(names)) > 500
    assert {name.split("/")[1] for name in names if name != MARK} == {"testbed"}
    for module in ("workloads/worker", "topologies/model", "lab/baremetal/on_hosts/agent"):
        assert f"code-{digest}/testbed/{module}.py" in names
    assert not [name for name in names if name.startswith(f"code-{digest}/testbed/analysis/")]
